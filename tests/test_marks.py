"""Words that tell for which reader a file may be."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyhang.collectors.files import marks as file_marks
from whyhang.collectors.files.marks import MANY, Marks

WORDS = (b"(idle)", b'  File "', b"#0  ", b"a\n")


@given(st.lists(st.sampled_from([*WORDS, b"(idl", b"# 0", b"x" * 40, b"\n"]), max_size=8))
def test_both_ways_of_looking_agree(parts: list[bytes]) -> None:
    """What Hyperscan finds in much text is what is found word by word in little."""
    data = b" ".join(parts)
    slow = Marks(*WORDS).within(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_marks, "MANY", -1)
        assert Marks(*WORDS).within(data) == slow == {word for word in WORDS if word in data}


def test_marks_are_seen_without_hyperscan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the package is missing, each word is looked for by itself."""
    monkeypatch.setattr(file_marks, "MANY", -1)
    monkeypatch.setattr(file_marks, "hyperscan", None)
    assert Marks(*WORDS).within(b"a thread (idle)\n") == {b"(idle)"}


@given(st.integers(1, 60), st.integers(1, 12))
def test_a_word_across_two_pieces_is_seen(before: int, piece: int) -> None:
    """A file is looked at piece by piece."""
    data = b"x" * before + b"(idle)" + b"y" * 20
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_marks, "PIECE", piece)
        assert Marks(*WORDS).within_file(io.BytesIO(data), len(data)) == {b"(idle)"}
        assert Marks(*WORDS).within_file(io.BytesIO(data), before + 5) == frozenset()


def test_several_threads_may_look_at_once() -> None:
    """Files of a cluster are read here while others are read there."""
    marks = Marks(b"Thread", b"#0", b"Current thread")
    text = b"x" * (4 * MANY) + b"#0"
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(marks.within, [text] * 400)) == {frozenset({b"#0"})}
