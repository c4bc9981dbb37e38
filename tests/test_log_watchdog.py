"""The watchdog's lines of all torch versions become tracks: who waits in which call."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files, of, read_log

from whyhang.analyzer.facts import CallState, Fact, Frame, Track

WORK = "WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn=64, NumelOut=64, Timeout(ms)=600000)"
CAUGHT = "Watchdog caught collective operation timeout: " + WORK + " ran for 600029 milliseconds"


def tracks(facts: list[Fact]) -> dict[int | None, Track]:
    return {track.who.rank: track for track in of(facts, Track) if track.kind == "watchdog"}


OLD_HEAD = "[E ProcessGroupNCCL.cpp:737] [Rank 1] Watchdog caught collective operation timeout: "
NEW_HEAD = "[rank1]:[E1206 18:44:16.997991020 ProcessGroupNCCL.cpp:632] [Rank 1] "
UNSIZED = "NumelIn=18446744073709551615, NumelOut=18446744073709551615"


@pytest.mark.parametrize(
    ("line", "seq", "op", "sizes"),
    [
        (
            f"{OLD_HEAD}WorkNCCL(SeqNum=5, OpType=BROADCAST, TensorShape=[64, 2], Timeout(ms)=9)",
            5,
            "broadcast",
            ((64, 2),),
        ),
        (
            f"{OLD_HEAD}WorkNCCL(SeqNum=9, OpType=ALLGATHER, Timeout(ms)=1800000) ran for 1 ms",
            9,
            "all_gather",
            None,
        ),
        (
            f"{OLD_HEAD}WorkNCCL(OpType=REDUCE, Timeout(ms)=60000) ran for 66000 milliseconds",
            None,
            "reduce",
            None,
        ),
        (
            NEW_HEAD + CAUGHT.format(seq=133, op="_ALLGATHER_BASE"),
            133,
            "all_gather_into_tensor",
            ((64,),),
        ),
        (
            (
                "[rank1]: RuntimeError: [Rank 3] Work WorkNCCL(SeqNum=9, OpType=ALLREDUCE, "
                "NumelIn=1, NumelOut=1, Timeout(ms)=60000) timed out in blocking wait."
            ),
            9,
            "all_reduce",
            ((1,),),
        ),
        (
            (
                f"{NEW_HEAD}Collective WorkNCCL(SeqNum=19, OpType=COALESCED, {UNSIZED}, Time=1) "
                "raised the following async exception: NCCL error: remote process exited"
            ),
            19,
            "coalesced",
            None,
        ),
    ],
)
def test_a_call_that_timed_out(
    line: str, seq: int | None, op: str, sizes: tuple[tuple[int, ...], ...] | None
) -> None:
    """Number, operation and size of the call are read in every shape of the line."""
    track = tracks(read_log(line))[1]
    (call,) = track.calls

    assert (call.seq, call.op, call.input_sizes) == (seq, op, sizes)
    assert call.state is CallState.SCHEDULED
    assert track.completed == (seq - 1 if seq is not None else None)
    assert track.enqueued is None


@pytest.mark.parametrize("cut", ["OpType=ALLR", "OpType=ALLREDUCE", "OpType=ALLREDUCE, Numel"])
def test_a_line_that_is_cut_off_names_no_other_call(cut: str) -> None:
    """The first letters of a name are no name."""
    whole = NEW_HEAD + CAUGHT.format(seq=133, op="ALLREDUCE")
    facts = read_log(whole[: whole.index("OpType")] + cut)
    called = {call.op for track in of(facts, Track) for call in track.calls}

    assert called <= {"all_reduce"}


OLD = "last enqueued NCCL work: 15, last completed NCCL work: 11."
TORCH_2_4 = "Exception (either an error or timeout) detected by watchdog at work: 12, "
NEW = "failure detected by watchdog at work sequence id: 12 PG status: last enqueued work: "
DEFAULT = "[PG ID 0 PG GUID 0(default_pg) Rank 1] "


@pytest.mark.parametrize(
    ("status", "name", "counters"),
    [
        (f"[PG 0 Rank 1] Timeout at NCCL work: 12, {OLD}", "0", (15, 11)),
        (f"[PG ID 1 PG GUID 7(tp) Rank 0] {TORCH_2_4}{OLD}", "7", (15, 11)),
        (f"{DEFAULT} {NEW}12, last completed work: -1", "0", (12, 0)),
        (
            f"{DEFAULT} {NEW}15, last started work: 13 (ALLREDUCE), last completed work: 11",
            "0",
            (15, 11),
        ),
        (
            f"{DEFAULT}{NEW}15, last started work: -1 (), last completed work: 11",
            "0",
            (15, 11),
        ),
    ],
)
def test_the_status_of_a_group(
    status: str, name: str, counters: tuple[int | None, int | None]
) -> None:
    """The counters belong to the group that the line names; -1 is none."""
    head = "[rank1]:[E1206 18:44:16.997991020 ProcessGroupNCCL.cpp:{}] "
    text = (
        f"{head.format(632)}[Rank 0] {CAUGHT.format(seq=12, op='ALLREDUCE')}\n"
        f"{head.format(2271)}{status}\n"
    )
    track = tracks(read_log(text))[1]

    assert track.group.name == name
    assert (track.enqueued, track.completed) == counters
    assert [call.seq for call in track.calls] == [12]


def test_old_lines_of_one_number_are_of_one_group() -> None:
    """Without a group's name, ranks at other numbers are not compared with each other."""
    text = "".join(
        f"[E ProcessGroupNCCL.cpp:821] [Rank {rank}] {CAUGHT.format(seq=seq, op='ALLREDUCE')}\n"
        for rank, seq in ((0, 7), (1, 7), (2, 90), (3, 7))
    )
    all_tracks = tracks(read_log(text))

    assert {all_tracks[rank].group.name for rank in (0, 1, 3)} == {"0"}
    assert all_tracks[2].group.name != "0"


