"""What the entries of a recorder dump mean: states, sends, receives, batches."""

from __future__ import annotations

import pickle

from fr_docs import entry, facts, gaps, header, open_entry, pickled, send, states, status, tracks

from whyhang.analyzer.facts import CallState, Track


def test_an_empty_dump_does_not_mean_an_idle_rank() -> None:
    """The recorder may have been off; that is a gap and no track."""
    all_facts = facts(pickle.dumps({**header(), "entries": []}, protocol=2))

    assert not [fact for fact in all_facts if isinstance(fact, Track)]
    (gap,) = gaps(all_facts)
    assert "may have been off" in gap.why


def test_pg_status_tells_of_groups_without_an_entry() -> None:
    """Its numbers count groups in the order of creation, as numeric names do."""
    groups = [("0", "default_pg", range(4)), ("12", "dp", (0, 2)), ("5", "tp", (0, 1))]
    top = header(*groups, pg_status={"0": status(9, 9), "2": status(30, 28), "7": status(4, 4)})

    all_tracks = {t.group.name: t for t in tracks(pickle.dumps({**top, "entries": []}, protocol=2))}

    assert [(n, t.enqueued, t.completed) for n, t in sorted(all_tracks.items())] == [
        ("0", 9, 9), ("12", 4, 4), ("5", 30, 28),
    ]  # fmt: skip


def test_nccl_work_that_timed_out_is_not_finished() -> None:
    """Retired and not completed means given up."""
    (track,) = tracks(pickled(header(), [entry(0), open_entry(1, retired=True)]))

    assert states(track.calls)[-1] == ("all_reduce", 2, "scheduled")


def test_overwritten_records_are_counted() -> None:
    """The first number that is left says how many are gone."""
    assert tracks(pickled(header(), [entry(n) for n in range(500, 510)]))[0].lost == 500
    assert tracks(pickled(header(), [entry(n) for n in range(10)]))[0].lost == 0


def test_a_ring_too_small_for_what_is_under_way_tells_no_place() -> None:
    """Where unfinished calls were overwritten, the oldest that is left holds nothing up."""
    top = header(pg_status={"0": status(60, 20)})

    all_facts = facts(pickled(top, [open_entry(n) for n in range(40, 60)]))

    assert not [fact for fact in all_facts if isinstance(fact, Track)]
    assert "ring was too small" in gaps(all_facts)[0].why
    top = header(pg_status={"0": status(60, 40)})  # all that are active, and no other
    (track,) = tracks(pickled(top, [open_entry(n) for n in range(40, 60)]))
    assert track.completed == 40


def test_a_dump_of_active_calls_says_nothing_of_lost_ones() -> None:
    """Some jobs leave completed calls out; then the gaps are not losses."""
    assert tracks(pickled(header(), [open_entry(500), open_entry(507)]))[0].lost == 0


PIPE = header(("0", "default_pg", range(8)), ("4", "pp", (1, 3, 7)))


def test_peers_are_ranks_of_the_group() -> None:
    """The name "0->2" is from the group's first rank to its third."""
    (track,) = tracks(pickled(PIPE, [send(0, 2, 1)]))

    assert (track.who.rank, track.calls[0].peer, track.enqueued) == (1, 7, 3)
    assert track.calls[0].p2p


def test_members_of_a_batch_are_as_far_as_its_end() -> None:
    """They stay scheduled for ever; the entry that ends the batch tells."""
    end = {"profiling_name": "nccl:coalesced", "input_sizes": [], "output_sizes": []}
    done = [send(0, 1, 5), send(1, 2, 5), send(2, 1, 5, **end, state="completed")]
    hangs = [send(3, 1, 6), send(4, 1, 6, **end)]

    (track,) = tracks(pickled(PIPE, [*done, *hangs]))

    assert [(c.op, c.seq, c.peer, c.state, c.unclosed) for c in track.calls] == [
        ("send", 5, 3, CallState.COMPLETED, False),
        ("send", 5, 7, CallState.COMPLETED, False),
        ("send", 6, 3, CallState.SCHEDULED, False),
    ]


def test_a_batch_without_an_end_was_never_closed() -> None:
    """Two sends share a number and nothing ends them."""
    (track,) = tracks(pickled(PIPE, [send(0, 1, 5), send(1, 2, 5)]))

    assert [call.unclosed for call in track.calls] == [True, True]


def test_a_block_of_collectives_is_one_call() -> None:
    """Since format 2.7 the collectives of a block are recorded beside its end."""
    parts = [open_entry(n, collective_seq_id=9, profiling_name="nccl:_broadcast_oop",
                        input_sizes=[[n]]) for n in (1, 2)]  # fmt: skip
    end = entry(3, collective_seq_id=9, profiling_name="nccl:ALLGATHER_coalesced",
                input_sizes=[], output_sizes=[])  # fmt: skip

    (track,) = tracks(pickled(header(), [*parts, end]))

    (whole,) = track.calls
    assert (whole.op, whole.seq, whole.state) == ("all_gather_coalesced", 9, CallState.COMPLETED)
    assert whole.input_sizes == ((1,), (2,))


def test_libraries_without_a_hook_for_completion_tell_by_retired() -> None:
    """A custom backend retires its entries at once and never completes them."""
    made = [open_entry(n, profiling_name="mybackend:all_reduce", retired=n < 2) for n in range(3)]

    (track,) = tracks(pickled(header(), made))

    assert [state for _, _, state in states(track.calls)] == ["completed", "completed", "scheduled"]
