"""Dumps of active calls only, and dumps over NCCL that somebody asked for while the job went on."""

from __future__ import annotations

import pickle

import pytest
from documents import document
from fr_docs import entry, header, open_entry, pickled, status, tracks

from whyhang.analyzer.collectives import Verdict, recorded_calls
from whyhang.analyzer.facts import CallState, Track
from whyhang.collectors.flight_recorder.reader import FlightRecorder

RING = (("0", "default_pg", (0, 1, 2, 3)), ("1", "mesh_cp", (0, 1, 2, 3)))
SECOND = 1_000_000_000
START = 1_758_610_000


def batch(record: int, number: int, rank: int = 0) -> list[dict[str, object]]:
    """Write a send and a receive that were launched as one, without the entry that ends them."""
    common = {"pg_id": 1, "process_group": ("1", "mesh_cp"), "is_p2p": True, "p2p_seq_id": number,
              "collective_seq_id": 0, "input_sizes": [[8]]}  # fmt: skip
    after, before = (rank + 1) % 4, (rank - 1) % 4
    return [
        open_entry(record, profiling_name=f"nccl:send {rank}->{after}", **common),
        open_entry(record + 1, profiling_name=f"nccl:recv {rank}<-{before}", **common),
    ]


def ring(rank: int, *, stuck: bool) -> bytes:
    """Write the active calls of a rank after three rounds of sends and receives."""
    entries = [*batch(10, 1, rank), *batch(13, 2, rank), *batch(16, 3, rank)]
    if stuck:
        entries.append(open_entry(19, collective_seq_id=7))
    counts = {"0": status(7 if stuck else 6, 6), "1": status(3, 3)}
    return pickled(header(*RING, pg_status=counts), entries)


def of_all(*, stopped: int) -> list[Track]:
    return [
        track
        for rank in range(4)
        for track in tracks(ring(rank, stuck=rank != stopped), f"comm_lib_trace_rank_{rank}")
    ]


def test_finished_batches_hold_nobody_up() -> None:
    """Their members look open for ever, but the entry behind them was there and is finished."""
    (finding,) = recorded_calls(of_all(stopped=2)).findings

    assert (finding.verdict, finding.culprits) == (Verdict.NEVER_JOINED, (2,))


def test_the_last_batch_of_a_rank_is_finished_if_its_launch_is_counted() -> None:
    """Nothing stands behind it to tell; what was not launched as a whole was never closed."""
    whole = tracks(ring(2, stuck=False), "comm_lib_trace_rank_2")
    counts = {"0": status(6, 6), "1": status(2, 2)}
    entries = [*batch(10, 1), *batch(13, 2), *batch(16, 3)]
    opened = tracks(pickled(header(*RING, pg_status=counts), entries))

    (done,) = (t for t in whole if t.group.name == "1")
    (left,) = (t for t in opened if t.group.name == "1")
    assert {call.state for call in done.calls} == {CallState.COMPLETED}
    assert [call.unclosed for call in left.calls[-2:]] == [True, True]


def test_all_active_calls_are_read_however_many_there_are() -> None:
    """The oldest of more calls than the quick look takes is what holds the rank up."""
    entries = [open_entry(n, collective_seq_id=n) for n in range(100, 140)]
    data = pickled(header(pg_status={"0": status(139, 99)}), entries)

    (track,) = tracks(data)

    assert (track.completed, track.calls[0].seq) == (99, 100)


def test_who_has_no_open_call_has_not_come() -> None:
    """Names that are no numbers do not match pg_status; that nothing is open still tells."""
    named = header(("hash", "mesh_tp", range(3)), pg_status={"3": status(8, 7)})
    idle = header(("hash", "mesh_tp", range(3)), pg_status={"3": status(7, 7)})
    mine = {"process_group": ("hash", "mesh_tp"), "pg_id": 3, "collective_seq_id": 8}
    dumps = [pickled(named, [open_entry(900, **mine)]) for _ in range(2)]
    dumps.append(pickle.dumps({**idle, "entries": []}, protocol=2))

    read = [t for r, data in enumerate(dumps) for t in tracks(data, f"nccl_trace_rank_{r}")]

    assert [finding.culprits for finding in recorded_calls(read).findings] == [(2,)]


