"""What every signature promises: plain data, honest examples, no claim on another's lines."""

from __future__ import annotations

import ast
import functools
import inspect
import io
import pkgutil
import re
import string
from collections.abc import Iterator
from pathlib import Path

import pytest
import regex

from whyhang import signatures
from whyhang.analyzer.match_log import Blames, Log, patterns_of
from whyhang.analyzer.model import NOBODY, LogLine
from whyhang.analyzer.reading import Document
from whyhang.analyzer.report import CATEGORIES
from whyhang.analyzer.signature import Kind, Matcher, Signature
from whyhang.collectors.log_scan import LogReader
from whyhang.collectors.log_syntax import hyperscan_form

ALL = signatures.load()
WITH_LOGS = tuple(s for s in ALL if any(patterns_of(s.when)))
KNOWN = frozenset(category for group in CATEGORIES.values() for category in group)
FROM_THE_HIT = {"who", "times", "has", "is", "waiting"}
NAMES = {"rank", "ranks", "pid"}

each = pytest.mark.parametrize("signature", ALL, ids=lambda s: s.id)
each_with_logs = pytest.mark.parametrize("signature", WITH_LOGS, ids=lambda s: s.id)


@functools.cache
def files() -> dict[str, Path]:
    """Map the id of each signature to its file."""
    found = {}
    for info in pkgutil.walk_packages(signatures.__path__, signatures.__name__ + "."):
        module = __import__(info.name, fromlist=["SIGNATURE"])
        signature = getattr(module, "SIGNATURE", None)
        if isinstance(signature, Signature):
            found[signature.id] = Path(inspect.getfile(module))
    return found


@functools.cache
def compiled(pattern: str) -> regex.Pattern[str]:
    """Compile a pattern once for all tests."""
    return regex.compile(pattern)


def found_by(signature: Signature, line: str) -> list[regex.Match[str]]:
    """Search a line with all patterns of a signature."""
    return [m for p in patterns_of(signature.when) if (m := compiled(p).search(line))]


def logs_in(matcher: Matcher | None) -> Iterator[Log]:
    """List the log matchers in a matcher, however deep."""
    if isinstance(matcher, Log):
        yield matcher
    for part in getattr(matcher, "parts", ()):
        yield from logs_in(part)


def test_ids_are_unique() -> None:
    """No two files claim one id: reports, outranks and runbooks name signatures by it."""
    ids = [signature.id for signature in ALL]

    assert sorted(ids) == sorted(set(ids))


@each
def test_the_id_is_the_file_name(signature: Signature) -> None:
    """The id is the file's name in kebab-case, so that a report leads to its file."""
    assert signature.id == files()[signature.id].stem.replace("_", "-")
    assert re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", signature.id)


@each
def test_a_signature_file_holds_data_only(signature: Signature) -> None:
    """A file holds a docstring, imports and one assignment: knowledge, and no logic."""
    body = ast.parse(files()[signature.id].read_text(encoding="utf-8")).body

    docstring, *rest = body
    assignments = [node for node in rest if not isinstance(node, (ast.Import, ast.ImportFrom))]
    assert isinstance(docstring, ast.Expr)
    assert [type(node) for node in assignments] == [ast.Assign]
    assert ast.unparse(assignments[0]).startswith("SIGNATURE = Signature(")


@each
def test_a_signature_tells_its_story(signature: Signature) -> None:
    """The story says in three lines or more what happens, why, and how to tell it."""
    assert len([line for line in signature.story.splitlines() if line.strip()]) >= 3


@each
def test_the_category_is_in_the_contract(signature: Signature) -> None:
    """Automation reads categories, so there are no others than those of the contract."""
    assert signature.category in KNOWN


@each
def test_a_cause_says_what_to_do(signature: Signature) -> None:
    """A cause without a remedy leaves the reader where they were."""
    assert signature.kind is not Kind.CAUSE or signature.remedies or signature.category == "healthy"


@each
def test_outranked_signatures_exist(signature: Signature) -> None:
    """A signature outranks others by id; a misspelt one would silently outrank nothing."""
    assert set(signature.outranks) <= {other.id for other in ALL} - {signature.id}


@each_with_logs
def test_examples_of_both_sorts_stand_beside_the_patterns(signature: Signature) -> None:
    """Two lines that must match and one that must not show what a pattern is meant for."""
    assert len(signature.matches) >= 2
    assert len(signature.misses) >= 1


@each_with_logs
def test_every_example_line_matches(signature: Signature) -> None:
    """Each line that must match is matched by a pattern."""
    assert [line for line in signature.matches if not found_by(signature, line)] == []


@each_with_logs
def test_no_counter_example_matches(signature: Signature) -> None:
    """Each line that must not match is left alone by all patterns."""
    assert [line for line in signature.misses if found_by(signature, line)] == []


@each_with_logs
def test_patterns_suit_the_fast_scanner(signature: Signature) -> None:
    """Patterns have no look-around, which the scanner would have to search for too widely."""
    for matcher in (signature.when, signature.unless):
        for pattern in patterns_of(matcher):
            compiled(pattern)
            hyperscan_form(pattern)
            assert not re.search(r"\(\?(?:[=!>]|<[=!])|[*+?}]\+|\\[1-9]", pattern), pattern


@each_with_logs
def test_the_words_of_a_report_are_filled_from_any_example(signature: Signature) -> None:
    """Title, meaning and advice use only fields that every matching line gives."""
    texts = (signature.title, signature.means, *signature.remedies, *signature.next_steps)
    used = {field for t in texts for _, field, _, _ in string.Formatter().parse(t) if field}
    if not isinstance(signature.when, Log):
        return  # other matchers fill in fields of their own

    for line in signature.matches:
        for match in found_by(signature, line):
            given = {key for key, value in match.groupdict().items() if value is not None}
            assert used <= given | FROM_THE_HIT, line


@each_with_logs
def test_who_is_blamed_can_be_read(signature: Signature) -> None:
    """A matcher that blames whom the line names has a pattern that reads a name."""
    for matcher in logs_in(signature.when):
        groups = {name for p in matcher.patterns for name in compiled(p).groupindex}
        assert (matcher.blames is not Blames.NAMED) or groups & NAMES, matcher.patterns


@pytest.mark.parametrize(
    "signature", [s for s in WITH_LOGS if s.kind is Kind.CAUSE], ids=lambda s: s.id
)
def test_a_cause_leaves_the_lines_of_others_alone(signature: Signature) -> None:
    """No cause takes another signature's example for its own, unless it lists the line itself."""
    strangers = {
        (other.id, line)
        for other in WITH_LOGS
        if other is not signature
        for line in other.matches
        if line not in signature.matches and found_by(signature, line)
    }

    assert strangers == set()


def test_the_scanner_finds_every_example() -> None:
    """All examples in one file, read in one pass by the real log reader, are all found."""
    examples = [(s, line) for s in WITH_LOGS for line in s.matches]
    data = "\n".join(line for _, line in examples).encode()
    document = Document(
        path="all.log", head=data, size=len(data), open=lambda: io.BytesIO(data), who=NOBODY
    )
    reader = LogReader(p for s in WITH_LOGS for m in (s.when, s.unless) for p in patterns_of(m))

    facts = list(reader.read(document))

    matched = {pattern for fact in facts if isinstance(fact, LogLine) for pattern in fact.matched}
    lost = {s.id for s, _ in examples} - {
        s.id for s in WITH_LOGS if matched & {*patterns_of(s.when)}
    }
    assert lost == set()
