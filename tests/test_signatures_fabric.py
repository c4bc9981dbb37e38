"""Traps in what NCCL, the GPU driver, the kernel and MPI print: what each line must not become."""

from __future__ import annotations

import functools

import pytest
import regex
from log_docs import diagnosed_files

from whyhang import signatures
from whyhang.analyzer.findings.signature import Kind, Signature
from whyhang.analyzer.queries.logs.log_ranks import ranks_in

NCCL = "node3:4711:4802 [2] "
XID = "[12345.678] NVRM: Xid (PCI:0000:1b:00): {}, pid=48213, name=python3, text of the driver"
COMPLETIONS = (
    "NET/IB : Got completion from peer 10.1.0.4<4> with error {}, opcode 0, len 0, vendor err 1",
    "NET/IB: Got completion from peer 10.1.0.4<43210> with status={} opcode=0 len=0 vendor err 1",
    "NET/IB: Got completion from peer 10.1.0.4<4> with status=IBV_WC_X_ERR({}) opcode=IBV_WC_SEND",
)
HEALTHY = (
    "NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>",
    "NCCL INFO NET/Plugin : Plugin load returned 17 : libnccl-net.so: cannot open shared object",
    "NCCL INFO NET/Plugin: Could not find: libnccl-net.so.",
    "NCCL INFO Failed to open libibverbs.so[.1]",
    "NCCL INFO NET/IB : No device found.",
    (
        "NCCL INFO socketPollConnect: connect to 10.8.1.2<54709> returned Connection refused, "
        "retrying (3/34) after sleep for 300 msec"
    ),
    "NCCL INFO P2P is disabled between connected GPUs 1 and 0. You can repress this message",
    "NCCL INFO NVLS multicast support is not available on dev 0",
    "NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC",
    "NCCL INFO ncclCommInitRank comm 0x55 rank 3 nranks 8 cudaDev 3 - Init COMPLETE",
    "transport/net_ib.cc:94 NCCL WARN NET/IB : mlx5_3:1 Got non-fatal async event: port active(9)",
    "NCCL INFO socketProgressOpt: abort called",
    "NCCL INFO [Service thread] Connection closed by localRank 3",
    "proxy.cc:1458 NCCL WARN [Service thread] Accept failed Resource temporarily unavailable",
    (
        "proxy.cc:1497 NCCL WARN [Service thread] Could not receive type from localRank 0, res=3, "
        "closed=0"
    ),
    (
        "proxy.cc:1521 NCCL WARN [Proxy Service 0] Failed to execute operation Close from rank 0, "
        "retcode 3"
    ),
    "NCCL INFO comm 0x55 rank 3 nranks 8 cudaDev 3 busId 1b000 - Abort COMPLETE",
    (
        "misc/shmutils.cc:180 NCCL WARN unlink shared memory /dev/shm/nccl-aB3 failed, error: "
        "No such file or directory"
    ),
)


@functools.cache
def compiled() -> tuple[tuple[Signature, tuple[regex.Pattern[str], ...]], ...]:
    """Compile all patterns once, but for the one that only speaks where no other does."""
    known = (s for s in signatures.load() if s.id != "nccl-warning")
    return tuple((s, tuple(map(regex.compile, s.patterns))) for s in known)


def matching(line: str) -> dict[str, Signature]:
    """Find the signatures that one line speaks for."""
    return {s.id: s for s, patterns in compiled() if any(p.search(line) for p in patterns)}


def fields(name: str, line: str) -> dict[str, str]:
    """Read what the patterns of a signature capture in a line."""
    (patterns,) = (patterns for s, patterns in compiled() if s.id == name)
    fields: dict[str, str] = {}
    for pattern in patterns:
        if match := pattern.search(line):
            fields |= {key: value for key, value in match.groupdict().items() if value}
    return fields


@pytest.mark.parametrize("line", HEALTHY)
def test_a_healthy_job_gives_no_evidence_against_itself(line: str) -> None:
    """What NCCL prints while a good job starts and ends is noise, however it sounds."""
    assert {s.kind for s in matching(NCCL + line).values()} <= {Kind.NOISE}


