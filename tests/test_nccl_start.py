"""The last line before the silence of NCCL's start says what to switch off to prove it."""

from __future__ import annotations

import pytest
from log_docs import diagnosed, read_log
from small_jobs import report_of

from whyhang.analyzer.report import Report

COMM = "comm 0x5{rank} rank {rank} nranks {size} cudaDev 0 busId {rank}b000 commId 0x77"
START = f"ncclCommInitRank {COMM} - Init START"
COMPLETE = f"ncclCommInitRank {COMM} - Init COMPLETE"
USING = "Bootstrap: Using eth0:10.0.0.{rank}<0>"
MET = "Bootstrap timings total 0.01 (create 0.0, send 0.0, recv 0.0, ring 0.0, delay 0.0)"
P2P = "Channel 00/0 : {rank}[0] -> 1[1] via P2P/IPC"
SHM = "Channel 00/0 : {rank}[0] -> 1[1] via SHM/direct/direct"
IB = "Channel 00/0 : 0[0] -> 1[1] [{way}] via NET/IB/0/GDRDMA"
PLUGIN = "Channel 00/0 : 0[0] -> 1[1] [{way}] via NET/IBext_v8/0/GDRDMA"
SOCKET = "Channel 00/0 : 0[0] -> 1[1] [{way}] via NET/Socket/0"
WAYS = ("send", "receive")
NVLS = "NVLS Bind mem 0x7f UC handle 0x1 MC handle 0x2 size 1048576"


def log(*steps: str, size: int = 2) -> str:
    """Write what each rank says, step by step, in one log."""
    return "".join(
        f"node{rank}:10{rank}:10{rank} [{rank}] NCCL INFO "
        f"{step.format(rank=rank, size=size, way=WAYS[rank % 2])}\n"
        for step in steps
        for rank in range(size)
    )


def diagnosis(text: str) -> Report:
    """Diagnose a log."""
    return report_of(read_log(text))


@pytest.mark.parametrize(
    ("steps", "signature", "switch"),
    [
        ((USING, START), "nccl-start-bootstrap", "NCCL_SOCKET_IFNAME="),
        ((USING, START, MET, P2P), "nccl-start-peer-to-peer", "NCCL_P2P_DISABLE=1"),
        ((USING, START, MET, P2P, SHM), "nccl-start-shared-memory", "NCCL_SHM_DISABLE=1"),
        ((USING, START, MET, IB), "nccl-start-infiniband", "NCCL_IB_DISABLE=1"),
        ((USING, START, MET, PLUGIN), "nccl-start-infiniband", "NCCL_IB_DISABLE=1"),
        ((USING, START, MET, SOCKET), "nccl-start-sockets", "NCCL_SOCKET_IFNAME="),
        ((USING, START, MET, P2P, NVLS), "nccl-start-nvls", "NCCL_NVLS_ENABLE=0"),
    ],
)
def test_the_step_before_the_silence_names_the_switch_to_try(
    steps: tuple[str, ...], signature: str, switch: str
) -> None:
    """Nobody is blamed; what would prove it is one switch, named first."""
    report = diagnosis(log(*steps))
    first = report.findings[0]

    assert first.signature == signature
    assert first.culprit_ranks is None
    assert switch in first.next_steps[0]
    assert report.verdict == "hung"


def test_a_start_that_ends_well_tells_nothing() -> None:
    """Connections are made lazily after the start as well; a log may end with such lines."""
    text = log(USING, START, MET, P2P, COMPLETE, P2P, SHM)

    assert not any(f.signature.startswith("nccl-start") for f in diagnosis(text).findings)


@pytest.mark.parametrize(
    ("interfaces", "culprits"), [(("docker0", "docker0"), None), (("eth0", "veth12ab"), (1,))]
)
def test_a_bridge_of_containers_leads_nowhere(
    interfaces: tuple[str, str], culprits: tuple[int, ...] | None
) -> None:
    """An interface that exists only within its host is named, with the ranks that took it."""
    lines = log(USING, START).splitlines(keepends=True)
    text = "".join(
        line.replace("eth0", interfaces[number % 2]) for number, line in enumerate(lines)
    )
    first = diagnosis(text).findings[0]

    assert (first.signature, first.culprit_ranks) == ("nccl-start-virtual-interface", culprits)
    assert "NCCL_SOCKET_IFNAME" in first.next_steps[0]
    assert first.title.startswith(f"NCCL tries to meet over {interfaces[1]} (10.0.0.")


def test_addresses_of_two_families_do_not_meet() -> None:
    """One rank offers IPv6, the other two IPv4: they cannot call each other."""
    text = log(USING, START, size=3).replace(":10.0.0.2<", ":fe80::1%eth0<")
    first = diagnosis(text).findings[0]

    assert (first.signature, first.culprit_ranks) == ("nccl-address-families-differ", (2,))
    assert "NCCL_SOCKET_FAMILY" in first.next_steps[0]


def _own_logs(*behind: str, begun: int = 7) -> dict[int | None, str]:
    """Write a log for each of eight ranks: those that began NCCL's set-up, and the others."""
    one = "loading config\n" + log(USING, START, size=8)
    logs: dict[int | None, str] = {
        rank: "".join(line for line in one.splitlines(keepends=True) if f" [{rank}] NCCL" in line)
        for rank in range(begun)
    }
    return logs | dict(enumerate(behind, begun))


def test_a_rank_whose_log_ends_before_nccl_begins_is_behind_and_not_the_network() -> None:
    """Its file was given: it is no rank of which nothing is known."""
    report = diagnosed(_own_logs("loading config\ndownloading vocab.json\n"))

    assert report.findings[0].signature == "nccl-start-incomplete"
    assert report.findings[0].culprit_ranks == (7,)
    assert any("downloading vocab.json" in piece.quote for piece in report.findings[0].evidence)
    assert not any("Nothing was collected" in gap for gap in report.gaps)


@pytest.mark.parametrize(
    "logs",
    [
        _own_logs(begun=8),  # all have begun
        _own_logs(*(5 * ["loading config\n"]), begun=3),  # few print NCCL's lines at all
    ],
)
def test_who_merely_prints_nothing_of_nccl_is_not_behind(logs: dict[int | None, str]) -> None:
    """Where all ranks have begun, or most print none of its lines, nobody is named for sure."""
    named = [finding for finding in diagnosed(logs).findings if finding.culprit_ranks]
    assert all(finding.confidence < 0.5 for finding in named)
