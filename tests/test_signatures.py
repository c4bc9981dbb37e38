"""What every signature promises: plain data, honest examples, no claim on another's lines."""

from __future__ import annotations

import ast
import functools
import inspect
import io
import pkgutil
import re
import string
import subprocess
from collections.abc import Iterator
from pathlib import Path

import regex

from whyhang import signatures
from whyhang.analyzer.commands.explain import _plain
from whyhang.analyzer.match.log import Blames, Log, patterns_of
from whyhang.analyzer.model import NOBODY, LogLine
from whyhang.analyzer.reading import Document
from whyhang.analyzer.report import CATEGORIES
from whyhang.analyzer.reports.page import is_command
from whyhang.analyzer.signature import Kind, Matcher, Signature
from whyhang.collectors.logs.engine.needle import needle_of
from whyhang.collectors.logs.scan import LogReader

ALL = signatures.load()
WITH_LOGS = tuple(s for s in ALL if any(patterns_of(s.when)))
KNOWN = frozenset(category for group in CATEGORIES.values() for category in group)
FROM_THE_HIT = {"who", "times", "has", "is", "waiting"}
NAMES = {"rank", "ranks", "pid"}
UNSUITED = re.compile(r"\(\?(?:[=!>]|<[=!])|[*+?}]\+|\\[1-9]")


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


