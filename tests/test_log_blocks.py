"""Blocks of a log: every byte once, whole lines, right numbers."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyhang.collectors.logs.engine import byte_blocks as log_blocks
from whyhang.collectors.logs.engine.byte_blocks import Block, PlainBlock, blocks


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_blocks, "BEHIND", 16)
    monkeypatch.setattr(log_blocks, "AHEAD", 32)
    monkeypatch.setattr(log_blocks, "CUT", 24)
    monkeypatch.setattr(log_blocks, "OVERLAP", 8)


@given(st.lists(st.text("ab\r é", max_size=90), max_size=30).map("\n".join), st.integers(16, 80))
def test_lines_come_once_with_their_numbers(text: str, read: int) -> None:
    """Together the blocks are the file; line numbers and offsets are those of the file."""
    data = text.encode()
    at, line = 0, 1
    for block in blocks(io.BytesIO(data), read=read):
        block.line = line
        assert block.base + block.known == at
        fresh = max(block.start, block.known)
        assert bytes(block.data[fresh : block.stop]) == data[at : block.base + block.stop]
        assert block.line_at(fresh) == 1 + data.count(b"\n", 0, at)
        assert block.file_offset(fresh) == at
        at = block.base + block.stop
        line = block.line_at(block.stop)
        block.release()

    assert at == len(data)


def test_an_endless_line_is_cut_with_an_overlap() -> None:
    """Memory stays bounded, and a word across the cut is seen whole in one block."""
    data = bytes(range(97, 123)) * 40
    seen = []
    for block in blocks(io.BytesIO(data), read=64):
        assert len(block.data) < 400
        seen.append(bytes(block.data[block.start : block.stop]))
        block.release()

    assert len(seen) > 5
    for word in (data[at : at + 6] for at in range(0, len(data) - 6, 6)):
        assert any(word in part for part in seen)


def test_what_was_read_before_a_failure_is_kept() -> None:
    """A stream that breaks raises after its last whole part."""

    class Broken(io.BytesIO):
        def readinto(self, buffer: object) -> int:
            if self.tell() >= 40:
                raise OSError("cut")
            return super().readinto(buffer[:40])  # type: ignore[index]

    pieces: list[bytes] = []

    def consume() -> None:
        for block in blocks(Broken(b"line one\n" * 20), read=64):
            pieces.append(bytes(block.data[block.start : block.stop]))  # noqa: PERF401 - it raises

    with pytest.raises(OSError, match="cut"):
        consume()

    assert b"".join(pieces) == (b"line one\n" * 20)[:40]


def test_a_stream_without_readinto() -> None:
    """Whatever has ``read`` will do."""

    class Plain:
        def __init__(self) -> None:
            self._rest = io.BytesIO(b"a\nb\n")

        def read(self, size: int) -> bytes:
            return self._rest.read(size)

    (block,) = blocks(Plain())  # type: ignore[arg-type]

    assert bytes(block.data[block.start : block.stop]) == b"a\nb\n"


def test_progress_is_reported() -> None:
    """The bytes told add up to the file."""
    counts: list[int] = []
    for block in blocks(io.BytesIO(b"x\n" * 500), read=64, on_bytes=counts.append):
        block.release()

    assert sum(counts) == 1000


def test_a_block_without_colours_knows_the_places_in_the_file() -> None:
    """Colour codes are taken out; offsets still count them."""
    data = b"one\n\x1b[31mtwo\x1b[0m three\nfour\n"
    block = Block(data, start=4, stop=len(data), end=len(data), known=4, base=1000)
    block.line = 7
    plain = PlainBlock(block)

    assert plain.data[: plain.end] == b"one\ntwo three\nfour\n"
    assert plain.line_at(plain.data.index(b"four")) == 8
    assert plain.file_offset(plain.data.index(b"two")) == 1000 + data.index(b"two")
    assert plain.file_offset(plain.data.index(b"four")) == 1000 + data.index(b"four")


def test_segments_of_a_progress_bar() -> None:
    r"""A ``\r`` ends what a person sees as a line; longer lines are cut around the place."""
    data = b"first\n10%\r20% here\r30%\n" + b"y" * 100 + b"HIT" + b"y" * 100 + b"\n"
    block = Block(data, start=0, stop=len(data), end=len(data), known=0, base=0)

    assert data[slice(*block.segment(data.index(b"here"), 50))] == b"20% here"
    part = data[slice(*block.segment(data.index(b"HIT"), 40))]
    assert b"HIT" in part
    assert len(part) == 40
