"""DETAIL's fingerprints: each rank's own word is believed, invented ones are seen through."""

from __future__ import annotations

from log_docs import of, read_log

from whyhang.analyzer.facts import CallState, Fact, Track

OPTIONS = "TensorOptions(dtype=float (default), device=cpu, layout=Strided (default))"
TENSOR = "OpType={op}, TensorShape=[{shape}], TensorDtypes=Float, TensorDeviceTypes=" + OPTIONS
HEAD = "[rank{rank}]:[I1121 02:30:02.436878387 ProcessGroupWrapper.cpp:710] [Rank {group_rank}] "


def announce(rank: int, seq: int, op: str = "ALLREDUCE", group_rank: int | None = None) -> str:
    head = HEAD.format(rank=rank, group_rank=rank if group_rank is None else group_rank)
    print_ = f"SequenceNumber={seq}, " + TENSOR.format(op=op, shape="4")
    return f"{head}Running collective: CollectiveFingerPrint({print_})\n"


def mismatch(rank: int, own: str, peer: int, theirs: str) -> str:
    return (
        f"[rank{rank}]: RuntimeError: Detected mismatch between collectives on ranks. Rank {rank} "
        f"is running collective: CollectiveFingerPrint({own}), but Rank {peer} is running "
        f"collective: CollectiveFingerPrint({theirs}).Collectives differ in the following aspects: "
        "\t Sequence number: 3vs 0  Op type: ALLREDUCEvs REDUCE\n"
    )


def tracks(facts: list[Fact]) -> dict[int | None, list[Track]]:
    by_rank: dict[int | None, list[Track]] = {}
    for track in of(facts, Track):
        by_rank.setdefault(track.who.rank, []).append(track)
    return by_rank


def test_announced_calls_place_every_rank() -> None:
    """How far each rank came and what it called; whether it ended is not known."""
    text = "".join(
        announce(rank, seq) for seq in range(40) for rank in (0, 1) if (rank, seq) != (1, 39)
    )
    all_tracks = tracks(read_log(text))
    (zero,), (one,) = all_tracks[0], all_tracks[1]

    assert (zero.enqueued, one.enqueued) == (39, 38)
    assert zero.calls[-1].op == "all_reduce"
    assert zero.calls[-1].input_sizes == ((4,),)
    assert {call.state for call in zero.calls} == {CallState.UNKNOWN}
    assert zero.lost == 40 - len(zero.calls)
    assert zero.source.line == len(text.splitlines())


def test_groups_are_distinguished_by_their_numbers() -> None:
    """A second series of numbers is another group; where ranks cannot be matched it is dropped."""
    both = "".join(announce(rank, seq) for seq in range(3) for rank in (0, 1))
    second = "".join(announce(rank, 0, "BROADCAST") for rank in (0, 1))
    separate = "".join(announce(rank, 0, "BROADCAST", group_rank=0) for rank in (0, 1))
    more = "".join(announce(rank, 3) for rank in (0, 1))

    all_tracks = tracks(read_log(both + second + more))
    assert [track.enqueued for track in all_tracks[0]] == [3, 0]
    assert all_tracks[0][1].calls[0].op == "broadcast"
    assert [len(of_rank) for of_rank in tracks(read_log(both + separate + more)).values()] == [1, 1]


def test_both_sides_of_a_mismatch() -> None:
    """Each rank's own fingerprint is taken, and the peer's where it has the same length."""
    own = "SequenceNumber=3, " + TENSOR.format(op="ALLREDUCE", shape="4")
    theirs = "SequenceNumber=3, " + TENSOR.format(op="BROADCAST", shape="4")
    all_tracks = tracks(read_log(mismatch(0, own, 1, theirs)))

    assert [
        (rank, t[0].calls[0].op, t[0].calls[0].seq) for rank, t in sorted(all_tracks.items())
    ] == [(0, "all_reduce", 3), (1, "broadcast", 3)]


def test_an_invented_peer_is_seen_through() -> None:
    """The peer's "SequenceNumber=0OpType=REDUCE" encodes a length: its call has no tensors."""
    own = "SequenceNumber=3, " + TENSOR.format(op="ALLREDUCE", shape="4")
    all_tracks = tracks(read_log(mismatch(0, own, 1, "SequenceNumber=0OpType=REDUCE")))

    assert "without tensors" in all_tracks[1][0].calls[0].op
    assert all_tracks[1][0].calls[0].seq == 3


def test_ranks_below_the_named_one_call_the_same() -> None:
    """The first rank that differs is named, so that a word of one rank tells who is alone."""
    own = "SequenceNumber=3, " + TENSOR.format(op="ALLREDUCE", shape="4")
    text = mismatch(1, own, 3, "SequenceNumber=0OpType=REDUCE")
    calls = {rank: track[0].calls[0].op for rank, track in tracks(read_log(text)).items()}

    assert {rank for rank, op in calls.items() if op == "all_reduce"} == {0, 1, 2}
    assert "without tensors" in calls[3]


def test_the_peers_own_word_beats_that_of_others() -> None:
    """Where both sides speak, the invented fingerprints are not used."""
    tensor = "SequenceNumber=3, " + TENSOR.format(op="ALLREDUCE", shape="4")
    barrier = "SequenceNumber=3OpType=BARRIER"
    text = mismatch(0, tensor, 1, "SequenceNumber=0OpType=REDUCE")
    text += mismatch(1, barrier, 0, "SequenceNumber=0OpType=GATHER")
    all_tracks = tracks(read_log(text))

    assert all_tracks[0][0].calls[0].op == "all_reduce"
    assert all_tracks[1][0].calls[0].op == "barrier"


def test_a_mismatch_says_where_the_last_call_failed() -> None:
    """With an error in the log, the last announced call is one that did not end."""
    own = "SequenceNumber=1, " + TENSOR.format(op="ALLREDUCE", shape="4")
    theirs = "SequenceNumber=1, " + TENSOR.format(op="BROADCAST", shape="4")
    text = announce(0, 0) + announce(0, 1) + mismatch(0, own, 1, theirs)
    states = [[call.state for call in track.calls] for track in tracks(read_log(text))[0]]

    assert [CallState.COMPLETED, CallState.SCHEDULED] in states
