"""Damaged and hostile recorder dumps are gaps: nothing is run, nothing takes long."""

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
    LAYOUTS,
    READER,
    document,
    entry,
    facts,
    gaps,
    header,
    listed,
    open_entry,
    pickled,
    ring,
    tracks,
    written_by,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from whyhang.analyzer.collectives import Verdict, recorded_calls
from whyhang.analyzer.facts import Gap, Track, UnsafeDump
from whyhang.collectors.flight_recorder import pickles
from whyhang.collectors.flight_recorder.reader import FlightRecorder


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

    all_facts = facts(data)

    unsafe = [f.code for f in all_facts if isinstance(f, UnsafeDump)]
    assert unsafe == [f"{os.system.__module__}.system"]
    assert "it was not run" in gaps(all_facts)[0].why
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

    all_facts = facts(BOMBS[what])

    assert gaps(all_facts)
    assert not [fact for fact in all_facts if isinstance(fact, Track)]
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

    all_facts = facts(data)

    assert [fact for fact in all_facts if isinstance(fact, Track | Gap)]
    recorded_calls([fact for fact in all_facts if isinstance(fact, Track)])
    assert time.process_time() - start < 2


def test_what_entries_share_is_read_once() -> None:
    """A crafted dump of a few kilobytes takes no more than its size, in time or memory."""
    name = "\u20ac" * 100_000
    frames = [{"name": name, "filename": name, "line": 10**150}] * 1000
    shared = {"frames": frames, "input_sizes": [list(range(500))] * 1000,
              "input_dtypes": [name] * 1000, "state": name, "profiling_name": name}  # fmt: skip
    ranks = list(range(100_000))
    config = {str(n): {"desc": name, "ranks": ranks} for n in range(10)}
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
        all_facts = facts(data)
        (gap,) = gaps(all_facts)

        assert gap.why.endswith(why)
        assert [f.code for f in all_facts if isinstance(f, UnsafeDump)] == claims
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


@settings(suppress_health_check=[HealthCheck.too_slow])
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

    all_facts = facts(written)

    assert all_facts
    recorded_calls([fact for fact in all_facts if isinstance(fact, Track)])


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

    all_facts = facts(broken)

    assert all_facts
    recorded_calls([fact for fact in all_facts if isinstance(fact, Track)])


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

    all_tracks = [t for path in tmp_path.iterdir() for t in tracks(path.read_bytes(), path.name)]
    (finding,) = recorded_calls(all_tracks).findings

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

    records = [fact for fact in facts(data) if isinstance(fact, Track)]

    assert records
    assert str(recorded_calls(records))
