"""Blocks of a large file, read in any order: every byte once, whole lines, right numbers."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from whyhang.collectors.logs.engine import byte_blocks as log_blocks
from whyhang.collectors.logs.engine.byte_blocks import Block, ranges


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in {"READ": 64, "BEHIND": 16, "AHEAD": 40, "CUT": 24, "OVERLAP": 8}.items():
        monkeypatch.setattr(log_blocks, name, size)


def _read(path: Path, seed: int = 0) -> list[Block]:
    """Read all blocks of a file, in a random order, and give them in that of the file."""
    with path.open("rb") as stream:
        parts = list(ranges(stream, lambda _: None) or ())
        order = list(range(len(parts)))
        random.Random(seed).shuffle(order)
        rows = {number: parts[number]() for number in order}
    return [rows[number] for number in range(len(parts))]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text("ab\r é", max_size=90), max_size=30).map("\n".join), st.integers(0, 9))
def test_lines_come_once_with_their_numbers(tmp_path: Path, text: str, seed: int) -> None:
    """Together the blocks are the file, whatever thread reads which of them first."""
    data = text.encode() + b"\n" * 65
    path = tmp_path / "job.log"
    path.write_bytes(data)
    at, line = 0, 1
    for block in _read(path, seed):
        block.line = line
        assert block.base + block.known == at
        fresh = max(block.start, block.known)
        assert bytes(block.data[fresh : block.stop]) == data[at : block.base + block.stop]
        assert block.line_at(fresh) == 1 + data.count(b"\n", 0, at)
        at = block.base + block.stop
        line = block.line_at(block.stop)

    assert at == len(data)


def test_a_block_holds_whole_lines(tmp_path: Path) -> None:
    """A line across a boundary belongs to the block in which it begins."""
    path = tmp_path / "job.log"
    path.write_bytes(b"".join(b"line %d of a log\n" % number for number in range(100)))
    for block in _read(path):
        assert block.start == block.known
        assert block.data[block.stop - 1 : block.stop] == b"\n"
        assert bytes(block.data[block.start : block.start + 5]) == b"line "


def test_an_endless_line_is_cut_with_an_overlap(tmp_path: Path) -> None:
    """A word across the cut is seen whole in one block."""
    data = bytes(range(97, 123)) * 40
    path = tmp_path / "job.log"
    path.write_bytes(data)
    seen = [bytes(block.data[block.start : block.stop]) for block in _read(path)]

    assert len(seen) > 5
    for word in (data[at : at + 6] for at in range(0, len(data) - 6, 6)):
        assert any(word in part for part in seen)


def test_a_log_that_grows_or_shrinks_meanwhile_is_read(tmp_path: Path) -> None:
    """What comes later is left out; what has gone is missing, and nothing fails."""
    data = b"step and loss\n" * 30
    path = tmp_path / "job.log"
    path.write_bytes(data)
    with path.open("rb") as stream:
        parts = list(ranges(stream, lambda _: None) or ())
        path.write_bytes(data * 2)
        grown = [part() for part in parts]
        path.write_bytes(data[:100])
        shrunk = [part() for part in parts]

    assert sum(block.stop - block.known for block in grown) == len(data)
    assert sum(block.stop - block.known for block in shrunk) == 100


def test_small_files_and_streams_are_read_one_after_the_other(tmp_path: Path) -> None:
    """Only a large file on disk can be read in any order."""
    path = tmp_path / "job.log"
    path.write_bytes(b"x\n" * 10)
    with path.open("rb") as stream:
        assert ranges(stream, lambda _: None) is None
    assert ranges(io.BytesIO(b"x\n" * 1000), lambda _: None) is None


def test_the_progress_is_reported(tmp_path: Path) -> None:
    """Every byte that is given out for reading counts once."""
    path = tmp_path / "job.log"
    path.write_bytes(b"x\n" * 500)
    counts: list[int] = []
    with path.open("rb") as stream:
        assert list(ranges(stream, counts.append) or ())
    assert sum(counts) == 1000
