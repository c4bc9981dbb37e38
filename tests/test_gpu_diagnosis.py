"""What of the state of GPUs is a fault, and what is none; and what files of several hosts tell."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import pytest
from gpu_docs import gpus, listed, node, row, table, uuid, xml_gpu, xml_log
from gpu_jobs import RESTS, SPINS, WORKS, job, states
from small_jobs import report_of

from whyhang.analyzer.commands.diagnose import add_arguments, report_on
from whyhang.analyzer.facts import DriverSilence, Source, Who, replace

FAULTS = [
    ({"mode": "GPU is lost"}, "gpu-out-of-reach", "gpu-fell-off-bus"),
    ({"busy": "Unknown Error", "power": "ERR!"}, "gpu-unreadable", "gpu-hardware-xid"),
    ({"reset": "Yes"}, "gpu-to-be-reset", "gpu-hardware-xid"),
    ({"busy": "[GPU requires reset]"}, "gpu-to-be-reset", "gpu-hardware-xid"),
    ({"failure": "Yes"}, "gpu-memory-repair", "gpu-hardware-xid"),
    ({"fabric": "In Progress", "status": "N/A"}, "gpu-not-in-fabric", "nvlink-error"),
]


@pytest.mark.parametrize(("values", "signature", "category"), FAULTS)
def test_a_broken_gpu_is_the_cause(values: dict[str, str], signature: str, category: str) -> None:
    """The rank on it is named, with the host and the GPU to drain."""
    facts = [replace(f, who=Who(host="node7")) for f in states({2: values})]  # type: ignore[type-var]
    report = job(facts)
    findings = {f.signature: f for f in report.findings}

    assert findings[signature].category == category
    assert findings[signature].culprit_ranks == (2,)
    assert "GPU 2 of node7 (0000:52:00)" in findings[signature].title
    assert any("node7" in text for text in findings[signature].remedies)


def test_uncorrectable_errors_that_grow_are_a_cause() -> None:
    """Between two looks the volatile count went up: it happens now."""
    later = [replace(f, look=1) for f in states({6: {"ecc": "3"}}, looks=1)]  # type: ignore[type-var]
    first = job([*states(looks=1), *later]).findings[0]

    assert (first.signature, first.culprit_ranks) == ("gpu-ecc-uncorrected", (6,))
    assert first.confidence >= 0.9
    assert "grew from 0 to 3" in first.explanation


def test_old_counters_are_no_cause() -> None:
    """What a board counted over its life says nothing of this job."""
    report = report_of(gpus(node({6: {"ecc_ever": "12"}}, **RESTS)))

    assert (report.findings, report.verdict) == ((), "inconclusive")


def links(errors: Mapping[int, int] | None = None, inactive: tuple[int, ...] = ()) -> str:
    """Write ``nvlink -s`` or, with errors, ``nvlink -e`` of eight GPUs with two links each."""
    text = ""
    for n in range(8):
        text += f"GPU {n}: NVIDIA H200 (UUID: {uuid(n)})\n"
        for link in range(2):
            if errors is not None:
                count = errors.get(n, 5) if link else 0
                text += f"\t Link {link}: Replay Errors: 0\n\t Link {link}: CRC Errors: {count}\n"
            else:
                down = n in inactive and link == 1
                text += f"\t Link {link}: {'<inactive>' if down else '26.562 GB/s'}\n"
    return text


def test_links_that_are_down_on_one_gpu() -> None:
    """Fewer active links than the GPUs beside it: the link is broken."""
    first = job([*states(), *gpus(links(inactive=(4,)))]).findings[0]

    assert (first.signature, first.category) == ("gpu-nvlink-down", "nvlink-error")
    assert first.culprit_ranks == (4,)


def test_links_that_no_gpu_has_are_no_fault() -> None:
    """A link that is inactive on every GPU is not wired."""
    findings = job([*states(), *gpus(links(inactive=tuple(range(8))))]).findings

    assert "gpu-nvlink-down" not in {f.signature for f in findings}


def test_only_errors_that_grow_count() -> None:
    """Every link has old errors; those of one GPU grew between two looks."""
    before, after = gpus(links({})), gpus(links({1: 900}))
    first = job([*states(), *before, *(replace(f, look=1) for f in after)]).findings[0]

    assert (first.signature, first.culprit_ranks) == ("gpu-nvlink-errors", (1,))
    again = job([*states(), *before, *(replace(f, look=1) for f in before)])
    assert "gpu-nvlink-errors" not in {f.signature for f in again.findings}


def test_a_lost_link_in_the_topology() -> None:
    """In a full mesh, the GPU that all others reach by fewer links is the odd one."""
    rows = []
    for n in range(4):
        cells = ["X" if n == m else "NV12" if 2 in (n, m) else "NV18" for m in range(4)]
        rows.append(f"GPU{n}\t" + "\t".join(cells) + "\t0-47\t0")
    text = "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\n" + "\n".join(rows)
    findings = report_of(gpus(text)).findings

    assert [f.signature for f in findings] == ["gpu-nvlink-down"]
    assert "GPU 2" in findings[0].title


def test_a_brake_on_one_gpu_is_slow() -> None:
    """Held down by heat while the others are not, and no standstill: slow, perhaps."""
    report = report_of(gpus(node({2: {"thermal": "Active"}}, **WORKS)))
    assert [f.signature for f in report.findings] == ["gpu-slowed-down"]
    assert report.verdict == "inconclusive"

    everywhere = report_of(gpus(node(thermal="Active", **WORKS)))
    assert everywhere.findings == ()


def test_a_healthy_machine_gives_nothing() -> None:
    """Idle or at work, with or without a job, in every shape: no finding."""
    idle = {**RESTS, "used": "9 MiB"}
    for text in (
        xml_log([xml_gpu(n, **idle) for n in range(8)]),
        node(**WORKS),
        table("\n".join(row(n, "0%", " 71W") for n in range(8))),
        table(
            "\n".join(row(n, "100%", "640W") for n in range(8)),
            "\n".join(listed(n, 5 + n) for n in range(8)),
        ),
    ):
        report = report_of(gpus(text))
        assert (report.findings, report.verdict) == ((), "inconclusive")
        assert "shows no fault" in report.headline


STACK = """Process {pid}: python train.py
Python v3.11.2 (/usr/bin/python3.11)

