"""What is looked for instead of a pattern is found in every line that the pattern matches."""

from __future__ import annotations

import bisect
import functools
import itertools
from collections.abc import Callable

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st
from log_docs import of, read_log

from whyhang import signatures
from whyhang.analyzer.facts import LogLine
from whyhang.collectors.logs.engine.byte_blocks import Block
from whyhang.collectors.logs.engine.needle import needle_of
from whyhang.collectors.logs.engine.pattern import UnsearchableError
from whyhang.collectors.logs.engine.search import Searcher, searcher
from whyhang.collectors.logs.lines.readers import OWN_PATTERNS
from whyhang.collectors.logs.text.line import Voice, clean, take_apart

PATTERNS = [
    r"Watchdog caught .*: WorkNCCL\(SeqNum=(?P<seq>\d+), OpType=(?P<op>\w+)",
    r"(?P<a>ab|cd+)?x{2,3}[^,]*y",
    r"(?i)out of (?:memory|shm)\b",
    r"^\s*exitcode\s*: (?P<code>-?\d+)",
    r"a(?=b)b(?!c)",
    r"(?<=x)é+[à-ü]z",
    r"[\w./:+-]+\[(?P<pid>\d+)\]: segfault",
    r"\x41\u00e9[^\x41]\.\*",
    r"(a|bc){3,40}z",
    r"Xid \(PCI:[0-9a-fA-F:.]+[^)]*\): 79\b",
    r"peer \[(?P<peer>[^\]]+)\]:\d+$",
    r"x.z",
    r"(?P<x>q)(?P=x)r",
    r"a++b*?c{,3}d",
    r"ab(?i)c|(?<name>[^\W\d]y)",
    r"(?:abc|abd|)z?\Ax",
]
WORDS = (
    "Watchdog caught|: WorkNCCL(SeqNum=|, OpType=|OUT of MEMORY|exitcode|Xid (PCI:|peer [|segfault"
    "|]: |PCI:0000:1b:00): 79|abab|xx|bcbcbc|x€z|qqr|AbC"
)
PIECES = st.sampled_from([*"abcdxyzqr ,.:;[](){}0179éàüA*\t", *WORDS.split("|")])
ENGINES = ("auto", "words")
WRAPS: dict[str, Callable[[str], str]] = {
    "bare": str,
    "prefixed": lambda line: f"[rank1]: {line}",
    "stamped": lambda line: f"[default1]:2026-11-22 10:00:00,5 {line}\r",
    "docker": lambda line: f'{{"log":"{line}\\n","stream":"stderr"}}',
    "not ascii": lambda line: f"Шаг 3, ранг 1: {line} — ошибка",
}


@functools.cache
def alone(pattern: str, engine: str) -> Searcher:
    """Make a searcher for one pattern."""
    return searcher([pattern], engine=engine)[0]


def hits_in(search: Searcher, *lines: str) -> dict[int, set[int]]:
    """Search lines in one block; give for each the numbers of the patterns that may be in it."""
    data = "".join(f"{line}\n" for line in lines).encode()
    starts = list(itertools.accumulate((len(line.encode()) + 1 for line in lines), initial=0))
    hits = search.search(
        Block(data + b"\n", start=0, stop=len(data), end=len(data), known=0, base=0)
    )
    numbers: dict[int, set[int]] = {line: set() for line in range(len(lines))}
    for end, number in hits:
        numbers[bisect.bisect_right(starts, end - 1) - 1].add(number)
    return numbers


def finds(search: Searcher, line: str) -> bool:
    """Tell whether a line between two others is found."""
    return bool(hits_in(search, "", line, "")[1])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_needle_of_a_pattern_is_in_what_it_matches(pattern: str, engine: str) -> None:
    """No line is lost on the way from the regex module to the search."""
    compiled = regex.compile(pattern)

    @settings(database=None)
    @given(st.lists(PIECES, max_size=14).map("".join))
    def holds(line: str) -> None:
        assert compiled.search(line) is None or finds(alone(pattern, engine), line)

    holds()


def matching(patterns: list[regex.Pattern[str]], *texts: str) -> set[int]:
    """Give the numbers of the patterns that match any of some texts."""
    return {n for n, pattern in enumerate(patterns) if any(map(pattern.search, texts))}


