"""NCCL's lines: who is which rank, who set a communicator up, how many calls each has made."""

from __future__ import annotations

import pytest
from log_docs import of, read_log
from small_jobs import report_of

from whyhang.analyzer.collectives import Verdict, recorded_calls
from whyhang.analyzer.facts import (
    CallState,
    Exit,
    Fact,
    Group,
    NcclPhase,
    NcclSetup,
    ProcessRank,
    Setting,
    SettingName,
    Track,
    Who,
    WorldSize,
)
from whyhang.analyzer.job.inference.local_ranks import numbered
from whyhang.collectors.logs.lines import nccl_collectives as log_coll

INIT = (
    "node{host}:{pid}:{pid} [0] NCCL INFO ncclCommInitRank comm 0x55{pid:x} rank {rank} nranks "
    "{size} cudaDev 0 nvmlDev 0 busId 1b000 commId {comm} - Init {event}\n"
)
COLL = (
    "node{host}:{pid}:9 [0] NCCL INFO {op}: opCount {count:x} sendbuff 0x7f{count:06x} recvbuff "
    "0x7e{count:06x} count {numel} datatype 7 op 0 root {root} comm 0x55{pid:x} [nranks=4] "
    "stream 0x5a\n"
)


def init(rank: int, event: str, *, size: int = 4, comm: str = "0xabc", pid: int = 100) -> str:
    return INIT.format(host=rank // 2, pid=pid + rank, rank=rank, size=size, comm=comm, event=event)


def coll(rank: int, count: int, op: str = "AllReduce", numel: int = 64, root: int = 0) -> str:
    return COLL.format(host=rank // 2, pid=100 + rank, op=op, count=count, numel=numel, root=root)


def tracks(facts: list[Fact], kind: str) -> dict[int | None, Track]:
    return {track.who.rank: track for track in of(facts, Track) if track.kind == kind}


def settings(facts: list[Fact], name: SettingName) -> list[str]:
    return [fact.value for fact in of(facts, Setting) if fact.name == name and fact.who == Who()]


def sizes(facts: list[Fact]) -> list[int]:
    return [fact.size for fact in of(facts, WorldSize)]


def ranks_by_pid(facts: list[Fact]) -> dict[int | None, int]:
    return {fact.who.pid: fact.rank for fact in of(facts, ProcessRank)}


def test_ranks_of_processes() -> None:
    """The largest communicator tells the rank of each host and pid, and the number of ranks."""
    text = "node0:100:100 [0] NCCL INFO NCCL version 2.22.3+cuda12.6\n"
    text += "".join(init(rank, "START") + init(rank, "COMPLETE") for rank in range(4))
    facts = read_log(text)
    rows = {(fact.who.host, fact.who.pid): fact.rank for fact in of(facts, ProcessRank)}

    assert rows[("node1", 103)] == 3
    assert len(rows) == 4
    assert sizes(facts) == [4]
    assert settings(facts, "nccl") == ["2.22.3"]
    assert settings(facts, "backend") == ["nccl"]
    assert of(facts, Group)[0].ranks == (0, 1, 2, 3)


def test_ranks_by_their_places_in_trees() -> None:
    """Where no line gives a communicator, a tree and a proxy tell who speaks."""
    line = "node{}:{}:9 [{}] {}\n".format
    given = [
        line(0, 100, 0, "NCCL INFO Trees [0] 1/-1/-1->0->-1 [1] 1/-1/-1->0->-1"),
        line(0, 101, 1, "NCCL INFO Trees [0] -1/-1/-1->1->0 [1] -1/-1/-1->1->0"),
        line(
            1, 102, 0, "[0] proxy.cc:1519 NCCL WARN [Proxy Service 2] Failed to execute operation"
        ),
        line(1, 103, 1, "proxy.cc:1519 NCCL WARN [Proxy Service 3] Failed to execute operation"),
    ]
    assert ranks_by_pid(read_log("".join(given))) == {100: 0, 101: 1, 102: 2, 103: 3}
    other_group = line(0, 104, 4, "NCCL INFO Trees [0] 1/-1/-1->0->-1 [1] 1/-1/-1->0->-1")
    assert ranks_by_pid(read_log("".join([*given, other_group]))) == {}
    one_process = line(0, 100, 1, "NCCL INFO Trees [0] -1/-1/-1->1->0 [1] -1/-1/-1->1->0")
    assert ranks_by_pid(read_log("".join([*given, one_process]))) == {}


def test_who_never_began_and_who_never_ended() -> None:
    """Setting up a communicator is a call that all of its ranks have to make."""
    text = "".join(init(rank, "START") for rank in (0, 1, 3)) + init(0, "COMPLETE")
    all_tracks = tracks(read_log(text), "nccl-init")

    assert {rank: track.completed for rank, track in all_tracks.items()} == {0: 1, 1: 0, 3: 0}
    assert all_tracks[1].calls[0].state is CallState.STARTED


def test_lines_without_start_and_id() -> None:
    """NCCL up to 2.15 only says when it is done, and names no id."""
    line = (
        "h:{0}:9 [0] NCCL INFO comm 0x7f{0} rank {1} nranks 2 cudaDev 0 busId 1e0 - Init COMPLETE\n"
    )
    all_tracks = tracks(read_log(line.format(46, 1) + line.format(45, 0)), "nccl-init")

    assert {rank: track.completed for rank, track in all_tracks.items()} == {0: 1, 1: 1}
    assert all_tracks[0].group.name == all_tracks[1].group.name


def test_communicators_beside_each_other_are_not_the_job() -> None:
    """Two communicators of the largest size share numbers, so these are no global ranks."""
    text = "".join(
        init(rank, event, size=2, comm=comm, pid=pid)
        for event in ("START", "COMPLETE")
        for comm, pid in (("0xa", 100), ("0xb", 200))
        for rank in (0, 1)
    )
    facts = read_log(text)

    assert ranks_by_pid(facts) == {}
    assert sizes(facts) == []


def test_how_many_calls_each_rank_has_made() -> None:
    """Ranks are aligned by the ordinal of their calls; whether a call ended is not told."""
    text = "".join(init(rank, "COMPLETE") for rank in range(4))
    text += "".join(coll(rank, n) for n in range(50) for rank in range(4) if (rank, n) != (2, 49))
    all_tracks = tracks(read_log(text), "nccl-coll")

    assert {rank: track.enqueued for rank, track in all_tracks.items()} == {
        0: 50,
        1: 50,
        2: 49,
        3: 50,
    }
    last = all_tracks[0].calls[-1]
    assert (last.op, last.seq, last.input_sizes, last.dtypes) == (
        "all_reduce",
        50,
        ((64,),),
        ("float32",),
    )
    assert last.state is CallState.UNKNOWN
    assert all_tracks[0].group.ranks == (0, 1, 2, 3)
    assert all_tracks[3].source.line == len(text.splitlines())


def test_the_first_difference_is_kept() -> None:
    """However long ago ranks called different things, both calls are there to be compared."""
    lines = [
        coll(rank, n, numel=65 if (rank, n) == (1, 20) else 64)
        for n in range(90)
        for rank in (0, 1)
    ]
    text = "".join(init(rank, "COMPLETE", size=2) for rank in (0, 1)) + "".join(lines)
    all_tracks = tracks(read_log(text), "nccl-coll")
    sizes = {
        rank: {c.seq: c.input_sizes for c in track.calls} for rank, track in all_tracks.items()
    }

    assert sizes[0][21] == ((64,),)
    assert sizes[1][21] == ((65,),)


def test_sends_and_receives_are_counted_separately() -> None:
    """Their ordinals differ by rank; the peer is a global rank."""
    text = "".join(init(rank, "COMPLETE") for rank in range(4))
    text += coll(0, 0) + coll(0, 1, "Send", root=3) + coll(3, 0) + coll(3, 1, "Recv", root=0)
    all_tracks = [t for t in of(read_log(text), Track) if t.kind == "nccl-coll"]
    pairs = {(t.who.rank, c.op): c.peer for t in all_tracks for c in t.calls if c.p2p}

    assert pairs == {(0, "send"): 3, (3, "recv"): 0}
    assert {t.enqueued for t in all_tracks if not t.calls[0].p2p} == {1}


def test_times_in_front_of_every_line() -> None:
    """NCCL_DEBUG_TIMESTAMP makes all lines different, and they are still counted."""
    text = "".join(
        f"[2025-07-04 11:02:33.{n:06}] [rank{rank}]: {coll(rank, n)}"
        for n in range(30)
        for rank in (0, 1)
    )
    all_tracks = tracks(read_log(text), "nccl-coll")

    assert {rank: track.enqueued for rank, track in all_tracks.items()} == {0: 30, 1: 30}


def test_long_streams_are_shortened(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """Memory stays bounded; the count and the last calls do not suffer."""
    monkeypatch.setattr(log_coll, "MAX_CALLS", 100)
    monkeypatch.setattr(log_coll, "MAX_LOOKUPS", 10)
    text = "".join(coll(0, n, numel=n) for n in range(5_000))
    (record,) = of(read_log(text), Track)

    assert record.enqueued == 5_000
    assert record.calls[-1].input_sizes == ((4_999,),)


def test_the_size_of_the_job() -> None:
    """World size, launcher and version are read where they are said; the usual one wins."""
    text = (
        "torchrun --nproc_per_node 4 train.py\n# world_size=4 torch==2.6.0\n"
        "tensor parallel world size: 2\n[rank0]: world_size=4\n"
    )
    facts = read_log(text)

    assert sizes(facts) == [4]
    assert settings(facts, "torch") == ["2.6.0"]
    assert settings(facts, "launcher") == ["torchrun"]
    assert sizes(read_log("torchrun --nproc_per_node 2 t.py\n")) == [2]
    assert sizes(read_log("torchrun --nnodes 2 --nproc_per_node 2 t.py\n")) == [4]
    assert of(facts, Exit) == []


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/8", 8),
        ("All distributed processes registered. Starting with 8 processes", 8),
        ("Process 0, total 8, device cuda:0.", 8),
        ("Num processes: 8", 8),
        ("[rank 3/8] up", 8),
        ("Completed store-based barrier for key:store_based_barrier_key:1 with 8 nodes.", 8),
        ("distributed_world_size=8", 8),
        ("+ mpirun --bind-to none -np 8 ./a.out", 8),
        ("srun --ntasks=8 python train.py", 8),
        ("srun --ntasks=2 torchrun train.py", None),
        ("srun --ntasks-per-node=8 python train.py", None),
        ("mpirun -np 4 ./a.out\nmpirun -np 8 ./a.out", None),
        ("tp_world_size=8", None),
        ("[ranks 1/8 of a page/9]", None),
    ],
)
def test_the_number_of_ranks(text: str, size: int | None) -> None:
    """Each framework words it; what a launcher of launchers starts are nodes."""
    assert sizes(read_log(text + "\n")) == ([] if size is None else [size])


def test_files_of_single_ranks_are_compared() -> None:
    """Where each rank writes a file of its own, a call that differs is found all the same."""
    facts = []
    for rank in range(3):
        text = init(rank, "COMPLETE", size=3)
        text += "".join(
            coll(rank, n, "Broadcast" if (rank, n) == (1, 20) else "AllReduce") for n in range(40)
        )
        facts += read_log(text, name=f"rank{rank}.log")
    findings = recorded_calls(of(facts, Track), of(facts, Group), 3).findings

    assert [(finding.verdict, finding.culprits) for finding in findings] == [(Verdict.EXTRA, (1,))]
    assert findings[0].call is not None
    assert findings[0].call.seq == 21


def test_the_device_distinguishes_ranks_that_are_all_on_one_host() -> None:
    """NCCL_DEBUG_FILE without set-up lines: the numbers of the GPUs are those of the ranks."""

    def facts(size: int) -> list[Fact]:
        line = COLL.replace("nranks=4", f"nranks={size}").replace("[0]", "[{device}]")
        values = {"op": "AllReduce", "count": 0, "numel": 64, "root": 0}
        logs = [line.format(host=0, pid=100 + rank, device=rank, **values) for rank in range(4)]
        return [fact for rank, text in enumerate(logs) for fact in read_log(text, name=f"n{rank}")]

    assert {track.who.rank for track in of(numbered(facts(4)), Track)} == {0, 1, 2, 3}
    assert {track.who.rank for track in of(numbered(facts(8)), Track)} == {None}


def test_who_set_its_affinity_has_seen_all_ranks() -> None:
    """What NCCL prints after its first exchange with all ranks stands behind the bootstrap."""
    head = "node1:{0}:{0} [{0}] NCCL INFO "
    text = "".join(
        f"{head}ncclCommInitRank comm 0x1 rank {{0}} nranks 2 cudaDev {{0}} - Init START\n"
        f"{head}{after}\n".format(rank)
        for rank, after in enumerate(
            (
                "Setting affinity for GPU 0 to ffff",
                "comm 0x1 rank 1 nRanks 2 nNodes 1 localRanks 2 ",
            )
        )
    )

    phases = [stage.phase for stage in of(read_log(text), NcclSetup)]

    assert phases == [NcclPhase.TOPOLOGY, NcclPhase.TOPOLOGY]


def test_what_nccl_printed_of_calls_is_no_recorder() -> None:
    """Calls that are no longer kept were read from lines: a larger recorder helps nobody."""
    log = "".join(coll(rank, n) for n in range(3000) for rank in range(2))
    report = report_of(read_log("".join(init(rank, "COMPLETE") for rank in range(2)) + log))

    assert not any("TORCH_FR_BUFFER_SIZE" in gap for gap in report.gaps)
