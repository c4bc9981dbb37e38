"""What every signature promises: plain data, honest examples, no claim on another's lines."""

from __future__ import annotations

import functools
import re
import string
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import regex
import tomli
from documents import document

from whyhang import signatures
from whyhang.analyzer.cli import main
from whyhang.analyzer.commands.explain import filled
from whyhang.analyzer.facts import NOBODY, LogLine
from whyhang.analyzer.findings.categories import CATEGORIES
from whyhang.analyzer.findings.signature import Kind, Signature
from whyhang.analyzer.queries.logs.log import Log
from whyhang.analyzer.queries.registry import queries, side
from whyhang.analyzer.reports.finding import is_command
from whyhang.collectors.logs.engine.needle import needle_of
from whyhang.collectors.logs.reader import LogReader

ALL = signatures.load()
WITH_LOGS = tuple(s for s in ALL if s.patterns)
KNOWN = frozenset(category for group in CATEGORIES.values() for category in group)
FROM_THE_HIT = {"who", "times", "has", "is", "waiting"}
UNSUITED = re.compile(r"\(\?(?:[=!>]|<[=!])|[*+?}]\+|\\[1-9]")


FOLDER = Path(signatures.__path__[0])
TOPICS = sorted(FOLDER.glob("*.toml"))
RELATIONS = sorted(p for p in (FOLDER / "relations").rglob("*.py") if p.name != "__init__.py")


def ids_in(path: Path) -> list[str]:
    """List the signatures in a module of a relation."""
    return re.findall(r'^ +id="([a-z0-9-]+)",$', path.read_text(encoding="utf-8"), re.MULTILINE)


@functools.cache
def compiled(pattern: str) -> regex.Pattern[str]:
    """Compile a pattern once for all tests."""
    return regex.compile(pattern)


def matches_of(signature: Signature, line: str) -> list[regex.Match[str]]:
    """Search a line with all patterns of a signature."""
    return [m for p in signature.patterns if (m := compiled(p).search(line))]


def test_ids_are_unique() -> None:
    """No two files claim one id: reports, outranks and runbooks name signatures by it."""
    ids = [signature.id for signature in ALL]

    assert sorted(ids) == sorted(set(ids))


