"""Versions and settings are compared over ranks; a minority is named where it matters."""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

import pytest
from log_docs import read_log
from small_jobs import report_of

from whyhang.analyzer.facts import (
    Fact,
    Library,
    Process,
    Role,
    Setting,
    SettingName,
    Source,
    Trust,
    Who,
)
from whyhang.analyzer.report import Report
from whyhang.collectors.live.files import Files
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import JobProcess
from whyhang.collectors.live.probes import libraries
from whyhang.collectors.live.probes.libraries import Fingerprints, build_id
from whyhang.collectors.live.proc import Proc

MAPS = """\
7f00-7f01 r--p 00000000 08:01 100    /env/site-packages/nvidia/nccl/lib/libnccl.so.2
7f01-7f02 r-xp 00001000 08:01 100    /env/site-packages/nvidia/nccl/lib/libnccl.so.2
7f03-7f04 r--p 00000000 08:01 101    /env/site-packages/torch/lib/libtorch_cuda.so
7f05-7f06 r--p 00000000 08:01 102    /usr/lib/x86_64-linux-gnu/libcuda.so.570.86.10
7f07-7f08 r--p 00000000 08:01 103    /opt/plugin/libnccl-net-ofi.so (deleted)
7f09-7f0a r--p 00000000 08:01 104    /usr/lib/x86_64-linux-gnu/libc.so.6
7f0b-7f0c rw-p 00000000 00:00 0      [heap]
"""
INIT = (
    "node1:{pid}:{pid} [{rank}] NCCL INFO ncclCommInitRank comm 0x5{rank} rank {rank} nranks 4 "
    "cudaDev {rank} nvmlDev {rank} busId {rank}b000 commId 0x77 - Init {event}\n"
)


def about(rank: int) -> Who:
    """Say who a rank is."""
    return Who(rank=rank, trust=Trust.ENVIRONMENT, host="n", pid=100 + rank)


def version(rank: int, name: SettingName, value: str) -> Setting:
    """Say what version a rank has."""
    return Setting(name=name, value=value, who=about(rank), source=Source(file="claims"))


def nccl_library(rank: int, path: str, build: str) -> Library:
    """Say which NCCL a rank has loaded."""
    source = Source(file="claims")
    return Library(name="libnccl.so", path=path, build=build, who=about(rank), source=source)


def ranks(count: int = 4, **environ: dict[int, str]) -> list[Fact]:
    """Give ranks that stand in an all_reduce, with variables by rank."""
    from small_jobs import ALL_REDUCE, dump

    all_facts: list[Fact] = []
    for rank in range(count):
        who = Who(rank=rank, trust=Trust.ENVIRONMENT, host="n", pid=100 + rank)
        own = {name: by_rank[rank] for name, by_rank in environ.items() if rank in by_rank}
        all_facts.append(
            Process(
                who=who,
                source=Source(file="processes.json"),
                role=Role.RANK,
                state="S",
                environ={"RANK": str(rank), **own},
            )
        )
        all_facts.append(dump(rank, ALL_REDUCE))
    return all_facts


def of(report: Report, signature: str) -> list[tuple[tuple[int, ...] | None, str]]:
    """Give culprits and titles of one signature."""
    return [(f.culprit_ranks, f.title) for f in report.findings if f.signature == signature]


def test_a_minority_with_another_nccl_is_named() -> None:
    """One rank of four with another NCCL release is the one to look at."""
    versions = ["2.27.5", "2.27.5", "2.26.2", "2.27.5"]
    report = report_of([*ranks(), *(version(r, "nccl", v) for r, v in enumerate(versions))])

    assert of(report, "nccl-versions-differ") == [
        ((2,), "Rank 2 runs NCCL 2.26.2, the others 2.27.5")
    ]
    assert report.findings[0].category == "nccl-version-mismatch"


def test_halves_name_nobody() -> None:
    """With two and two, neither half is the odd one."""
    versions = ["2.27.5", "2.27.5", "2.26.2", "2.26.2"]
    report = report_of([*ranks(), *(version(r, "nccl", v) for r, v in enumerate(versions))])

    assert of(report, "nccl-versions-differ")[0][0] is None


def test_differences_that_seldom_matter_are_one_line() -> None:
    """Another driver, patch release or build is told in a note and accuses nobody."""
    rows = [version(r, "driver", "570.86" if r else "560.35") for r in range(4)]
    rows += [version(r, "nccl", "2.27.5" if r < 2 else "2.27.3") for r in range(4)]
    rows += [nccl_library(r, "/a/libnccl.so.2", "aa" if r else "bb") for r in range(4)]

    report = report_of([*ranks(), *rows])

    assert not any(f.signature.endswith("-differ") for f in report.findings)
    (note,) = report.notes
    assert "driver (560.35 on rank 0, 570.86 on ranks 1-3)" in note
    assert "libnccl.so (" in note
    assert "nccl (" in note


