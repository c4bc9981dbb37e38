"""Throws bytes at the recorder's reader: ``python tests/fuzz_flight_recorder.py -runs=200000``.

Needs atheris, which is no dependency of the project. Every input must come out as tracks and
gaps, within seconds and a bounded amount of memory, with nothing run. Real dumps and the bombs
of the tests are what it starts from.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["whyhang"]):
    from whyhang.analyzer.ledger import judge
    from whyhang.analyzer.model import NOBODY, Gap, Track
    from whyhang.analyzer.reading import HEAD_BYTES, Document
    from whyhang.collectors.flight_recorder.reader import FlightRecorder

REAL = Path(__file__).resolve().parent / "data" / "recorders"


def forbidden(event: str, arguments: tuple[object, ...]) -> None:
    """Stop at anything that a pickle could be after."""
    if event in {"os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "pickle.find_class"}:
        raise AssertionError(f"{event} {arguments}")


def one(data: bytes) -> None:
    """Read one input, and judge what came out."""
    reader = FlightRecorder()
    document = Document(
        path="nccl_trace_rank_0",
        head=data[:HEAD_BYTES],
        size=len(data),
        open=lambda: io.BytesIO(data),
        who=NOBODY,
    )
    reader.sniff(document)
    facts = list(reader.read(document))
    assert any(isinstance(fact, Track | Gap) for fact in facts)
    judge([fact for fact in facts if isinstance(fact, Track)])


def main() -> None:
    """Fuzz with what libFuzzer's own options say."""
    sys.addaudithook(forbidden)
    with tempfile.TemporaryDirectory() as seeds:
        for path in REAL.iterdir():
            Path(seeds, path.name).write_bytes(path.read_bytes())
        limits = ["-timeout=5", "-rss_limit_mb=1024", "-max_len=16384"]
        atheris.Setup([sys.argv[0], seeds, *limits, *sys.argv[1:]], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
