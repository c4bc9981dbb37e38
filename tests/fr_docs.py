"""Recorder dumps for tests, byte for byte as torch writes them, and documents to read them from."""

from __future__ import annotations

import importlib.util
import pickle
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType

import documents

from whyhang.analyzer.facts import Call, Fact, Gap, Track
from whyhang.analyzer.reading import Document
from whyhang.collectors.flight_recorder.reader import FlightRecorder

REPOSITORY = Path(__file__).resolve().parent.parent
REAL = Path(__file__).resolve().parent / "data" / "recorders"


def benchmark(name: str) -> ModuleType:
    """Import a module of the benchmarks, which are no package."""
    if name not in sys.modules:
        folder = REPOSITORY / "benchmarks"
        for needed in ("fr_pickler", name):
            spec = importlib.util.spec_from_file_location(needed, folder / f"{needed}.py")
            assert spec is not None
            assert spec.loader is not None
            module = sys.modules[needed] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
    return sys.modules[name]


def pickled(top: Mapping[str, object], entries: Sequence[Mapping[str, object]]) -> bytes:
    """Write a dump as torch does."""
    written = benchmark("fr_pickler").dump(top, entries)
    assert isinstance(written, bytes)
    return written


def document(data: bytes, path: str = "comm_lib_trace_rank_0") -> Document:
    """Make a document as a folder's reader would."""
    return documents.document(data, path)


def facts(data: bytes, path: str = "comm_lib_trace_rank_0") -> list[Fact]:
    """Read a dump."""
    return list(FlightRecorder().read(document(data, path)))


def tracks(data: bytes, path: str = "comm_lib_trace_rank_0") -> list[Track]:
    """Read a dump's tracks."""
    return [fact for fact in facts(data, path) if isinstance(fact, Track)]


def gaps(among: Iterable[Fact]) -> list[Gap]:
    """Return the gaps among facts."""
    return [fact for fact in among if isinstance(fact, Gap)]


def entry(number: int, **changes: object) -> dict[str, object]:
    """Make an entry of format 2.10: a completed all_reduce over NCCL on the default group."""
    made: dict[str, object] = {
        "frames": [],
        "record_id": number,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "thread_name": "pt_main_thread",
        "thread_id": "140000000000000",
        "collective_seq_id": number + 1,
        "p2p_seq_id": 0,
        "op_id": number + 1,
        "profiling_name": "nccl:all_reduce",
        "time_created_ns": 1_758_610_000_000_000_000 + number,
        "input_sizes": [[8]],
        "input_dtypes": ["Float"],
        "output_sizes": [[8]],
        "output_dtypes": ["Float"],
        "state": "completed",
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": 1_758_610_000_000_000_500 + number,
        "retired": True,
        "timeout_ms": 600_000,
        "is_p2p": False,
    }
    return {**made, **changes}


def open_entry(number: int, **changes: object) -> dict[str, object]:
    """Make an entry that is enqueued and not finished."""
    unfinished = {"state": "scheduled", "retired": False, "time_discovered_completed_ns": None}
    return entry(number, **{**unfinished, **changes})


def header(*groups: tuple[str, str, Sequence[int]], **changes: object) -> dict[str, object]:
    """Make what stands before the entries."""
    known = groups or (("0", "default_pg", (0, 1)),)
    made: dict[str, object] = {
        "version": "2.10",
        "pg_config": {
            name: {"name": name, "desc": desc, "ranks": str(list(ranks))}
            for name, desc, ranks in known
        },
        "comm_lib_version": "2.27.3",
        "pg_status": {},
    }
    return {**made, **changes}


def status(enqueued: int, completed: int, started: int = -1) -> dict[str, int]:
    """Make the status of one group."""
    return {
        "last_enqueued_collective": enqueued,
        "last_started_collective": started,
        "last_completed_collective": completed,
    }


READER = FlightRecorder()


def states(calls: tuple[Call, ...]) -> list[tuple[str, int | None, str]]:
    return [(call.op, call.seq, call.state.name.lower()) for call in calls]


def send(number: int, peer: int, seq: int, **changes: object) -> dict[str, object]:
    made = {
        "profiling_name": f"nccl:send 0->{peer}", "is_p2p": True, "p2p_seq_id": seq,
        "collective_seq_id": 3, "process_group": ("4", "pp"), "pg_id": 1,
    }  # fmt: skip
    return open_entry(number, **{**made, **changes})


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