Thread {pid} (idle): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:3100)
    wrapper (torch/distributed/c10d_logger.py:83)
    train (train.py:40)
    <module> (train.py:60)
"""


def hosts(folder: Path, *, broken: Mapping[int, Mapping[str, str]]) -> None:
    """Write what was collected by hand on two hosts: stacks, and nvidia-smi twice on each."""
    for number, host in enumerate(("node1", "node2")):
        changed = broken if number else {}
        for look in (1, 2):
            text = node(changed, host=host, first_pid=1000 * (number + 1), **SPINS)
            (folder / f"{host}.nvidia-smi.{look}.xml").write_text(text)
        for n in range(8):
            path = folder / f"{host}.rank{8 * number + n}.pyspy.txt"
            path.write_text(STACK.format(pid=1000 * (number + 1) + n))


def test_a_folder_of_two_hosts(tmp_path: Path) -> None:
    """Files of any name, of several hosts, read as every user hands them in."""
    hosts(tmp_path, broken={3: RESTS})
    report, _ = report_on([], [str(tmp_path)], options())

    assert report.verdict == "hung"
    assert report.findings[0].signature == "gpu-never-launched"
    assert report.findings[0].culprit_ranks == (11,)
    assert "GPU 3 of node2" in report.findings[0].title


def test_an_xid_and_the_state_it_left_are_one_cause(tmp_path: Path) -> None:
    """The kernel says what happened, the state says which rank: one cause, with its effects."""
    hosts(tmp_path, broken={3: {"mode": "GPU is lost"}})
    (tmp_path / "node2.dmesg.txt").write_text(
        "[ 1234.567890] NVRM: Xid (PCI:0000:61:00): 79, pid=2003, name=python3, "
        "GPU has fallen off the bus.\n"
    )
    report, _ = report_on([], [str(tmp_path)], options())
    first = report.findings[0]

    assert first.category == "gpu-fell-off-bus"
    assert first.culprit_ranks == (11,)
    assert all(f.caused_by == 0 for f in report.findings[1:])


def test_a_folder_of_healthy_hosts(tmp_path: Path) -> None:
    """State alone, of machines at rest, in every shape: nothing is found."""
    (tmp_path / "node1.xml").write_text(node(host="node1", **RESTS))
    (tmp_path / "node2.txt").write_text(table("\n".join(row(n, "0%", " 71W") for n in range(8))))
    report, _ = report_on([], [str(tmp_path)], options())

    assert (report.findings, report.verdict) == ((), "inconclusive")


def options() -> argparse.Namespace:
    """Give the options of a plain call."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(["x"])


def test_a_driver_that_hangs_is_evidence() -> None:
    """What did not come back from the driver makes hardware the cause on that host."""
    silence = DriverSilence(
        says="nvidia-smi -q -x did not come back in 3.1 s and sleeps in the kernel",
        who=Who(host="node7"),
        source=Source(file="node7/claims.json", line=3),
    )
    first = job([silence]).findings[0]

    assert (first.signature, first.culprit_ranks) == ("gpu-driver-hangs", None)
    assert "node7" in first.title