@pytest.mark.live  # millions of searches; test_signatures scans each example bare
def test_every_example_of_every_signature_matches() -> None:
    """Of all lines that must match and must not, bare or wrapped, none is kept from a pattern.

    Wrapped, a line is held against the patterns that match it bare, and those that match a wrap.
    """
    examples = sorted({line for s in signatures.load() for line in (*s.matches, *s.misses)})
    patterns = sorted({pattern for s in signatures.load() for pattern in s.searched} | OWN_PATTERNS)
    compiled = [regex.compile(pattern) for pattern in patterns]
    bare = [matching(compiled, example) for example in examples]
    searchers = [searcher(patterns, engine=engine) for engine in ENGINES]
    gaps = [gap for _, some in searchers for gap in some]
    missed = []
    for wrap in WRAPS.values():
        lines = [wrap(example) for example in examples]
        of_wrap = matching(compiled, wrap("x"))
        hits = [hits_in(search, *lines) for search, _ in searchers]
        for at, line in enumerate(lines):
            unseen = (bare[at] | of_wrap) - (hits[0][at] & hits[1][at])
            texts = [part.text for part in take_apart(clean(line.encode()), Voice())]
            missed += [
                (patterns[n], line) for n in unseen if any(map(compiled[n].search, [*texts, line]))
            ]

    assert sum(map(len, bare)) > len(patterns)
    assert missed == []
    assert gaps == []


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (r"a.b", "a€b"),
        (r"\w{2}!", "éé!"),
        (r"[^x]{3}y", "€é1y"),
        (r"[^x\W]{3}y", "€éxé1éy"),
        (r"(?i)Straße?", "STRAßE"),
        (r"a\s+b", "a \t b"),
        (r"^Killed$", "[rank1]: Killed\r"),
        (r"(?P<n>\d+) of .*", "7 of "),
        (r"(ab){e<=1} cde", "xb cde"),
        (r"x[[:alpha:]]+ done", "xyz done"),
    ],
)
def test_characters_of_several_bytes_and_open_ends(pattern: str, line: str, engine: str) -> None:
    """Bytes and characters are told apart, and what only ``regex`` knows is not misread."""
    assert finds(alone(pattern, engine), line)


def test_a_hit_for_each_line_not_for_each_character() -> None:
    """An end that may be empty or go on is cut off."""
    assert needle_of(r"\w* (?P<n>\d+) of [^,]*").expression == rb"\x20[\d]{1,}\x20\x6f\x66\x20"
    assert needle_of(r"q(?:a+|\w{3,5}|x?)").expression == rb"\x71"


@pytest.mark.parametrize("pattern", [r"\p{Lu}*x", r"(?P>x)", r"(?:ab){e<=1}", "a(b", "x*"])
def test_what_cannot_be_looked_for_is_reported(pattern: str) -> None:
    """Properties, recursion, fuzzy counts and empty patterns are refused, not misread."""
    with pytest.raises(UnsearchableError):
        needle_of(pattern)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"NVRM: Xid \(PCI:(\S+)\): (\d+)", {"NVRM: Xid (PCI:"}),
        (r"(?:Killed|Terminated) process", {" process"}),
        (r"(?:OOMKilled|NodeLost)", {"OOMKilled", "NodeLost"}),
        (r"\bworld[_ ]?size\b\W{1,3}\d", {"world"}),
        (r"\d+\s*", set()),
        (r"(?:abc)?d", {"d"}),
        (r"NCCL INFO (?:\d|x*) timeout", {" timeout"}),
        (r"(?<=quota lost )\d+", {"quota lost "}),
    ],
)
def test_words_of_which_every_match_has_one(pattern: str, words: set[str]) -> None:
    """Texts that stand in a row count as one; what may be left out is not among them."""
    assert needle_of(pattern).words == {word.encode() for word in words}


def test_of_a_pattern_that_takes_long_to_compile_a_part_is_looked_for() -> None:
    """Two lists of words with any text between, in either order: one list finds every line."""
    one, other = ("|".join(f"{kind}{n} word" for n in range(40)) for kind in ("north", "west"))
    pattern = rf"(?:{one})[^\n]{{0,80}}?(?:{other})|(?:{other})[^\n]{{0,80}}?(?:{one})"
    lines = ["north3 word, west7 word", "west39 word of north0 word", "west7 word alone"]
    needle = needle_of(pattern)

    assert needle.expression is not None
    assert needle.part is not None
    assert len(needle.part) < len(needle.expression)
    facts = of(read_log("\n".join(lines), pattern), LogLine)
    assert [line.text for line in facts if pattern in line.matched] == lines[:2]
