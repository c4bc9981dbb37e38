"""Flight recorder dumps of all versions, sane and damaged, become tracks or gaps."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fr_docs import (
    REAL,
    benchmark,
    document,
    entry,
    facts,
    gaps,
    header,
    open_entry,
    pickled,
    status,
    tracks,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from whyhang.analyzer.collectives import Verdict, recorded_calls
from whyhang.analyzer.facts import Call, CallState, Gap, Group, Setting, Track, Trust, UnsafeDump
from whyhang.collectors.flight_recorder import excerpt, pickles
from whyhang.collectors.flight_recorder.reader import FlightRecorder

READER = FlightRecorder()


def states(calls: tuple[Call, ...]) -> list[tuple[str, int | None, str]]:
    return [(call.op, call.seq, call.state.name.lower()) for call in calls]


# --- real dumps -----------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["", ".json"])
def test_a_real_gloo_dump_is_read(suffix: str) -> None:
    """Finished calls over gloo are "scheduled" and retired; groups and ranks are not named."""
    path = REAL / f"comm_lib_trace_rank_1{suffix}"
    found = tracks(path.read_bytes(), path.name)

    world, pair = sorted(found, key=lambda track: track.group.name)
    assert (world.who.rank, world.enqueued, world.completed) == (1, 48, 48)
    assert world.group == Group(name="0", description="default_pg")
    assert (pair.group, pair.enqueued) == (Group(name="1"), 8)
    assert [call.op for call in world.calls[-6:]] == [
        "all_reduce", "all_gather", "gather", "scatter", "all_to_all", "barrier",
    ]  # fmt: skip
    assert world.lost == 16  # the ring held 40 of 56 calls
    sites = {frame.function for call in pair.calls for frame in call.frames}
    assert sites == ({"broadcast", "wrapper", "step", "<module>"} if not suffix else set())


@pytest.mark.repo
def test_the_test_dumps_are_written_as_torch_writes_them() -> None:
    """What the other tests read has the very bytes of a real dump."""
    pickler = benchmark("fr_pickler")
    for path in sorted(REAL.glob("comm_lib_trace_rank_?")):
        real = pickle.loads(path.read_bytes())
        frames: dict[int, object] = {}
        for made in real["entries"]:
            made["frames"] = [
                frames.setdefault(id(f), pickler.Frame(f["name"], f["filename"], f["line"]))
                for f in made["frames"]
            ]
        top = {key: value for key, value in real.items() if key != "entries"}
        assert pickler.dump(top, real["entries"]) == path.read_bytes()


# --- which file, whose ----------------------------------------------------------------------


def test_dumps_are_recognised_by_what_is_in_them() -> None:
    """Any name will do for pickles and JSON of any version; other files are left alone."""
    dump = pickled(header(), [entry(0)])
    for data in (dump, json.dumps({"version": "2.10", "entries": [entry(0)]}).encode()):
        assert READER.sniff(document(data, "x/whatever"))
    assert READER.sniff(document(pickle.dumps([entry(0)], protocol=2), "whatever"))
    assert not READER.sniff(document(pickle.dumps({"epoch": 3}), "model.pkl"))
    assert not READER.sniff(document(b'{"entries": []}', "list.json"))
    assert not READER.sniff(document(b"[rank0]: nccl:all_reduce record_id", "job.log"))


@pytest.mark.parametrize(
    "name",
    ["nccl_trace_rank_3", "comm_lib_trace_rank_3", "hccl_trace_rank_3", "host7_nccl_trace_rank_3"],
)
def test_an_empty_file_with_a_recorders_name_is_a_gap(name: str) -> None:
    """Nothing is left in it, so its name has to do."""
    assert READER.sniff(document(b"", name))

    (gap,) = gaps(facts(b"", name))
    assert gap.why == "it is empty"
    assert gap.who.rank == 3


@pytest.mark.parametrize(
    ("path", "rank"),
    [
        ("nccl_trace_rank_12", 12),
        ("dumps/nccl_trace_rank_node-a_12", 12),
        ("_dump_12", 12),
        ("comm_traces/rank_12", 12),
        ("trace_12.json", 12),
        ("prefix-of-our-own12", 12),
        ("gpu-a0.cluster.local.trace_12.pkl", 12),
        ("job7.fr_dump_12.host3.pickle", 12),
    ],
)
def test_the_rank_is_in_the_name(path: str, rank: int) -> None:
    """A dump does not say whose it is; every recorder puts the rank at the end of the name."""
    world = header(("0", "default_pg", range(16)))

    (track,) = tracks(pickled(world, [entry(0)]), path)

    assert track.who.rank == rank
    assert track.who.trust >= Trust.FILE_NAME


def test_groups_that_only_one_rank_can_be_in_tell_whose_it_is() -> None:
    """The member lists of all groups of a dump have the writer in common."""
    groups = [("0", "default_pg", range(8)), ("1", "tp", (4, 5)), ("2", "dp", (1, 5))]

    (track,) = tracks(pickled(header(*groups), [entry(0)]), "copy-of-a-dump")

    assert (track.who.rank, track.who.trust) == (5, Trust.FLIGHT_RECORDER)


@pytest.mark.parametrize("listed", [str, list])
def test_a_group_of_thousands_is_read_whole(listed: type) -> None:
    """The list of a large group is a text of many thousand characters."""
    top = header()
    top["pg_config"] = {"0": {"name": "0", "desc": "default_pg", "ranks": listed([*range(2048)])}}

    (track,) = tracks(pickled(top, [entry(0)]))
    assert track.group.ranks == tuple(range(2048))


def test_a_name_that_its_groups_contradict_is_said() -> None:
    """The content is believed, and the contradiction is told."""
    send = entry(0, profiling_name="nccl:send 1->0", is_p2p=True, p2p_seq_id=1)

    found = facts(pickled(header(("0", "default_pg", (4, 6))), [send]), "nccl_trace_rank_4")

    assert [fact.who.rank for fact in found if isinstance(fact, Track)] == [6]
    (gap,) = gaps(found)
    assert "named as rank 4" in gap.why
    assert gap.cost == "it was taken as rank 6"


# --- versions -------------------------------------------------------------------------------


def test_torch_2_2_wrote_a_bare_list() -> None:
    """Entries had one seq_id, microseconds, and no groups."""
    old = {
        "pg_id": 0, "seq_id": 7, "profiling_name": "nccl:all_reduce", "state": "started",
        "time_created_us": 5_000_000, "input_sizes": [[4]], "output_sizes": [[4]],
        "frames": [{"name": "step", "filename": "train.py", "line": 3}],
    }  # fmt: skip

    (track,) = tracks(pickle.dumps([old], protocol=2), "nccl_trace_rank_2")

    assert (track.enqueued, track.started, track.completed) == (7, 7, 6)
    assert track.group.description == "default_pg"
    assert track.calls[0].created_at == 5.0
    assert track.calls[0].frames[0].line == 3


def test_torch_2_3_had_no_group_in_its_entries() -> None:
    """The number of the group within the process stands for its name."""
    made = entry(0, seq_id=4, state="scheduled", retired=False)
    for key in ("process_group", "collective_seq_id", "p2p_seq_id", "is_p2p"):
        del made[key]
    top = {"version": "1.4", "pg_config": {}}

    (track,) = tracks(pickle.dumps({**top, "entries": [made]}, protocol=2))

    assert (track.group.name, track.enqueued, track.completed) == ("0", 4, 3)


@pytest.mark.parametrize("version", ["2.1", "2.4", "2.9", "2.10", "2.11", "3.0"])
def test_fields_are_looked_for_and_versions_not_compared(version: str) -> None:
    """A newer minor version with fields of its own is read like the others."""
    top = header(version=version, nccl_version="2.21.5", something_new={"a": 1})
    (track,) = tracks(pickled(top, [entry(0, flavour="new"), open_entry(1, flavour="new")]))

    assert (track.enqueued, track.completed) == (2, 1)
    settings = [f for f in facts(pickled(top, [entry(0)])) if isinstance(f, Setting)]
    assert {f.name: f.value for f in settings} == {"nccl": "2.21.5", "backend": "nccl"}


def test_json_has_texts_for_numbers_and_no_stacks() -> None:
    """The debug server's JSON writes pg_status as texts and leaves frames out."""
    made = open_entry(4, thread_id="1")
    del made["frames"]
    top = header(pg_status={"0": {k: str(v) for k, v in status(5, 4).items()}})

    (track,) = tracks(json.dumps({**top, "entries": [made]}).encode(), "rank_1.json")

    assert states(track.calls) == [("all_reduce", 5, "scheduled")]
    assert track.calls[0].frames == ()