def test_ids_are_words() -> None:
    """An id can be typed: words in kebab-case."""
    assert {s.id for s in ALL if not re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", s.id)} == set()


def test_the_id_leads_to_its_file() -> None:
    """A relation has a file of its name; what is data stands in a topic's."""
    over_logs = [s["id"] for path in TOPICS for s in tomli.loads(path.read_text())["signature"]]
    over_relations = [(path, id_) for path in RELATIONS for id_ in ids_in(path)]

    assert sorted(over_logs + [id_ for _, id_ in over_relations]) == [s.id for s in ALL]
    assert {
        path.stem for path, id_ in over_relations if id_ != path.stem.replace("_", "-")
    } == set()


def test_a_relation_has_one_signature_and_one_story() -> None:
    """A module has one signature, and its story as docstring."""
    for path in RELATIONS:
        assert len(ids_in(path)) == 1, path
        assert "    story=" not in path.read_text(encoding="utf-8"), path


def test_every_query_says_what_it_answers() -> None:
    """The list of queries is made of what their functions say of themselves, and all are asked."""
    sides = {
        (name, word): function
        for name, query in queries().items()
        for word, function in query.sides.items()
    }
    tables = [
        question
        for path in TOPICS
        for signature in tomli.loads(path.read_text())["signature"]
        for question in (*signature.get("asks", ()), *signature.get("unless_asks", ()))
    ]
    asked = {(t["query"], t.get(queries()[t["query"]].argument, "")) for t in tables}

    assert {key for key, function in sides.items() if not function.__doc__} == set()
    assert sides.keys() == asked


def test_a_side_is_registered_once() -> None:
    """Two functions for one word, or sides by several arguments, are a mistake of their author."""
    with pytest.raises(ValueError, match="twice"):
        side("gpus_show", what="all-spin")(queries)
    with pytest.raises(ValueError, match="another argument"):
        side("gpus_show", side="all-spin")(queries)


def test_what_is_only_patterns_is_no_module() -> None:
    """A signature over nothing but lines stands in TOML, so that there is one place for them."""
    over_relations = {id_ for path in RELATIONS for id_ in ids_in(path)}

    assert {s.id for s in ALL if s.id in over_relations and isinstance(s.when, Log)} == set()


def test_a_file_says_its_topic_and_is_short_enough_to_read() -> None:
    """A comment at the top says what belongs there; more than twenty signatures are two topics."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in TOPICS}

    assert {name for name, text in texts.items() if not text.startswith("# ")} == set()
    assert {name for name, text in texts.items() if text.count("[[signature]]") > 20} == set()


def test_the_shipped_files_pass_the_check_for_cards(capsys: pytest.CaptureFixture[str]) -> None:
    """``whyhang cards check`` finds no mistake in the shipped signatures: they are cards, too."""
    assert main(["cards", "check", *map(str, TOPICS)]) == 0
    assert capsys.readouterr().out.count(": good, ") == len(ALL) - sum(
        len(ids_in(path)) for path in RELATIONS
    )


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
cat coredumpctl cuda-gdb curl dcgmi devlink df dirname dmesg docker echo env ethtool fi_info
findmnt flock
free fuser gdb getent grep head hostname ib_write_bw ibstat ibv_devinfo id iostat ip ipmitool
iptables journalctl kubectl last ldd lfs ls lsmod lspci modinfo mount mpirun nc nfsstat nft
nvidia-imex-ctl nvidia-smi ompi_info perfquery pgrep ping ps py-spy python quota ras-mc-ctl ray
rdma readlink sacct scontrol sha256sum show_gids sinfo sleep smartctl srun ss ssh stat sudo
systemctl tail timeout tr ucx_info ulimit wc which whyhang
"""
PROSE = "a and at before between did does from in is of on or that the there to"


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
            command = filled(step).partition("  # ")[0]
            bad = [
                words
                for words in _commands(command)
                if words[0] not in TOOLS.split()
                or set(words[1:]) & {*PROSE.split()} - ({"in"} if "grep" in words else set())
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

    assert {s.id: set(s.explains) - ids for s in ALL if set(s.explains) - ids} == {}
    assert {s.id for s in ALL if s.id in s.explains} == set()


def test_examples_of_both_sorts_stand_beside_the_patterns() -> None:
    """Two lines that must match and one that must not show what a pattern is meant for."""
    assert {s.id for s in WITH_LOGS if len(s.matches) < 2 or not s.misses} == set()


def test_every_pattern_has_a_line_of_its_own() -> None:
    """Each single pattern matches an example: one that nobody has shown a line for is a guess."""
    unproven = [
        (s.id, pattern)
        for s in WITH_LOGS
        for pattern in s.patterns
        if not any(compiled(pattern).search(line) for line in s.matches)
    ]

    assert unproven == []


def test_every_veto_has_a_line_of_its_own() -> None:
    """Each pattern that takes a finding back matches an example beside it, too."""
    unproven = [
        (s.id, pattern)
        for s in ALL
        for pattern in s.vetoes
        if not any(compiled(pattern).search(line) for line in (*s.matches, *s.misses))
    ]

    assert unproven == []


def test_sixty_causes_show_in_logs() -> None:
    """At least sixty known causes can be told from a log alone."""
    assert sum(s.kind is Kind.CAUSE for s in WITH_LOGS) >= 60


def test_every_example_line_matches() -> None:
    """Each line that must match is matched by a pattern of its signature."""
    lost = [(s.id, line) for s in WITH_LOGS for line in s.matches if not matches_of(s, line)]

    assert lost == []


def test_no_counter_example_matches() -> None:
    """Each line that must not match is left alone by all patterns of its signature."""
    wrong = [(s.id, line) for s in WITH_LOGS for line in s.misses if matches_of(s, line)]

    assert wrong == []


def test_patterns_suit_the_fast_scanner() -> None:
    """Patterns have no look-around, which the scanner would have to search for too widely."""
    for signature in WITH_LOGS:
        for pattern in signature.searched:
            compiled(pattern)
            assert needle_of(pattern).expression is not None, (signature.id, pattern)
            assert not UNSUITED.search(pattern), (signature.id, pattern)


def test_the_words_of_a_report_are_filled_from_any_example() -> None:
    """Title, meaning and advice use only fields that every matching line gives."""
    missing = {}
    for s in WITH_LOGS:
        texts = (s.title, s.means, *s.remedies, *s.next_steps)
        used = {field for t in texts for _, field, _, _ in string.Formatter().parse(t) if field}
        for match in (match for line in s.matches for match in matches_of(s, line)):
            given = {key for key, value in match.groupdict().items() if value is not None}
            for key, words in s.when.adds.items() if isinstance(s.when, Log) else ():
                given |= words.get(match.groupdict().get(key) or "", {}).keys()
            if isinstance(s.when, Log) and used - given - FROM_THE_HIT:
                missing[s.id, match.string] = used - given - FROM_THE_HIT

    assert missing == {}


def test_a_cause_leaves_the_lines_of_others_alone() -> None:
    """No cause takes another signature's example for its own, unless it lists the line itself."""
    strangers = [
        (cause.id, other.id, line)
        for cause in WITH_LOGS
        if cause.kind is Kind.CAUSE
        for other in WITH_LOGS
        if other is not cause
        for line in other.matches
        if line not in cause.matches and matches_of(cause, line)
    ]

    assert strangers == []


@pytest.mark.usefixtures("no_own_patterns")
def test_the_scanner_finds_every_example() -> None:
    """All examples in one file, read in one pass by the real log reader, are all found."""
    examples = [(s, line) for s in WITH_LOGS for line in s.matches]
    text = "\n".join(line for _, line in examples)
    reader = LogReader(pattern for s in WITH_LOGS for pattern in s.searched)

    facts = list(reader.read(document(text, "all.log", NOBODY)))

    matched = {pattern for fact in facts if isinstance(fact, LogLine) for pattern in fact.matched}
    lost = {s.id for s, _ in examples} - {s.id for s in WITH_LOGS if matched & {*s.patterns}}
    assert lost == set()
