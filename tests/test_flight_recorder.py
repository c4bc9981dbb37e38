"""Flight recorder dumps of all versions become tracks: which file is one, and whose."""

from __future__ import annotations

import json
import pickle

import pytest
from fr_docs import (
    READER,
    REAL,
    benchmark,
    document,
    entry,
    facts,
    gaps,
    header,
    open_entry,
    pickled,
    states,
    status,
    tracks,
)

from whyhang.analyzer.facts import Group, Setting, Track, Trust

# --- real dumps -----------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["", ".json"])
def test_a_real_gloo_dump_is_read(suffix: str) -> None:
    """Finished calls over gloo are "scheduled" and retired; groups and ranks are not named."""
    path = REAL / f"comm_lib_trace_rank_1{suffix}"
    all_tracks = tracks(path.read_bytes(), path.name)

    world, pair = sorted(all_tracks, key=lambda track: track.group.name)
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


def test_a_name_that_its_groups_contradict_is_reported() -> None:
    """The content is believed, and the contradiction is told."""
    send = entry(0, profiling_name="nccl:send 1->0", is_p2p=True, p2p_seq_id=1)

    all_facts = facts(pickled(header(("0", "default_pg", (4, 6))), [send]), "nccl_trace_rank_4")

    assert [fact.who.rank for fact in all_facts if isinstance(fact, Track)] == [6]
    (gap,) = gaps(all_facts)
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

    assert (track.enqueued, track.completed) == (7, 6)
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