def test_the_stack_of_the_call() -> None:
    """The frames behind "Stack trace of the failed collective" go with the call."""
    head = "[rank2]:[E606 09:09:08.1 ProcessGroupNCCL.cpp:801] "
    text = (
        f"{head}[Rank 2] {CAUGHT.format(seq=1, op='ALLGATHER')}\n"
        f"{head}Stack trace of the failed collective: \n"
        "#0 _verify_param from /x/torch/distributed/utils.py:286\n"
        "#1 main from /w/train.py:692\n\n"
    )
    (call,) = tracks(read_log(text))[2].calls

    assert call.frames[1] == Frame(function="main", file="/w/train.py", line=692)
    assert len(call.frames) == 2


def test_a_stack_whose_call_is_cut_off_is_where_its_rank_stands() -> None:
    """A paste begins below the line of the time-out; a number alone is no other call."""
    text = "".join(
        f"[rank{rank}]:[E606 09:09:08.1 ProcessGroupNCCL.cpp:801] Stack trace of the failed "
        "collective: \n#0 all_reduce from /x/torch/distributed/distributed_c10d.py:3068\n"
        f"#1 step from /w/train.py:{line}\n\n"
        for rank, line in ((1, 40), (2, 40), (3, 71))
    )
    text += (
        "[rank0]:[E606 09:09:38.4 ProcessGroupNCCL.cpp:1746] [PG ID 0 PG GUID 0(default_pg) Rank "
        "0] Received a dump signal due to a collective timeout from this local rank and we will "
        "try our best to dump the debug info. Last enqueued NCCL work: 9, last completed NCCL "
        "work: 8."
    )
    report = diagnosed_files({"train.log": text})

    lines = {rank.rank: rank.location and rank.location.line for rank in report.ranks}
    assert lines == {0: None, 1: 40, 2: 40, 3: 71}
    assert all("different collectives" not in finding.title for finding in report.findings)


def test_a_dump_signal_tells_how_far_its_receiver_came() -> None:
    """It names the rank that gave up first; the counters are the speaker's."""
    text = (
        "[rank0]:[E709 17:05:38.4 ProcessGroupNCCL.cpp:1746] [PG ID 0 PG GUID 0(default_pg) Rank "
        "0] Received a dump signal due to a collective timeout from  rank 5 and we will try our "
        "best to dump the debug info. Last enqueued NCCL work: 9, last completed NCCL work: 8."
    )
    facts = read_log(text)

    assert (tracks(facts)[0].enqueued, tracks(facts)[0].completed) == (9, 8)


def test_the_desync_report() -> None:
    """Ranks inside, between and outside of collectives are placed by the report."""
    text = """\
\t - [0] Timeout at collective: ALLREDUCE, #6
\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:
\t   - [2] finished collective #5, but didn't join collective #6 (count from 1)
\t - Snapshot of ranks' latest states:
\t   #6 started ranks:
\t     [0, 1] started ALLREDUCE
\t   #5 finished ranks:
\t     [2] finished BROADCAST
"""
    all_tracks = {t.who.rank: t for t in of(read_log(text), Track) if t.kind == "desync"}

    assert {rank: (t.enqueued, t.completed) for rank, t in all_tracks.items()} == {
        0: (6, 0),
        1: (6, 0),
        2: (5, 5),
    }
    assert all_tracks[1].calls[0].op == "all_reduce"
    assert all_tracks[2].calls[0].op == "broadcast"


