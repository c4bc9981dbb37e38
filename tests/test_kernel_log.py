"""The kernel's log of a live job: what is about the job is kept, with times of day."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import regex
from fake_proc import FakeProc, elastic
from live_sites import collected, site_of
from log_docs import read_log
from small_jobs import ALL_REDUCE, ELSEWHERE, report_of, still

from whyhang import signatures
from whyhang.analyzer.facts import Fact, GpuAddress, Process, Role, Source, Trust, Who
from whyhang.analyzer.findings.signature import Kind
from whyhang.analyzer.report import Report
from whyhang.collectors.live.job.find import find_job
from whyhang.collectors.live.probes import kernel_log as kernel

BOOT = 1_700_000_000.0  # of FakeProc
HEALTHY = (
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.86.10",
    "nvidia-nvswitch0: Probing device 0000:c1:00.0",
    "pcieport 0000:00:01.0: AER: Corrected error received: 0000:01:00.0",
    "mlx5_core 0000:3b:00.0 ens1: Link up",
    "nfs: server store1 OK",
    "NVRM: Xid (PCI:0000:1b:00): 63, pid='<unknown>', name=<unknown>, Row Remapper: New row",
    "python3[200]: segfault at 0 ip 00007f error 4 in libx.so",  # of another user's program
    "Out of memory: Killed process 200 (chrome) total-vm:1kB, anon-rss:1kB, file-rss:1kB",
    "Out of memory: Killed process 4711 (chrome) total-vm:1kB, anon-rss:1kB, file-rss:1kB",
    "INFO: task jbd2/sda1-8:210 blocked for more than 120 seconds.",
    "NVRM: Xid (PCI:0000:1b:00): 13, pid=200, name=blender, Graphics SM Warp Exception",
    "usb 1-1: new high-speed USB device number 2",
)
FALLEN = "NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off"
KILLED = (
    "Memory cgroup out of memory: Killed process 101 (python3) total-vm:1kB, anon-rss:1kB, "
    "file-rss:1kB, shmem-rss:1kB, UID:1 pgtables:1kB oom_score_adj:0"
)
STUCK = "INFO: task python3:101 blocked for more than 120 seconds."


@pytest.fixture
def proc(tmp_path: Path) -> FakeProc:
    """Give a job of two ranks and the processes of others."""
    proc = FakeProc(tmp_path)
    proc.add(1, 0, "init")
    proc.add(50, 1, "torchrun train.py", {}, comm="torchrun", started=4000)
    for rank in (0, 1):
        proc.add(
            100 + rank, 50, "python3 train.py", elastic(rank, 2), comm="python3", exe="/bin/python3"
        )
    proc.add(200, 1, "blender", {}, comm="blender")
    proc.add(210, 1, "jbd2", {}, comm="jbd2/sda1-8")
    return proc


def kept(proc: FakeProc, monkeypatch: pytest.MonkeyPatch, *rows: tuple[float, str]) -> str:
    """Give what is kept of these records."""
    monkeypatch.setattr(kernel, "_records", lambda device, since: list(rows))
    host = proc.host()
    evidence = collected(kernel.collect, site_of(host, find_job(host, 100), hostname="node7"))
    return b"".join(file.data for file in evidence.files).decode()


def diagnosis(text: str, *more: Fact) -> Report:
    """Diagnose from a kept log and two ranks."""
    ranks = [
        Process(
            who=Who(rank=rank, trust=Trust.ENVIRONMENT, host="node7", pid=100 + rank),
            source=Source(file=f"/proc/{100 + rank}"),
            role=Role.RANK,
            state="S",
        )
        for rank in (0, 1)
    ]
    return report_of([*ranks, *more, *read_log(text, *_patterns(), name="node7/kernel.log")])


def _patterns() -> set[str]:
    return {pattern for s in signatures.load() for pattern in s.searched}


def test_lines_of_a_healthy_machine_make_no_finding(
    proc: FakeProc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scary lines that are harmless, or about programs of others, accuse nobody."""
    text = kept(proc, monkeypatch, *((BOOT + 50, line) for line in HEALTHY))

    assert "chrome" not in text
    assert "blender" not in text
    assert "usb" not in text
    report = diagnosis(text)
    loud = {s.id for s in signatures.load() if s.kind is Kind.CAUSE and s.level != "fallback"}
    assert {finding.signature for finding in report.findings} & loud == set()