# --- states ---------------------------------------------------------------------------------


def test_an_empty_dump_does_not_mean_an_idle_rank() -> None:
    """The recorder may have been off; that is a gap and no track."""
    found = facts(pickle.dumps({**header(), "entries": []}, protocol=2))

    assert not [fact for fact in found if isinstance(fact, Track)]
    (gap,) = gaps(found)
    assert "may have been off" in gap.why


def test_pg_status_tells_of_groups_without_an_entry() -> None:
    """Its numbers count groups in the order of creation, as numeric names do."""
    groups = [("0", "default_pg", range(4)), ("12", "dp", (0, 2)), ("5", "tp", (0, 1))]
    top = header(*groups, pg_status={"0": status(9, 9), "2": status(30, 28), "7": status(4, 4)})

    found = {t.group.name: t for t in tracks(pickle.dumps({**top, "entries": []}, protocol=2))}

    assert [(n, t.enqueued, t.completed) for n, t in sorted(found.items())] == [
        ("0", 9, 9), ("12", 4, 4), ("5", 30, 28),
    ]  # fmt: skip
    assert found["5"].started is None  # -1: timing is off


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

    found = facts(pickled(top, [open_entry(n) for n in range(40, 60)]))

    assert not [fact for fact in found if isinstance(fact, Track)]
    assert "ring was too small" in gaps(found)[0].why
    top = header(pg_status={"0": status(60, 40)})  # all that are active, and no other
    (track,) = tracks(pickled(top, [open_entry(n) for n in range(40, 60)]))
    assert track.completed == 40