def test_a_report_in_which_all_have_joined_blames_nobody() -> None:
    """One rank's report lists all ranks; another one that only gave up as well is none behind."""
    everyone = "[0, 1, 2, 3]"
    text = (
        "[rank0]:[E302 10:20:30.400000000 ProcessGroupNCCL.cpp:2168] [PG ID 1 PG GUID 1 Rank 0]  "
        "failure detected by watchdog at work sequence id: 9 PG status: last enqueued work: 9, "
        "last completed work: 8\n"
        "[rank2]:[E302 10:20:30.500000000 ProcessGroupNCCL.cpp:1936] Rank 2\n"
        "\t - [2] Timeout at collective: ALLREDUCE, #9\n"
        "\t - To our best knowledge, the lagging/dead/mismatched ranks that caused "
        "the desync are:\n"
        f"\t   - {everyone} joined but didn't finish collective #9 (count from 1)\n"
        f"\t - Snapshot of ranks' latest states:\n\t   #9 started ranks:\n"
        f"\t     {everyone} started ALLREDUCE\n"
    )
    report = diagnosed_files({"job.log": text})

    assert report.findings[0].signature == "stuck-together"
    assert all(finding.culprit_ranks is None for finding in report.findings)


def test_ranks_that_never_joined() -> None:
    """The other form of the report names those who joined nothing."""
    text = (
        "\t - To our best knowledge, ranks [3, 5] are the lagging ranks that caused this timeout. "
        "They never joined any collectives\n"
    )
    all_tracks = {t.who.rank: t for t in of(read_log(text), Track)}

    assert {rank: track.enqueued for rank, track in all_tracks.items()} == {3: 0, 5: 0}


def test_a_call_behind_one_that_was_given_up_is_of_another_start() -> None:
    """Who gives up ends: the call in which the job hangs now is that of its last start."""
    text = "".join(
        f"[rank{rank}]:[E302 {time}.000000123 ProcessGroupNCCL.cpp:821] [Rank {rank}] "
        f"{CAUGHT.format(seq=seq, op='ALLREDUCE')}\n"
        for time, seq in (("09:10:00", 42), ("09:50:00", 12))
        for rank in (0, 1)
    )
    for track in tracks(read_log(text)).values():
        assert ([call.seq for call in track.calls], track.group.name) == ([12], "0")


IN_GROUP = (
    "[rank{rank}]:[E813 12:25:30.{rank}91567129 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog "
    "caught collective operation timeout: WorkNCCL(SeqNum=57, OpType=ALLGATHER, NumelIn=1, "
    "NumelOut={size}, Timeout(ms)=600000) ran for 600038 milliseconds before timing out.\n"
    "[rank{rank}]:[E813 12:25:30.{rank}92163833 ProcessGroupNCCL.cpp:2271] [PG ID 1 PG GUID 1 Rank "
    "{rank}]  failure detected by watchdog at work sequence id: 57 PG status: last enqueued work: "
    "57, last completed work: 56\n"
)


@pytest.mark.parametrize(
    ("size", "signature", "ranks"),
    [(3, "waits-for-silent-rank", (2,)), (2, "stuck-together", None)],
)
def test_what_a_group_gathers_tells_how_many_it_has(
    size: int, signature: str, ranks: tuple[int, ...] | None
) -> None:
    """Two of three that wait have not all arrived; the third prints no such line."""
    text = "".join(IN_GROUP.format(rank=rank, size=size) for rank in range(2))
    other = "[rank2]:[E813 12:26:00.651 P.cpp:1] [PG ID 1 PG GUID 1 Rank 2] aborted its group\n"
    first = diagnosed_files({"train.log": text + other}).findings[0]

    assert (first.signature, first.culprit_ranks) == (signature, ranks)


def test_who_failed_within_the_call_had_come_to_it() -> None:
    """Its watchdog printed nothing that was kept, but its exception was raised in there."""
    at = '[rank2]:   File "{}", line {}, in {}\n'
    raised = (
        "[rank2]: Traceback (most recent call last):\n"
        + at.format("/srv/rl.py", 657, "infer")
        + "[rank2]:     dist.all_gather_object(lengths, own, group=tp)\n"
        + at.format("/torch/distributed/distributed_c10d.py", 3042, "all_gather_object")
        + "[rank2]:     input_tensor.resize_(max_object_size)\n"
        + "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 184.13 GiB.\n"
    )
    text = "".join(IN_GROUP.format(rank=rank, size=4) for rank in range(2)) + raised
    other = "[rank3]:[E813 12:26:00.651 P.cpp:1] [PG ID 1 PG GUID 1 Rank 3] aborted its group\n"
    first = diagnosed_files({"train.log": text + other}).findings[0]

    assert (first.signature, first.culprit_ranks) == ("waits-for-silent-rank", (3,))