def test_without_a_recorder_nothing_is_known_of_open_calls() -> None:
    """Before torch 2.11 it is off unless asked for, and dumps are empty."""
    top = header(("hash", "mesh_tp", range(3)), pg_status={"3": status(8, 7)})

    assert not tracks(pickle.dumps({**top, "entries": []}, protocol=2))


def test_a_batch_of_old_dumps_is_no_call_of_the_whole_group() -> None:
    """Before torch 2.4 nothing but its name tells that it holds sends and receives."""
    empty = {"profiling_name": "nccl:coalesced", "input_sizes": [], "output_sizes": []}
    old = {k: v for k, v in open_entry(0, **empty).items() if k != "is_p2p"}

    (track,) = tracks(pickled(header(), [old]))

    assert [call.p2p for call in track.calls] == [True]


# --- a job that runs -------------------------------------------------------------------------


def over_nccl(written_at: float | None, pauses: float, open_for: float = 0.0) -> Track:
    """Read a dump of 40 calls in bursts of four, the last of which is open."""
    last = START + pauses * 9
    entries = [
        entry(n, time_created_ns=int((START + (n // 4) * pauses) * SECOND) + n) for n in range(39)
    ]
    created = int((last - open_for) * SECOND)
    entries.append(open_entry(39, time_created_ns=created))
    data = pickled(header(), entries)
    taken_at = None if written_at is None else last + written_at
    dump = document(data, "comm_lib_trace_rank_0", taken_at=taken_at)
    (read,) = (fact for fact in FlightRecorder().read(dump) if isinstance(fact, Track))
    return read


@pytest.mark.parametrize(
    ("silence", "moves"),
    [(0.2, True), (3.0, True), (9.0, False), (600.0, False), (-5.0, False), (None, False)],
)
def test_a_dump_over_nccl_tells_whether_its_rank_went_on(
    silence: float | None, *, moves: bool
) -> None:
    """A rank enqueues the calls of a step at once; it pauses from burst to burst."""
    assert over_nccl(silence, pauses=2.0).in_motion is moves


def test_long_pauses_are_no_excuse_for_a_long_silence() -> None:
    """Two evaluations of some minutes do not make a hang of ten minutes a pause."""
    assert not over_nccl(400.0, pauses=300.0).in_motion


def test_a_call_that_waited_for_its_time_limit_is_not_of_a_job_that_moves() -> None:
    """The watchdog wrote that dump, be the newest call as young as it likes."""
    assert over_nccl(0.2, pauses=2.0, open_for=100.0).in_motion
    assert not over_nccl(0.2, pauses=2.0, open_for=595.0).in_motion


# --- other layouts ---------------------------------------------------------------------------


def test_fields_in_another_order_hide_no_unfinished_call() -> None:
    """The quick look relies on where fields stand; elsewhere everything is read."""
    entries = [entry(n) for n in range(5)] + [open_entry(5)] + [entry(n) for n in range(6, 106)]
    turned = [dict(reversed(e.items())) for e in entries]
    top = {key: value for key, value in header().items() if key != "pg_status"}

    (track,) = tracks(pickled(top, turned))

    assert track.completed == 5


def test_numbers_of_groups_within_a_process_are_not_their_names() -> None:
    """Before torch 2.4 an entry has a number of the process' own, and pg_config the name."""
    entries = [
        {k: v for k, v in open_entry(n, pg_id=n).items() if k != "process_group"} for n in range(3)
    ]
    groups = (("0", "default_pg", range(8)), ("2", "rep", (0, 4)), ("11", "shard", range(4)))

    read = {t.group.name: t for t in tracks(pickled(header(*groups), entries))}

    assert {name: t.calls[0].order for name, t in read.items()} == {"0": 0, "2": 1, "11": 2}


def test_a_dump_that_is_cut_off_blames_nobody() -> None:
    """The calls that its rank seems not to have made may stand in the lost part."""
    top = header(("0", "default_pg", range(3)))
    whole = pickled(top, [entry(n) for n in range(20)] + [open_entry(20)])
    dumps = [whole, whole, whole[:-40]]

    read = [t for r, data in enumerate(dumps) for t in tracks(data, f"nccl_trace_rank_{r}")]

    assert {t.who.rank for t in read} == {0, 1, 2}
    assert [finding.culprits for finding in recorded_calls(read).findings] == [()]