def test_a_dump_of_active_calls_says_nothing_of_lost_ones() -> None:
    """Some jobs leave completed calls out; then the gaps are not losses."""
    assert tracks(pickled(header(), [open_entry(500), open_entry(507)]))[0].lost == 0


# --- sends, receives, batches ---------------------------------------------------------------


def send(number: int, peer: int, seq: int, **changes: object) -> dict[str, object]:
    made = {
        "profiling_name": f"nccl:send 0->{peer}", "is_p2p": True, "p2p_seq_id": seq,
        "collective_seq_id": 3, "process_group": ("4", "pp"), "pg_id": 1,
    }  # fmt: skip
    return open_entry(number, **{**made, **changes})


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


# --- the fast way ---------------------------------------------------------------------------


LONG = 500
"""Entries of a ring of which only the end is built."""


def ring(count: int, *tail: dict[str, object]) -> list[dict[str, object]]:
    """Give many completed calls and then some others."""
    return [*(entry(n) for n in range(count)), *tail]


def listed(value: object) -> object:
    """Make lists of tuples, as the reader does."""
    if isinstance(value, list | tuple):
        return [listed(item) for item in value]
    return {k: listed(v) for k, v in value.items()} if isinstance(value, dict) else value


LAYOUTS = ("torch", 2, 3, 4, 5)
"""Who has written a pickle: torch, or Python in one of its protocols after reading torch's."""


def written_by(layout: object, data: bytes) -> bytes:
    return pickle.dumps(pickle.loads(data), layout) if isinstance(layout, int) else data


def same(data: bytes) -> excerpt.Dump:
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
def test_an_unfinished_call_far_back_is_found(layout: object) -> None:
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
    found = {t.group.name: t for t in tracks(data)}
    assert (found["7"].enqueued, found["7"].completed) == (5, 4)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_last_call_of_a_quiet_group_is_found(layout: object) -> None:
    """How far a rank came on a group is told by the last entry, wherever it is."""
    made = ring(LONG)
    made[40] = entry(40, process_group=("7", "dp"), pg_id=2, collective_seq_id=77)
    top = header(("0", "default_pg", (0, 1)), ("7", "dp", (0, 1)),
                 pg_status={"0": status(LONG, LONG), "2": status(77, 77)})  # fmt: skip

    found = {t.group.name: t for t in tracks(written_by(layout, pickled(top, made)))}

    assert (found["7"].enqueued, found["7"].calls[0].op) == (77, "all_reduce")


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

    found = facts(written_by(layout, data)[:-40])

    assert [fact.enqueued for fact in found if isinstance(fact, Track)] == [101]
    (gap,) = gaps(found)
    assert gap.why == "it is cut off in the middle"


@pytest.mark.parametrize("keep", [1, 2, 30, 200, 500])
def test_a_file_cut_off_early_is_a_gap(keep: int) -> None:
    """Where not even one entry is whole, nothing is claimed."""
    found = facts(pickled(header(), ring(3))[:keep])

    assert len(gaps(found)) == 1
    assert len(found) == 1


