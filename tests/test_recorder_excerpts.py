"""Of a long recorder dump only what matters is built, however it was pickled."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from fr_docs import (
    LAYOUTS,
    benchmark,
    entry,
    facts,
    gaps,
    header,
    listed,
    open_entry,
    pickled,
    ring,
    status,
    tracks,
    written_by,
)

from whyhang.analyzer.collectives import Verdict, recorded_calls
from whyhang.analyzer.facts import Track
from whyhang.collectors.flight_recorder import excerpt

LONG = 500
"""Entries of a ring of which only the end is built."""


def same(data: bytes) -> excerpt.DumpExcerpt:
    """Check that what is built is what the standard library builds; return it."""
    quick = excerpt.read(data)
    sure = listed(pickle.loads(data))
    assert isinstance(sure, dict)
    known = {made["record_id"]: made for made in sure["entries"]}
    for made in quick.entries:
        assert isinstance(made, dict)
        assert known[made["record_id"]] == made
    assert excerpt.read(data, everything=True).entries == sure["entries"]
    assert quick.first == sure["entries"][0]
    assert quick.top == {key: value for key, value in sure.items() if key != "entries"}
    return quick


@pytest.mark.parametrize("layout", LAYOUTS)
def test_only_the_end_of_a_long_ring_is_built(layout: object) -> None:
    """Of hundreds of entries a few are; texts defined far above are found for them."""
    status_of = {"0": status(LONG + 1, LONG)}
    data = pickled(header(pg_status=status_of), ring(LONG, open_entry(LONG)))

    assert len(same(written_by(layout, data)).entries) < 50


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_the_end_refers_to_is_built_wherever_it_was_memoised(layout: object) -> None:
    """Stacks and names that first stand in the middle of the file, or at its end."""
    pickler = benchmark("fr_pickler")

    def stack(line: int) -> list[object]:
        return [pickler.Frame(f"f{line}", "train.py", line), *common]

    common = [pickler.Frame("main", "train.py", n) for n in range(3)]
    early, late, last = stack(11), stack(22), stack(33)
    made = [
        entry(n, frames=early if n < 300 else late, thread_name="t1" if n < 200 else "t2")
        for n in range(LONG)
    ]
    end = [open_entry(LONG + n, frames=last, profiling_name="nccl:barrier") for n in range(4)]
    top = header(pg_status={"0": status(LONG + 4, LONG)})

    dump = same(written_by(layout, pickled(top, [*made, *end])))

    assert len(dump.entries) < 50
    functions = {
        frame["name"]
        for made_entry in dump.entries
        if isinstance(made_entry, dict)
        for frame in made_entry["frames"]
    }
    assert functions == {"f22", "f33", "main"}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_unfinished_call_far_back_is_read(layout: object) -> None:
    """An asynchronous call on another group may hang while hundreds of others go by."""
    far = open_entry(200, process_group=("7", "dp"), pg_id=2, collective_seq_id=5)
    groups = [("0", "default_pg", (0, 1)), ("7", "dp", (0, 1))]
    made = ring(LONG)
    made[200] = far
    top = header(*groups, pg_status={"0": status(LONG, LONG), "2": status(5, 4)})
    data = written_by(layout, pickled(top, made))

    dump = same(data)

    assert far["record_id"] in [e["record_id"] for e in dump.entries if isinstance(e, dict)]
    assert len(dump.entries) < 400
    all_tracks = {t.group.name: t for t in tracks(data)}
    assert (all_tracks["7"].enqueued, all_tracks["7"].completed) == (5, 4)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_last_call_of_a_quiet_group_is_read(layout: object) -> None:
    """How far a rank came on a group is told by the last entry, wherever it is."""
    made = ring(LONG)
    made[40] = entry(40, process_group=("7", "dp"), pg_id=2, collective_seq_id=77)
    top = header(("0", "default_pg", (0, 1)), ("7", "dp", (0, 1)),
                 pg_status={"0": status(LONG, LONG), "2": status(77, 77)})  # fmt: skip

    all_tracks = {t.group.name: t for t in tracks(written_by(layout, pickled(top, made)))}

    assert (all_tracks["7"].enqueued, all_tracks["7"].calls[0].op) == (77, "all_reduce")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_history_is_read_again_on_demand(layout: object) -> None:
    """A track of a long ring keeps a few calls and can read them all."""
    (track,) = tracks(written_by(layout, pickled(header(), ring(LONG))))

    assert len(track.calls) < 10
    assert track.detail is not None
    assert [call.seq for call in track.detail()] == list(range(1, LONG + 1))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_file_that_was_cut_off_keeps_what_it_holds(layout: object) -> None:
    """All but the entry it was cut off in is read, and the cut is said."""
    data = pickled(header(), ring(100, open_entry(100), open_entry(101)))

    all_facts = facts(written_by(layout, data)[:-40])

    assert [fact.enqueued for fact in all_facts if isinstance(fact, Track)] == [101]
    (gap,) = gaps(all_facts)
    assert gap.why == "it is cut off in the middle"


@pytest.mark.parametrize("keep", [1, 2, 30, 200, 500])
def test_a_file_cut_off_early_is_a_gap(keep: int) -> None:
    """Where not even one entry is whole, nothing is claimed."""
    all_facts = facts(pickled(header(), ring(3))[:keep])

    assert len(gaps(all_facts)) == 1
    assert len(all_facts) == 1


def test_texts_that_entries_do_not_share_are_read_as_well() -> None:
    """JSON that was pickled: each entry has its own texts, and lists for tuples."""
    made = ring(LONG, open_entry(LONG))
    made[40] = entry(40, process_group=("7", "dp"), pg_id=2, collective_seq_id=77)
    groups = [("0", "default_pg", (0, 1)), ("7", "dp", (0, 1))]
    top = header(*groups, pg_status={"0": status(LONG + 1, LONG), "2": status(77, 77)})

    all_tracks = tracks(pickle.dumps(json.loads(json.dumps({**top, "entries": made}))))

    assert {t.group.name: (t.enqueued, t.completed) for t in all_tracks} == {
        "0": (LONG + 1, LONG), "7": (77, 77),
    }  # fmt: skip


def test_a_text_larger_than_a_frame_of_a_pickle_is_read() -> None:
    """Python's picklers write one of 64 kB between two frames."""
    top = header(("0", "default_pg", range(20_000)), pg_status={"0": status(LONG + 1, LONG)})
    data = written_by(4, pickled(top, ring(LONG, open_entry(LONG))))

    assert len(same(data).entries) < 50
    (track,) = tracks(data)
    assert track.group.ranks == tuple(range(20_000))


