"""Numbers, nouns and names of programs in sentences."""

from __future__ import annotations

import pytest

from whyhang.analyzer.facts import counted, program, ranks_in_words
from whyhang.analyzer.stacks import FILE_LOCK, WaitKind
from whyhang.analyzer.stacks.kinds import NOTIFICATION
from whyhang.analyzer.toml import table
from whyhang.analyzer.wording.fill_texts import fill


def test_a_count_agrees_with_its_noun() -> None:
    """One place counts things in words; large numbers are easy to read."""
    words = [counted(n, noun) for n, noun in ((1, "log"), (0, "log"), (2, "process"), (3, "entry"))]
    assert words == ["1 log", "0 logs", "2 processes", "3 entries"]
    assert [counted(12_000, "rank"), counted(2, "delay")] == ["12,000 ranks", "2 delays"]
    assert [ranks_in_words({2}), ranks_in_words([0, 1, 3])] == ["rank 2", "ranks 0-1,3"]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        ("1", "Rank 0 waits; 1 rank has come to 1 host."),
        ("3", "Rank 0 waits; 3 ranks have come to 3 hosts."),
    ],
)
def test_the_noun_behind_a_count_of_a_signature_agrees(count: str, text: str) -> None:
    """What a signature says of several reads well of one."""
    template = "{who} waits; {count} ranks have come to {count} hosts."
    assert fill(template, {"who": "Rank 0", "count": count}) == text


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("/opt/conda/bin/python3.11 -u -W ignore /a/b/old.py --x /y.py", "old.py"),
        ("python -m pkg.train --config a.yaml", "pkg.train"),
        ("python -c 'import time; time.sleep(9)' x", "python"),
        ("/usr/bin/gdb -p 77", "gdb"),
        ("bash -e /scripts/run.sh", "run.sh"),
        ("/usr/lib/jvm/bin/java -jar /x/agent.jar", "agent.jar"),
        ("nginx: master process", "nginx"),
        ("python", "python"),
        ("", ""),
        ("/x/" + "n" * 99, "n" * 40),
    ],
)
def test_a_program_has_a_short_name(command: str, name: str) -> None:
    """The script or module of an interpreter, else the program; arguments are left out."""
    assert program(command) == name


def test_advice_is_given_for_waits_that_there_are() -> None:
    """Each row of the table is of a kind of wait, or of an operation that frames tell."""
    advice = table("whyhang.analyzer.wording", "advice.toml")
    kinds = {kind.name.lower() for kind in WaitKind}

    assert advice["kinds"].keys() | advice["workers"].keys() <= kinds
    assert advice["operations"].keys() <= {FILE_LOCK, NOTIFICATION}