def test_texts_that_entries_do_not_share_are_read_as_well() -> None:
    """JSON that was pickled: each entry has its own texts, and lists for tuples."""
    made = ring(LONG, open_entry(LONG))
    made[40] = entry(40, process_group=("7", "dp"), pg_id=2, collective_seq_id=77)
    groups = [("0", "default_pg", (0, 1)), ("7", "dp", (0, 1))]
    top = header(*groups, pg_status={"0": status(LONG + 1, LONG), "2": status(77, 77)})

    found = tracks(pickle.dumps(json.loads(json.dumps({**top, "entries": made}))))

    assert {t.group.name: (t.enqueued, t.completed) for t in found} == {
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
@pytest.mark.parametrize("guilty", [(13,), (0,), (12, 17)])
def test_the_culprits_of_a_made_up_job_are_found(
    fault: str, guilty: tuple[int, ...], tmp_path: Path
) -> None:
    """On tensor, data and pipeline groups: every guilty rank is named and no innocent one."""
    made = benchmark("fr_job")
    job = made.make(fault, 24, 2, 4, guilty)
    made.write(job, tmp_path, 150)
    found = [
        track
        for path in sorted(tmp_path.iterdir())
        for track in tracks(path.read_bytes(), path.name)
    ]

    report = recorded_calls(found)

    named = {rank for f in report.findings if f.cause for rank in f.culprits}
    assert named == job.guilty, [finding.says for finding in report.findings]
    assert {t.who.rank for t in found} == set(range(24)) - job.absent
    if fault == "healthy":
        assert [f.verdict for f in report.findings] == [Verdict.ALL_COMPLETED]


# --- nothing is run, nothing breaks ---------------------------------------------------------


class Evil:
    """Asks for a command when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch owned",)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_dump_that_asks_for_code_is_refused_by_name(
    protocol: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It becomes a finding of its own, and nothing is run."""
    monkeypatch.chdir(tmp_path)
    data = pickle.dumps({**header(), "entries": [entry(0, extra=Evil())]}, protocol=protocol)

    found = facts(data)

    unsafe = [f.code for f in found if isinstance(f, UnsafeDump)]
    assert unsafe == [f"{os.system.__module__}.system"]
    assert "it was not run" in gaps(found)[0].why
    assert not (tmp_path / "owned").exists()


def test_a_pickle_of_text_is_one_under_any_name() -> None:
    """Protocol 0 is text, and it may still ask for a command; what a shell printed is none."""
    shell = b"cd\nls\n(deepspeed) user@node1 $ python train.py\n"

    assert FlightRecorder().sniff(document(pickle.dumps(Evil(), protocol=0), "rank3.log"))
    assert not FlightRecorder().sniff(document(shell, "rank3.log"))


def test_code_in_a_dump_of_torchs_layout_is_refused() -> None:
    """A crafted entry does not get to the C unpickler, wherever only some entries are built."""
    data = pickled(header(), ring(3))
    crafted = data.replace(b"nccl:all_reduce", b"nccl:all_reducX", 1)
    at = crafted.index(b"is_p2p") - 5
    crafted = crafted[:at] + b"cposix\nsystem\n0" + crafted[at:]

    assert [f.code for f in facts(crafted) if isinstance(f, UnsafeDump)] == ["posix.system"]


def nested(count: int) -> bytes:
    return b"\x80\x02}(X\x07\x00\x00\x00entries" + b"](" * count + b"e" * count + b"u."


START = b"\x80\x02}(X\x09\x00\x00\x00pg_config"
BOMBS = {
    "a memo number that would take 34 GB": START + b"r\xff\xff\xff\x7fNu.",
    "tuples that take exponential time to hash": b"\x80\x02}X\x09\x00\x00\x00pg_config0"
     b"N" + b"q\x01h\x01\x86" * 60 + b"Ns.",
    "tuples two hundred thousand deep as a key": b"\x80\x02}(N" + b"N\x86" * 200_000
     + b"NX\x07\x00\x00\x00entriesq\x00](}(X\x06\x00\x00\x00framesq\x01]uee.",
    "a list within itself": START + b"NX\x07\x00\x00\x00entries]q\x00(h\x00eu.",
    "lists a hundred thousand deep": nested(100_000) + b"pg_config",
    "a text longer than the file": b"\x80\x02}(X\xff\xff\xff\x7fpg_config",
    "a number of a gigabyte": b"\x80\x02\x8b\xff\xff\xff\x3fpg_config",
    "marks that fit nothing": b"\x80\x02" + b"(u" * 50 + b"pg_config.",
    "a dict as a key": b"\x80\x02}(}NX\x09\x00\x00\x00pg_configNu.",
    "no pickle at all": b"\x80\x02" + bytes(range(256)) * 20 + b"pg_config",
    "JSON a hundred thousand deep": b'{"entries": ' + b"[" * 100_000 + b'"pg_config"',
    "JSON of the wrong shape": b'{"entries": 7, "pg_config": [], "record_id": 1}',
}  # fmt: skip


@pytest.mark.parametrize("what", sorted(BOMBS))
def test_a_crafted_file_is_a_gap_and_takes_no_time(what: str) -> None:
    """Neither memory nor time nor the stack gives way."""
    start = time.process_time()

    found = facts(BOMBS[what])

    assert gaps(found)
    assert not [fact for fact in found if isinstance(fact, Track)]
    assert time.process_time() - start < 2


def doubled(inner: object, times: int = 60) -> list[object]:
    """Make a list that holds another one twice, which holds another one twice, and so on."""
    value = [inner]
    for _ in range(times):
        value = [value, value]
    return value


@pytest.mark.parametrize("field", [*sorted(entry(0)), *header(), "entries"])
@pytest.mark.parametrize("protocol", [2, 4])
def test_lists_that_hold_each_other_many_times_over_take_no_time(field: str, protocol: int) -> None:
    """Through 60 of them lead more ways than can be walked, whichever field they stand in."""
    made = [entry(n) if n < 250 else open_entry(n) for n in range(300)]
    top: dict[str, object] = {**header(), "entries": made}
    hostile = doubled(made[0])
    for holder in (top, *made) if field != "entries" else ():
        if field in holder:
            holder[field] = {"0": {"ranks": hostile}} if field == "pg_config" else hostile
    top["entries"] = doubled(made[0]) if field == "entries" else made
    data = pickle.dumps(top, protocol)
    start = time.process_time()

    found = facts(data)

    assert [fact for fact in found if isinstance(fact, Track | Gap)]
    recorded_calls([fact for fact in found if isinstance(fact, Track)])
    assert time.process_time() - start < 2


def test_what_entries_share_is_read_once() -> None:
    """A crafted dump of a few kilobytes takes no more than its size, in time or memory."""
    name = "\u20ac" * 100_000
    frames = [{"name": name, "filename": name, "line": 10**150}] * 1000
    shared = {"frames": frames, "input_sizes": [list(range(500))] * 1000,
              "input_dtypes": [name] * 1000, "state": name, "profiling_name": name}  # fmt: skip
    ranks = list(range(100_000))
    config = {str(n): {"desc": name, "ranks": ranks} for n in range(1000)}
    made = [open_entry(n, **shared) for n in range(1000)]
    data = pickle.dumps({**header(), "pg_config": config, "entries": made})
    start = time.process_time()

    assert tracks(data)
    assert time.process_time() - start < 2


@pytest.mark.parametrize("protocol", [0, 1])
def test_pickles_that_look_like_text_are_refused_with_a_word(
    protocol: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No recorder writes protocols 0 and 1; none of them is taken for a log."""
    monkeypatch.chdir(tmp_path)
    for extra, why, claims in (
        ("train.py", "it is a pickle of protocol 0 or 1, which no recorder writes", []),
        (Evil(), "it was not run", [f"{os.system.__module__}.system"]),
    ):
        data = pickle.dumps({**header(), "entries": [entry(0, extra=extra)]}, protocol)

        assert READER.sniff(document(data, "dumps/rank_0"))
        found = facts(data)
        (gap,) = gaps(found)

        assert gap.why.endswith(why)
        assert [f.code for f in found if isinstance(f, UnsafeDump)] == claims
    assert not (tmp_path / "owned").exists()


def test_text_that_calls_a_function_is_no_log() -> None:
    """The smallest pickle that runs something holds nothing else."""
    data = b"cos\nsystem\n(S'touch owned'\ntR."

    assert READER.sniff(document(data, "nccl_trace_rank_3"))
    assert [f.code for f in facts(data) if isinstance(f, UnsafeDump)] == ["os.system"]
    assert READER.sniff(document(data, "rank3.pkl"))
    assert not READER.sniff(document(b"checking\nsystem\n(all of it)\n", "rank3.pkl"))


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=9)
    | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner,
                                                               max_size=3),
    max_leaves=6,
)  # fmt: skip


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_no_structure_breaks_the_reader(data: st.DataObject) -> None:
    """Whatever stands in place of any field, tracks or gaps come out, and the ledger takes them."""
    made = [entry(n) if n < 4 else open_entry(n) for n in range(6)]
    for _ in range(data.draw(st.integers(0, 6))):
        victim = data.draw(st.sampled_from(made))
        victim[data.draw(st.sampled_from(sorted(victim)))] = data.draw(PLAIN)
    top: dict[str, object] = {**header(), "entries": made}
    for key in data.draw(st.sets(st.sampled_from(sorted(top)))):
        top[key] = data.draw(PLAIN)
    written = pickle.dumps(top, protocol=data.draw(st.sampled_from([2, 4])))

    found = facts(written)

    assert found
    recorded_calls([fact for fact in found if isinstance(fact, Track)])


@settings(deadline=None, max_examples=200)
@given(
    st.integers(0, 5000),
    st.binary(min_size=1, max_size=6),
    st.sampled_from([0, 1]),
    st.sampled_from(LAYOUTS),
)
def test_no_byte_breaks_the_reader(at: int, junk: bytes, over: int, layout: object) -> None:
    """Damage anywhere in a dump is a gap or a smaller loss."""
    data = written_by(layout, DAMAGED)
    at %= len(data)
    broken = data[:at] + junk + data[at + over * len(junk) :]

    found = facts(broken)

    assert found
    recorded_calls([fact for fact in found if isinstance(fact, Track)])


DAMAGED = pickled(header(), ring(40, open_entry(40)))


@given(st.binary(max_size=200))
def test_tokens_are_read_to_the_end_or_refused(data: bytes) -> None:
    """What looks at a pickle before the C unpickler never reads beyond the data."""
    try:
        ends = [end for _, end, _ in pickles.operations(data)]
    except (pickles.UnsafePickleError, pickles.BadPickleError):
        return

    assert ends == sorted(set(ends))
    assert not ends or 0 < ends[-1] <= len(data)


@given(PLAIN)
def test_plain_data_is_built_as_pickle_does(value: object) -> None:
    """But for tuples, which become lists, shared ones as well."""
    for protocol in (3, 4, 5):  # 2 needs a function to make bytes
        for given_value in (value, (value, (value, 1), [(), (1,), (1, 2, value, 4)])):
            written = pickle.dumps(given_value, protocol=protocol)
            assert repr(pickles.load(written)) == repr(listed(pickle.loads(written)))


@pytest.mark.live
def test_recorders_of_a_real_job_name_the_missing_rank(tmp_path: Path) -> None:
    """A job over gloo hangs, its ranks write their dumps, and the late one is found."""
    script = Path(__file__).resolve().parent.parent / "samples" / "fr-missing-rank" / "train.py"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "4"]
    job = subprocess.Popen(
        [*launcher, "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", str(script)],
        env={**os.environ, "DUMPS": str(tmp_path), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 90
        while sum(path.stat().st_size > 0 for path in tmp_path.iterdir()) < 4:
            assert time.monotonic() < deadline
            assert job.poll() is None
            time.sleep(0.2)
        time.sleep(0.5)
    finally:
        job.terminate()  # torchrun ends its ranks
        job.wait(60)

    found = [t for path in tmp_path.iterdir() for t in tracks(path.read_bytes(), path.name)]
    (finding,) = recorded_calls(found).findings

    assert (finding.verdict, finding.culprits) == (Verdict.NEVER_JOINED, (2,))
    assert finding.site is not None
    assert finding.site.function == "train"


@pytest.mark.parametrize(
    "field", ["time_created_ns", "record_id", "collective_seq_id", "pg_id", "input_sizes"]
)
def test_a_number_of_any_length_is_no_number(field: str) -> None:
    """JSON may hold one with hundreds of digits, which is too large to be divided."""
    huge = 10**400
    broken = open_entry(3, **{field: [[huge]] if field == "input_sizes" else huge})
    data = json.dumps({**header(), "entries": [entry(0), entry(1), broken]}).encode()

    found = [fact for fact in facts(data) if isinstance(fact, Track)]

    assert found
    assert str(recorded_calls(found))