@pytest.mark.parametrize(
    ("numbers", "verdict", "kind"),
    [
        ((79,), "xid-fell-off-bus", Kind.CAUSE),
        ((48, 64, 94, 95, 140, 157, 171, 172), "xid-ecc", Kind.CAUSE),
        ((74, 136, *range(144, 151), 155), "xid-nvlink", Kind.CAUSE),
        ((119, 120), "xid-gsp", Kind.CAUSE),
        ((46, 54, 62, 109, 110, 143, 151, 158, 160, 161, 167), "xid-gpu-stopped", Kind.CAUSE),
        ((8, 13, 31, 32, 69), "xid-application-fault", Kind.CAUSE),
        ((43, 45), "xid-after-effect", Kind.CONSEQUENCE),
        ((38, 61, 63, 92, 121, 137, 141, 156), "xid-informational", Kind.NOISE),
    ],
)
def test_each_xid_has_one_verdict(numbers: tuple[int, ...], verdict: str, kind: Kind) -> None:
    """An Xid is a fault of hardware, of the program, an effect or nothing, and never two."""
    for number in numbers:
        matched = matching(XID.format(number))

        assert {name: s.kind for name, s in matched.items()} == {verdict: kind}, number
        assert fields(verdict, XID.format(number))["pid"] == "48213"


@pytest.mark.parametrize("shape", COMPLETIONS)
def test_each_completion_status_has_one_verdict(shape: str) -> None:
    """A status of InfiniBand means one thing in the words of every NCCL version."""
    verdicts = {5: "nccl-ib-flushed", 12: "nccl-ib-retry-exceeded"}
    verdicts |= dict.fromkeys((4, 8), "rdma-local-error")
    verdicts |= dict.fromkeys((10, 11), "nccl-ib-access-error")

    for status in range(1, 23):
        expected = verdicts.get(status, "nccl-ib-completion-error")
        assert set(matching(NCCL + shape.format(status))) == {expected}, status


def test_device_numbers_are_not_taken_for_ranks() -> None:
    """The number in brackets of an NCCL line is a local device; no pattern reads it as a rank."""
    for signature, _ in compiled():
        for line in signature.matches:
            if " [2] " not in line and not regex.search(r"\[\d+\] .*NCCL (?:WARN|INFO)", line):
                continue
            named = fields(signature.id, regex.sub(r" \[\d+\] ", " [77] ", line, count=1))
            ranks = ranks_in(named.get("rank", "") + " " + named.get("ranks", ""))
            assert 77 not in ranks, (signature.id, line)
            assert "pid" not in named, (signature.id, line)


@pytest.mark.parametrize(
    "line",
    [
        "misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer n9<55912>",
        (
            "misc/socket.cc:57 NCCL WARN socketProgressOpt: Call to recv from 10.1.0.4<4> failed : "
            "Connection reset by peer"
        ),
        (
            "proxy.cc:1497 NCCL WARN [Service thread] Could not receive type from localRank 2, "
            "res=6, closed=0"
        ),
    ],
)
def test_a_lost_peer_is_an_effect_that_blames_nobody(line: str) -> None:
    """Who reports a closed connection is a witness, and the address in it names no rank."""
    matched = matching(NCCL + line)

    assert [s.kind for s in matched.values()] == [Kind.CONSEQUENCE]
    assert not {"rank", "ranks", "pid"} & {k for name in matched for k in fields(name, line)}


