"""No text costs more than its file's share of time, whatever it holds."""

from __future__ import annotations

import importlib
import pkgutil
import threading
import time
from collections.abc import Iterator

import pytest
from gpu_docs import document

from whyhang import collectors
from whyhang.analyzer.facts import Fact, Gap
from whyhang.analyzer.reading import Document
from whyhang.collectors import limits
from whyhang.collectors.files.folder import read_documents

SLOW = limits.compile(r"(?:a|aa)+!$")


@pytest.fixture(autouse=True)
def _little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SECONDS", 0.1)


class Slow:
    """A reader whose pattern takes time exponential in the length of a line."""

    name = "slow lines"

    def sniff(self, document: Document) -> bool:
        """Take everything."""
        return True

    def read(self, document: Document) -> Iterator[Fact]:
        """Match each line."""
        text, gaps = limits.bounded(document, document.head.decode())
        yield from gaps
        for number, line in enumerate(text.split("\n"), 1):
            if SLOW.match(line):
                yield Gap(what="found", why=line, source=document.source(number))


def test_a_pattern_gives_up_and_the_file_says_where() -> None:
    """What was read before stays; the gap names the line, and what it costs."""
    started = time.process_time()
    gap, first = read_documents(
        [document(f"aa!\n\n{'a' * 600}!b\naa!\n")], readers=(Slow(), Slow())
    )

    assert time.process_time() - started < 1
    assert isinstance(first, Gap)
    assert first.why == "aa!"
    assert isinstance(gap, Gap)
    assert (gap.source and gap.source.line) == 3
    assert "line 3 cannot be taken apart" in str(gap)
    assert "not known" in gap.cost


def test_what_others_do_meanwhile_costs_a_reader_nothing() -> None:
    """Only the time that a reader takes itself is counted."""
    budget = limits.Budget()
    for _ in range(3):
        with budget:
            pass
        busy = time.process_time() + 0.05
        while time.process_time() < busy:
            pass
    with budget:
        assert budget.left() > 0.05


def test_a_thread_beside_costs_a_reader_nothing() -> None:
    """Files are read side by side: one that takes long leaves the others their time."""

    def spin() -> None:
        until = time.thread_time() + 0.15
        while time.thread_time() < until:
            pass

    beside = threading.Thread(target=spin)
    budget = limits.Budget()
    with budget:
        beside.start()
        beside.join()
        assert budget.left() > 0


def test_nothing_is_matched_when_the_time_is_over() -> None:
    """A thousand quick matches count as one slow one does."""
    budget = limits.Budget()
    pattern = limits.compile("a")
    with budget, pytest.raises(limits.TooSlowError):  # noqa: PT012
        while True:
            pattern.match("a")


def test_long_lines_are_cut_and_reported() -> None:
    """The other lines stay as they are, and keep their numbers."""
    text, gaps = limits.bounded(document(""), f"a\n{'b' * 50_000}\nc\r\n", first=11)

    assert text == f"a\n{'b' * limits.MAX_LINE}\nc\r\n"
    (gap,) = gaps
    assert (gap.source and gap.source.line) == 12
    assert "1 line is longer than 16,384 characters" in str(gap)


def test_runs_of_blanks_are_shortened() -> None:
    """Indentation and columns stay; ten thousand tabs do not."""
    indented = f"{' ' * 120}a\n"
    text, gaps = limits.bounded(document(""), f"{indented}b{chr(9) * 100_000}c\n{' ' * 99_999}")

    assert text == f"{indented}b{chr(9) * limits.MAX_BLANKS}c\n{' ' * limits.MAX_BLANKS}"
    assert not gaps


def test_a_pattern_matches_as_those_of_re_do() -> None:
    """Match, search, fullmatch, finditer and sub have their usual meaning."""
    pattern = limits.compile(r"(?P<word>[a-z]+)")

    assert (match := pattern.match("ab cd")) is not None
    assert match["word"] == "ab"
    assert pattern.match("ab cd", 2) is None
    assert (match := pattern.search("ab cd", 2)) is not None
    assert match.span() == (3, 5)
    assert pattern.fullmatch("ab cd") is None
    assert [match[0] for match in pattern.finditer("ab cd")] == ["ab", "cd"]
    assert pattern.sub("x", "ab cd") == "x x"


def test_every_reader_has_valid_patterns() -> None:
    """A pattern is compiled when it is first used, which must not show that it is none."""
    patterns = [
        (info.name, value)
        for info in pkgutil.walk_packages(collectors.__path__, f"{collectors.__name__}.")
        if ".nvml_child" not in info.name
        for value in vars(importlib.import_module(info.name)).values()
        if isinstance(value, limits.Pattern)
    ]

    assert len({module for module, _ in patterns}) > 20
    for _, pattern in patterns:
        pattern.search(pattern.pattern[:0])