def test_lines_before_the_job_are_left_out(proc: FakeProc, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults of last week are not this job's; its ranks began a second after boot."""
    began = BOOT + 1.0
    rows = ((began - 500, FALLEN), (began + 500, STUCK))

    text = kept(proc, monkeypatch, *rows)

    assert "fallen" not in text
    assert text.startswith("2023-11-14T22:21:41.000000+00:00 node7 kernel: INFO: task python3:101")


@pytest.mark.parametrize(
    ("line", "signature"), [(KILLED, "oom-killer-cgroup"), (STUCK, "hung-task")]
)
def test_a_line_about_a_rank_names_it(
    proc: FakeProc, monkeypatch: pytest.MonkeyPatch, line: str, signature: str
) -> None:
    """The pid that the kernel names is the rank's, on the same host."""
    first = diagnosis(kept(proc, monkeypatch, (BOOT + 50, line))).findings[0]

    assert (first.signature, first.culprit_ranks) == (signature, (1,))


def test_numbers_of_another_pid_namespace_name_nobody(
    proc: FakeProc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container the kernel's pids are the host's: equal numbers are chance."""
    (proc.folder / "self" / "ns").mkdir(parents=True)
    (proc.folder / "self" / "ns" / "pid").symlink_to("pid:[4026539999]")

    first = diagnosis(kept(proc, monkeypatch, (BOOT + 50, STUCK))).findings[0]

    assert (first.signature, first.culprit_ranks) == ("hung-task", None)


def test_a_gpu_is_tied_to_its_rank_by_its_address() -> None:
    """An Xid without a pid names the rank whose NCCL lines gave the same bus id."""
    line = f"2026-07-01T13:06:53.123456+00:00 node7 kernel: {FALLEN}\n"
    other = line.replace("1b:00", "1c:00")
    who = Who(host="node7", pid=101)
    bus = GpuAddress(bus="0000:1b:00", who=who, source=Source(file="nccl.log"))

    assert diagnosis(line, bus).findings[0].culprit_ranks == (1,)
    assert diagnosis(other, bus).findings[0].culprit_ranks is None
    assert diagnosis(line).findings[0].culprit_ranks is None


def test_consequences_stand_under_their_cause() -> None:
    """Channels that the driver removes after a fault are no fault of their own."""
    head = "2026-07-01T13:06:5{}.1+00:00 node7 kernel: NVRM: Xid (PCI:0000:1b:00): "
    text = head.format(3) + "74, pid='<unknown>', name=<unknown>, NVLink: fatal error on link 6\n"
    text += head.format(4) + "45, pid=101, name=python3, Ch 00000010\n"
    text += head.format(5) + "154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset)\n"

    first, *others = diagnosis(text).findings

    assert first.signature == "xid-nvlink"
    assert "drain node7" in first.remedies[0]
    assert {(f.signature, f.caused_by) for f in others} == {
        ("xid-after-effect", 0),
        ("gpu-requires-reset", 0),
    }


def test_the_device_gives_times_of_day(tmp_path: Path) -> None:
    """Microseconds since boot become the time at which the line was written."""
    device = tmp_path / "kmsg"
    uptime = time.monotonic()
    device.write_bytes(f"6,1,{int(uptime * 1e6)},-;{STUCK}\n SUBSYSTEM=x\n".encode())

    rows = kernel._records(str(device))

    assert rows[0][1] == STUCK
    assert abs(rows[0][0] - time.time()) < 5


def test_a_log_that_may_not_be_read_is_one_sentence(
    proc: FakeProc, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A missing right costs a sentence that says what to do."""
    host = proc.host()

    monkeypatch.setattr(kernel, "DEVICE", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", str(tmp_path))

    evidence = collected(kernel.collect, site_of(host, find_job(host, 100)))

    assert evidence.files == []
    assert len(evidence.facts) == 1
    assert "CAP_SYSLOG" in str(evidence.facts[0])
    assert os.environ["PATH"] == str(tmp_path)


def test_the_table_of_xids_is_whole() -> None:
    """Each number stands in one signature, with a meaning and something to do, for a person."""
    numbers: list[str] = []
    for signature in signatures.load():
        for row in getattr(signature.when, "adds", {}).get("xid", {}).items():
            number, words = row
            line = f"NVRM: Xid (PCI:0000:1b:00): {number}, pid=7, name=python3"
            assert any(regex.search(p, line) for p in signature.patterns), number
            assert words.keys() == {"meaning", "action"}
            assert all(text.strip() == text != "" for text in words.values())
            numbers.append(number)

    assert len(numbers) > 50
    assert sorted(numbers) == sorted(set(numbers))


OTHERS = (
    "python3 invoked oom-killer: gfp_mask=0x140dca(GFP_HIGHUSER_MOVABLE), order=0",
    "Out of memory: Killed process 4711 (python3) total-vm:1kB, anon-rss:1kB, file-rss:1kB",
)
QUEUE = """
get (multiprocessing/queues.py:103)
load (train.py:20)
<module> (train.py:60)
"""


def _with_log(stacks: dict[int, str], *lines: str, world: int | None = None) -> Report:
    text = "".join(f"2023-11-14T22:21:41.000000+00:00 node7 kernel: {line}\n" for line in lines)
    return report_of(
        [*still(stacks, world=world), *read_log(text, *_patterns(), name="node7/kernel.log")]
    )


def test_a_process_killed_beside_a_whole_job_is_none_of_its_ranks() -> None:
    """Every rank lives: memory that ran out for another program is not why they wait."""
    findings = _with_log({0: ALL_REDUCE, 1: ELSEWHERE, 2: ALL_REDUCE}, *OTHERS).findings

    assert findings[0].culprit_ranks == (1,)
    assert all(f.category != "rank-oom-killed" for f in findings)


def test_a_killed_process_speaks_where_a_rank_is_missing() -> None:
    """The rank that has no process may well be the one that was killed."""
    findings = _with_log({0: ALL_REDUCE, 2: ALL_REDUCE}, *OTHERS, world=3).findings

    assert findings[0].category == "rank-oom-killed"


def test_a_killed_process_may_be_the_helper_that_a_rank_waits_for() -> None:
    """A worker that was killed has no number any more: a possibility, and no more than that."""
    findings = _with_log({0: ALL_REDUCE, 1: QUEUE, 2: ALL_REDUCE}, *OTHERS).findings
    killed = [f for f in findings if f.signature == "oom-killer-global"]

    assert findings[0].culprit_ranks == (1,)
    assert [f.confidence < 0.5 for f in killed] == [True]


def test_what_was_killed_before_the_job_began_is_not_kept(
    proc: FakeProc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A minute before, a rank of the last run may have been killed; this one had no process."""
    text = kept(proc, monkeypatch, (BOOT - 30, OTHERS[1]), (BOOT - 30, FALLEN))

    assert "4711" not in text
    assert "fallen" in text