@pytest.mark.parametrize(
    ("line", "name", "named"),
    [
        (
            "Duplicate GPU detected : rank 5 and rank 1 both on CUDA device 1b000",
            "duplicate-gpu",
            (1, 5),
        ),
        (
            "Bootstrap Root : rank 3 of 8 ranks has already checked in",
            "nccl-rank-checked-in-twice",
            (3,),
        ),
        ("  Process name: [[62823,1],2]", "mpirun-exit-code", (2,)),
        (
            "mpirun noticed that process rank 3 with PID 0 on node n4 exited on signal 9 (Killed).",
            "mpirun-rank-killed",
            (3,),
        ),
        ("MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD", "mpi-abort", (2,)),
        ("=   RANK 3 PID 65033 RUNNING AT n0042", "mpi-hydra-bad-termination", (3,)),
    ],
)
def test_ranks_that_a_line_names_are_read(line: str, name: str, named: tuple[int, ...]) -> None:
    """A line that names ranks gives just these, and no process id beside them."""
    values = fields(name, line)

    assert tuple(sorted(ranks_in(values.get("rank", "") + " " + values.get("ranks", "")))) == named
    assert "pid" not in values


def test_who_asked_for_memory_is_not_who_was_killed() -> None:
    """The invoker of the OOM killer is no victim, and a killed worker is no killed rank."""
    invoked = "[9.1] python invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER), order=0"
    killed = "[9.2] Out of memory: Killed process 25694 (python3) total-vm:20647680kB, anon-rss:9kB"
    worker = "[9.2] Memory cgroup out of memory: Killed process 999 (pt_data_worker) total-vm:9kB"

    assert {s.kind for s in matching(invoked).values()} == {Kind.CONSEQUENCE}
    assert fields("oom-killer-global", killed)["pid"] == "25694"
    assert set(matching(worker)) == {"oom-killer-dataloader"}


def test_two_kinds_of_truncated_messages_are_distinguished() -> None:
    """Bootstrap messages tell of set-up out of step, network messages of unequal collectives."""
    setup = NCCL + "bootstrap.cc:121 NCCL WARN Message truncated : received 1024 bytes instead of 8"
    data = NCCL + "NCCL WARN NET/Socket : peer 10.1.0.4<4> message truncated : receiving 8 bytes "

    assert set(matching(setup)) == {"nccl-bootstrap-truncated"}
    assert set(matching(data + "instead of 4")) == {"nccl-collective-size-mismatch"}


def test_only_a_port_that_is_lost_counts_among_the_events_of_a_card() -> None:
    """NCCL calls a lost port "non-fatal" as it does a port that came up; only one is a cause."""
    event = NCCL + "NCCL WARN NET/IB : mlx5_3:1 Got non-fatal async event: {}"

    assert set(matching(event.format("port error(10)"))) == {"nccl-ib-port-event"}
    assert set(matching(event.format("port active(9)"))) == {"nccl-noise-ib-event"}
    assert set(matching(event.format("client reregistration(13)"))) == {"nccl-noise-ib-event"}


def test_the_one_that_hydra_did_not_kill_is_found_among_many_blocks() -> None:
    """Of so many lines alike not all are kept, but all ends are."""
    rule = "=" * 40
    blocks = "".join(
        f"{rule}\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n"
        f"=   RANK {rank} PID {900 + rank} RUNNING AT n{rank // 8}\n"
        f"=   KILLED BY SIGNAL: {'7 (Bus error)' if rank == 25 else '9 (Killed)'}\n{rule}\n\n"
        for rank in range(32)
    )
    finding = diagnosed_files({"slurm.out": blocks}).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("rank-died", (25,))


def test_ranks_that_crashed_are_named_also_where_they_are_most() -> None:
    """Hydra kills all others; who was killed by no signal of its own has not crashed."""
    rule = "=" * 40
    blocks = "".join(
        f"{rule}\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n"
        f"=   RANK {rank} PID {900 + rank} RUNNING AT n0\n"
        f"=   KILLED BY SIGNAL: {'9 (Killed)' if rank < 2 else '11 (Segmentation fault)'}\n{rule}\n"
        for rank in range(6)
    )
    finding = diagnosed_files({"slurm.out": blocks}).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("rank-died", (2, 3, 4, 5))
    everyone = diagnosed_files({"slurm.out": blocks.replace("9 (Killed)", "11 (Segm")}).findings[0]
    assert everyone.culprit_ranks is None
