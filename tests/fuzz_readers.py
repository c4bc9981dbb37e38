"""Throws bytes at readers: ``python tests/fuzz_readers.py recorder|stacks|logs``.

libFuzzer's own options may follow, as ``-max_total_time=600``. Needs atheris, which is no
dependency of the project. Every input must be read within seconds and a bounded amount of
memory, with no error and nothing run. Real dumps, and the lines that signatures know, are what
it starts from.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

try:
    import atheris
except ImportError:
    sys.exit("The fuzzer needs atheris: pip install atheris")

with atheris.instrument_imports(include=["whyhang"]):
    from documents import document

    from whyhang import signatures
    from whyhang.analyzer.collectives import recorded_calls
    from whyhang.analyzer.facts import Gap, Track
    from whyhang.collectors import READERS
    from whyhang.collectors.flight_recorder.reader import FlightRecorder
    from whyhang.collectors.logs.reader import LogReader

TESTS = Path(__file__).resolve().parent


def forbidden(event: str, arguments: tuple[object, ...]) -> None:
    """Stop at anything that a pickle could be after."""
    if event in {"os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "pickle.find_class"}:
        raise AssertionError(f"{event} {arguments}")


def recorder(data: bytes) -> None:
    """Read a dump, and judge what came out."""
    reader, given = FlightRecorder(), document(data, "nccl_trace_rank_0")
    reader.sniff(given)
    facts = list(reader.read(given))
    assert any(isinstance(fact, Track | Gap) for fact in facts)
    recorded_calls([fact for fact in facts if isinstance(fact, Track)])


def stacks(data: bytes) -> None:
    """Read with every reader that takes it, those of GPUs and communicators as well."""
    given = document(data, "rank0.txt")
    for reader in READERS:
        if reader.sniff(given):
            list(reader.read(given))


def logs(data: bytes) -> None:
    """Read a log for all that signatures look for."""
    list(LOG.read(document(data, "rank0.log")))


def known() -> LogReader:
    """Make a log reader that looks for all signatures."""
    return LogReader(pattern for s in signatures.load() for pattern in s.searched)


def dumps() -> Iterable[bytes]:
    """Give real recorder dumps."""
    return (path.read_bytes() for path in sorted((TESTS / "data" / "recorders").iterdir()))


def printed() -> Iterable[bytes]:
    """Give one dump of each tool."""
    sys.path.append(str(TESTS))
    from test_stack_fuzz import JSON_SAMPLE, SAMPLES

    return (text.encode() for text in (*SAMPLES.values(), JSON_SAMPLE))


def lines() -> Iterable[bytes]:
    """Give the lines that signatures know."""
    return ("\n".join(s.matches).encode() for s in signatures.load() if s.matches)


KINDS: dict[str, tuple[Callable[[bytes], None], Callable[[], Iterable[bytes]]]] = {
    "recorder": (recorder, dumps),
    "stacks": (stacks, printed),
    "logs": (logs, lines),
}
LOG = known()


def main() -> None:
    """Fuzz one kind of reader."""
    if len(sys.argv) < 2 or sys.argv[1] not in KINDS:
        sys.exit(f"which readers? one of {', '.join(KINDS)}")
    one, seeds = KINDS[sys.argv[1]]
    sys.addaudithook(forbidden)
    with tempfile.TemporaryDirectory() as folder:
        for number, seed in enumerate(seeds()):
            Path(folder, str(number)).write_bytes(seed)
        limits = ["-timeout=5", "-rss_limit_mb=1024", "-max_len=16384"]
        atheris.Setup([sys.argv[0], folder, *limits, *sys.argv[2:]], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