def test_a_text_that_is_no_utf_8_loses_only_those_letters() -> None:
    """A file's path may have any bytes."""
    data = pickled(header(), [entry(0, profiling_name="nccl:reduX")])

    (track,) = tracks(data.replace(b"nccl:reduX", b"nccl:redu\xff"))

    assert track.calls[0].op == "redu\ufffd"


@pytest.mark.repo
@pytest.mark.parametrize("fault", sorted(benchmark("fr_job").FAULTS))
@pytest.mark.parametrize("guilty", [(0,), (12, 17)])
def test_the_culprits_of_a_made_up_job_are_named(
    fault: str, guilty: tuple[int, ...], tmp_path: Path
) -> None:
    """On tensor, data and pipeline groups: every guilty rank is named and no innocent one."""
    made = benchmark("fr_job")
    job = made.make(fault, 24, 2, 4, guilty)
    made.write(job, tmp_path, 100)
    all_tracks = [
        track
        for path in sorted(tmp_path.iterdir())
        for track in tracks(path.read_bytes(), path.name)
    ]

    report = recorded_calls(all_tracks)

    named = {rank for f in report.findings if f.cause for rank in f.culprits}
    assert named == job.guilty, [finding.says for finding in report.findings]
    assert {t.who.rank for t in all_tracks} == set(range(24)) - job.absent
    if fault == "healthy":
        assert [f.verdict for f in report.findings] == [Verdict.ALL_COMPLETED]