def test_the_id_is_the_file_name() -> None:
    """The id is the file's name in kebab-case, so that a report leads to its file."""
    names = {s.id: files()[s.id].stem for s in ALL}

    assert {i for i, name in names.items() if i != name.replace("_", "-")} == set()
    assert {i for i in names if not re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", i)} == set()


def test_signature_files_hold_data_only() -> None:
    """A file holds a docstring, imports and one assignment: knowledge, and no logic."""
    for path in files().values():
        docstring, *rest = ast.parse(path.read_text(encoding="utf-8")).body

        statements = [node for node in rest if not isinstance(node, (ast.Import, ast.ImportFrom))]
        assert isinstance(docstring, ast.Expr), path
        assert [type(node) for node in statements] == [ast.Assign], path
        assert ast.unparse(statements[0]).startswith("SIGNATURE = Signature("), path


def test_every_signature_tells_its_story() -> None:
    """The story says in three lines or more what happens, why, and how to tell it."""
    lines = {s.id: [line for line in s.story.splitlines() if line.strip()] for s in ALL}

    assert {i for i, story in lines.items() if len(story) < 3} == set()


def test_the_categories_are_those_of_the_contract() -> None:
    """Automation reads categories, so there are no others than those of the contract."""
    assert {s.id: s.category for s in ALL if s.category not in KNOWN} == {}


def test_a_cause_says_what_to_do() -> None:
    """A cause without a remedy leaves the reader where they were."""
    mute = {s.id for s in ALL if s.kind is Kind.CAUSE and not s.remedies}

    assert {i for i in mute if i not in {"healthy", "slow-not-hung", "unknown"}} == set()


TOOLS = """
cat coredumpctl curl dcgmi devlink df dirname dmesg docker echo env ethtool fi_info findmnt flock
free fuser gdb getent grep head hostname ib_write_bw ibstat ibv_devinfo id iostat ip ipmitool
iptables journalctl kubectl last ldd lfs ls lsmod lspci modinfo mount mpirun nc nfsstat nft
nvidia-imex-ctl nvidia-smi ompi_info perfquery pgrep ping ps py-spy python quota ras-mc-ctl ray
rdma readlink sacct scontrol sha256sum show_gids sinfo sleep smartctl srun ss ssh stat sudo
systemctl tail timeout tr ucx_info ulimit wc which whyhang
"""
PROSE = {
    *[
        "a",
        "and",
        "at",
        "before",
        "between",
        "did",
        "does",
        "from",
        "in",
        "is",
        "of",
        "on",
        "or",
        "that",
        "the",
        "there",
        "to",
    ]
}


def _commands(text: str) -> Iterator[list[str]]:
    """Split a line for the shell into its commands, each into words without those in quotes."""
    plain = re.sub(r"'[^']*'", "QUOTED", text)
    inner = re.findall(r"\$\(([^()]*)\)", plain)
    plain = "; ".join([re.sub(r"\$\([^()]*\)", "RESULT", plain), *inner])
    for part in re.split(r"\s*(?:;|\|\||\||&&)\s*", plain):
        if part.strip():
            yield part.split()


def test_what_looks_like_a_command_is_one() -> None:
    """A step in lower case can be pasted into a shell: words for people stand behind a "#"."""
    wrong: list[str] = []
    scripts: list[str] = []
    for signature in ALL:
        for step in signature.next_steps:
            if not is_command(step):
                continue
            command = _plain(step).partition("  # ")[0]
            bad = [
                words
                for words in _commands(command)
                if words[0] not in TOOLS.split()
                or set(words[1:]) & PROSE - ({"in"} if "grep" in words else set())
                or words[-1].endswith((":", "?", ",", "..."))
            ]
            scripts.append(command)
            if bad:
                wrong.append(f"{signature.id}: {step} {bad}")
    assert len(scripts) > 100
    assert not wrong, "\n".join(wrong)
    parsed = subprocess.run(
        ["bash", "-n"], input="\n".join(scripts), capture_output=True, text=True, check=False
    )
    assert not parsed.stderr


def test_outranked_signatures_exist() -> None:
    """A signature outranks others by id; a misspelt one would silently outrank nothing."""
    ids = {s.id for s in ALL}

    assert {s.id: set(s.outranks) - ids for s in ALL if set(s.outranks) - ids} == {}
    assert {s.id for s in ALL if s.id in s.outranks} == set()


def test_examples_of_both_sorts_stand_beside_the_patterns() -> None:
    """Two lines that must match and one that must not show what a pattern is meant for."""
    assert {s.id for s in WITH_LOGS if len(s.matches) < 2 or not s.misses} == set()


def test_every_pattern_has_a_line_of_its_own() -> None:
    """Each single pattern matches an example: one that nobody has shown a line for is a guess."""
    unproven = [
        (s.id, pattern)
        for s in WITH_LOGS
        for pattern in patterns_of(s.when)
        if not any(compiled(pattern).search(line) for line in s.matches)
    ]

    assert unproven == []


def test_every_veto_has_a_line_of_its_own() -> None:
    """Each pattern that takes a finding back matches an example beside it, too."""
    unproven = [
        (s.id, pattern)
        for s in ALL
        for pattern in patterns_of(s.unless)
        if not any(compiled(pattern).search(line) for line in (*s.matches, *s.misses))
    ]

    assert unproven == []


def test_sixty_causes_show_in_logs() -> None:
    """At least sixty known causes can be told from a log alone."""
    assert sum(s.kind is Kind.CAUSE for s in WITH_LOGS) >= 60


def test_every_example_line_matches() -> None:
    """Each line that must match is matched by a pattern of its signature."""
    lost = [(s.id, line) for s in WITH_LOGS for line in s.matches if not found_by(s, line)]

    assert lost == []


def test_no_counter_example_matches() -> None:
    """Each line that must not match is left alone by all patterns of its signature."""
    wrong = [(s.id, line) for s in WITH_LOGS for line in s.misses if found_by(s, line)]

    assert wrong == []


def test_patterns_suit_the_fast_scanner() -> None:
    """Patterns have no look-around, which the scanner would have to search for too widely."""
    for signature in WITH_LOGS:
        for matcher in (signature.when, signature.unless):
            for pattern in patterns_of(matcher):
                compiled(pattern)
                assert needle_of(pattern).expression is not None, (signature.id, pattern)
                assert not UNSUITED.search(pattern), (signature.id, pattern)


def test_the_words_of_a_report_are_filled_from_any_example() -> None:
    """Title, meaning and advice use only fields that every matching line gives."""
    missing = {}
    for s in WITH_LOGS:
        texts = (s.title, s.means, *s.remedies, *s.next_steps)
        used = {field for t in texts for _, field, _, _ in string.Formatter().parse(t) if field}
        for match in (match for line in s.matches for match in found_by(s, line)):
            given = {key for key, value in match.groupdict().items() if value is not None}
            for key, words in s.when.adds.items() if isinstance(s.when, Log) else ():
                given |= words.get(match.groupdict().get(key) or "", {}).keys()
            if isinstance(s.when, Log) and used - given - FROM_THE_HIT:
                missing[s.id, match.string] = used - given - FROM_THE_HIT

    assert missing == {}


def test_who_is_blamed_can_be_read() -> None:
    """A matcher that blames whom the line names has a pattern that reads a name."""
    nameless = {
        signature.id
        for signature in WITH_LOGS
        for matcher in logs_in(signature.when)
        if matcher.blames is Blames.NAMED
        and not NAMES & {name for p in matcher.patterns for name in compiled(p).groupindex}
    }

    assert nameless == set()


def test_a_cause_leaves_the_lines_of_others_alone() -> None:
    """No cause takes another signature's example for its own, unless it lists the line itself."""
    strangers = [
        (cause.id, other.id, line)
        for cause in WITH_LOGS
        if cause.kind is Kind.CAUSE
        for other in WITH_LOGS
        if other is not cause
        for line in other.matches
        if line not in cause.matches and found_by(cause, line)
    ]

    assert strangers == []


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