def test_the_place_of_a_library_is_no_difference() -> None:
    """The same build at another path is the same library."""
    rows = [nccl_library(r, f"/env{r}/libnccl.so.2", "aa") for r in range(4)]

    assert report_of([*ranks(), *rows]).notes == ()


def test_a_setting_that_only_one_rank_has_is_reported() -> None:
    """An algorithm forced on one rank makes it wait for messages that never come."""
    report = report_of(ranks(NCCL_ALGO={3: "Tree"}))

    assert of(report, "nccl-settings-differ") == [
        ((3,), "Rank 3 has NCCL_ALGO=Tree, the others: not set")
    ]
    own = {rank: f"eth{rank}" for rank in range(4)}
    assert of(report_of(ranks(NCCL_SOCKET_IFNAME=own)), "nccl-settings-differ") == []


def test_logs_tell_versions_and_settings_too() -> None:
    """Lines of NCCL's own log are compared as well, by the process that wrote them."""
    text = ""
    for rank in range(4):
        pid, version = 100 + rank, "2.26.2" if rank == 1 else "2.27.5"
        head = f"node1:{pid}:{pid} [{rank}] NCCL INFO "
        text += f"{head}NCCL version {version}+cuda12.9\n"
        text += f"{head}NCCL_PROTO set by environment to Simple.\n" if rank == 2 else ""
        text += INIT.format(pid=pid, rank=rank, event="START")
    report = report_of(read_log(text))

    assert of(report, "nccl-versions-differ")[0][0] == (1,)
    assert of(report, "nccl-settings-differ")[0][0] == (2,)


def test_a_job_that_goes_on_does_not_mind() -> None:
    """Without anyone who waits, a difference is no cause."""
    text = ""
    for rank in range(4):
        pid = 100 + rank
        text += f"node1:{pid}:{pid} [{rank}] NCCL INFO NCCL version 2.2{rank}.1+cuda12.9\n"
        text += INIT.format(pid=pid, rank=rank, event="START")
        text += INIT.format(pid=pid, rank=rank, event="COMPLETE")

    assert of(report_of(read_log(text)), "nccl-versions-differ") == []


def test_maps_name_the_libraries_that_matter() -> None:
    """Each library is listed once, with a mark on one that was replaced on disk."""
    listed = libraries.libraries(MAPS.encode(), about(7), Source(file="maps"))
    rows = {library.name: library for library in listed}

    assert set(rows) == {"libnccl.so", "libtorch_cuda.so", "libcuda.so", "libnccl-net-ofi.so"}
    assert [name for name, library in rows.items() if library.deleted] == ["libnccl-net-ofi.so"]


def test_versions_come_from_what_lies_beside_the_library(tmp_path: Path) -> None:
    """The wheel's name tells NCCL, torch/version.py tells torch and CUDA; nothing is imported."""
    site = tmp_path / "site-packages"
    for folder in ("nvidia/nccl/lib", "torch/lib", "nvidia_nccl_cu12-2.27.5.dist-info"):
        (site / folder).mkdir(parents=True)
    (site / "torch/version.py").write_text(
        "__version__ = '2.9.1+cu128'\ncuda: Optional[str] = '12.8'\n"
    )
    proc = tmp_path / "proc"
    (proc / "7").mkdir(parents=True)
    (proc / "driver/nvidia").mkdir(parents=True)
    (proc / "driver/nvidia/version").write_text(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.10  Thu Jan\nGCC version: 12\n"
    )
    (proc / "7/maps").write_text(MAPS.replace("/env/site-packages", str(site)))
    member = JobProcess(pid=7, ppid=1, role=Role.RANK, rank=0)

    facts = Fingerprints(Host(Proc(str(proc))), "n").facts([member])
    rows = {f.name: f.value if isinstance(f, Setting) else str(f) for f in facts}

    assert (rows["nccl"], rows["torch"], rows["cuda"]) == ("2.27.5", "2.9.1+cu128", "12.8")
    assert rows["driver"] == "570.86.10"
    assert "(deleted), inode 08:01/103" in rows["libnccl-net-ofi.so"]


@pytest.mark.skipif(sys.platform != "linux", reason="ELF")
def test_the_build_id_is_read_from_the_note(tmp_path: Path) -> None:
    """The note of an ELF file is its build id; damaged files have none."""
    note = struct.pack("<III", 4, 20, 3) + b"GNU\0" + bytes(range(20))
    head = (
        b"\x7fELF\x02\x01\x01"
        + bytes(9)
        + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    )
    table = struct.pack("<IIQQQQQQ", 4, 4, 120, 0, 0, len(note), len(note), 4)
    good = tmp_path / "good.so"
    good.write_bytes(head + table + note)

    files = Files(Proc())
    assert build_id(files, str(good)) == bytes(range(20)).hex()
    for size in range(0, 120 + len(note), 7):
        (tmp_path / "cut.so").write_bytes((head + table + note)[:size])
        build_id(files, str(tmp_path / "cut.so"))
    assert build_id(files, str(tmp_path / "none")) is None
    assert build_id(files, os.devnull) is None
