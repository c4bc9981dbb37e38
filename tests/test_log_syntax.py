"""Patterns loosened for Hyperscan find every line that the pattern itself matches."""

from __future__ import annotations

import hyperscan
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from whyhang.collectors.logs.syntax import (
    UntranslatableError,
    hyperscan_form,
    may_be_empty,
    parse,
    required_words,
)

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
]
WORDS = (
    "Watchdog caught|: WorkNCCL(SeqNum=|, OpType=|OUT of MEMORY|exitcode|Xid (PCI:|peer [|segfault"
    "|]: |PCI:0000:1b:00): 79|abab|xx|bcbcbc|x€z|qqr"
)
PIECES = st.sampled_from([*"abcdxyzqr ,.:;[](){}0179éàüA*\t", *WORDS.split("|")])


def _scan(database: hyperscan.Database, line: str) -> bool:
    hits: list[int] = []
    data = line.encode() + b"\n"
    database.scan(data, match_event_handler=lambda _n, _a, end, *_: hits.append(end))
    return bool(hits)


def _find(pattern: str, line: str) -> bool:
    code, caseless = hyperscan_form(pattern)
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    flag = hyperscan.HS_FLAG_CASELESS if caseless else 0
    database.compile(expressions=[code], ids=[0], elements=1, flags=[flag])
    hits: list[int] = []
    database.scan(
        line.encode() + b"\n", match_event_handler=lambda _n, _a, end, *_: hits.append(end)
    )
    return bool(hits)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_a_pattern_matches_its_loosened_form_finds(pattern: str) -> None:
    """No line is lost on the way from the regex module to Hyperscan."""
    code, caseless = hyperscan_form(pattern)
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    flag = hyperscan.HS_FLAG_CASELESS if caseless else 0
    database.compile(expressions=[code], ids=[0], elements=1, flags=[flag])
    compiled = regex.compile(pattern)
    words, any_case = required_words(pattern)

    @settings(max_examples=120, deadline=None, database=None)
    @given(st.lists(PIECES, max_size=14).map("".join))
    def holds(line: str) -> None:
        if compiled.search(line) is None:
            return
        hits: list[int] = []
        database.scan(
            line.encode() + b"\n", match_event_handler=lambda _n, _a, end, *_: hits.append(end)
        )
        assert hits
        folded = line.lower() if any_case else line
        assert not words or any((w.lower() if any_case else w) in folded for w in words)

    holds()


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (r"a.b", "a€b"),
        (r"\w{2}!", "éé!"),
        (r"[^x]{3}y", "€é1y"),
        (r"(?i)Straße?", "STRAßE"),
        (r"a\s+b", "a \t b"),
        (r"(?P<n>\d+) of .*", "7 of"),
        (r"x*", "x"),
    ],
)
def test_characters_of_several_bytes_and_open_ends(pattern: str, line: str) -> None:
    """Bytes and characters are told apart, and an end that may be empty is cut off."""
    if pattern == "x*":
        with pytest.raises(UntranslatableError):
            hyperscan_form(pattern)
    elif "of" in pattern:
        assert not _find(pattern, line)
        assert _find(pattern, line + " ")
    else:
        assert _find(pattern, line)


@pytest.mark.parametrize("pattern", [r"\p{Lu}x", r"(?P>x)", r"(?:ab){e<=1}", r"[a--b]", "a(b"])
def test_what_has_no_loosened_form_is_said(pattern: str) -> None:
    """Properties, recursion, fuzzy counts and set operations are refused, not mistranslated."""
    with pytest.raises(UntranslatableError):
        hyperscan_form(pattern)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"NVRM: Xid \(PCI:(\S+)\): (\d+)", {"NVRM: Xid (PCI:"}),
        (r"(?:Killed|Terminated) process", {" process"}),
        (r"(?:OOMKilled|NodeLost)", {"OOMKilled", "NodeLost"}),
        (r"\d+\s*", set()),
        (r"(?:abc)?d", {"d"}),
    ],
)
def test_required_words(pattern: str, words: set[str]) -> None:
    """Every match holds one of the words; optional parts are not among them."""
    assert required_words(pattern)[0] == words


def test_ends_that_may_be_empty() -> None:
    """A tree knows whether it matches nothing."""
    assert may_be_empty(parse(r"a?(?:b|c*)$")[0])
    assert not may_be_empty(parse(r"a?b")[0])
