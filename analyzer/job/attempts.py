"""Which attempt of a job a fact is of, where a launcher has started it anew.

What ended an earlier attempt says nothing of a later one that got to work. Of one that did not get
there (its ranks never met, or failed as they started) the earlier is the cause, and all is kept.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from whyhang.analyzer.facts import Exit, Fact, Gap, LogLine, LogTail, Outlook, Source

_FOLDER = re.compile(r"(?:^|/)attempt_(?P<number>\d{1,6})/")
"""torchrun's folder of one attempt, below that of the run."""

_RESTARTS = re.compile(r"\d+/\d+ attempts left; will restart worker group")
"""The line at which torchrun starts its workers anew."""

AT_WORK = frozenset({Outlook.STEPS, Outlook.ENDED})


def of_the_last_attempt(facts: Sequence[Fact]) -> list[Fact]:
    """Leave out what tells of attempts before the last one, if that got to work."""
    return _after_restarts(_of_last_folder(facts))


def _of_last_folder(facts: Sequence[Fact]) -> list[Fact]:
    files = {source.file for fact in facts if (source := _source(fact)) is not None}
    attempts = {file: int(m["number"]) for file in files if (m := _FOLDER.search(file))}
    last = max(attempts.values(), default=0)
    earlier = {file for file, number in attempts.items() if number < last}
    if not earlier or not _at_work(facts, {f for f, n in attempts.items() if n == last}):
        return list(facts)
    kept = [fact for fact in facts if (s := _source(fact)) is None or s.file not in earlier]
    left_out = Gap(
        what=f"reading the {len(earlier)} files of attempts before attempt {last}",
        why="torchrun has started the job anew since, and it got to work again",
        cost="why an earlier attempt ended is not told",
        remedy="Give the folder of that attempt alone",
    )
    return [*kept, left_out]


def _after_restarts(facts: Sequence[Fact]) -> list[Fact]:
    """Leave out lines of trouble, and ends, above the line where a file tells of a restart."""
    restarts: dict[str, int] = defaultdict(int)
    for fact in facts:
        if isinstance(fact, LogLine) and _RESTARTS.search(fact.text):
            file, line = fact.source.file, fact.source.line or 0
            restarts[file] = max(restarts[file], line)
    restarts = {file: line for file, line in restarts.items() if _at_work(facts, {file}, line)}
    if not restarts:
        return list(facts)
    return [fact for fact in facts if not _is_above(fact, restarts)]


def _is_above(fact: Fact, restarts: dict[str, int]) -> bool:
    if not isinstance(fact, LogLine | Exit):
        return False
    at = restarts.get(fact.source.file)
    return at is not None and (fact.source.line or at) < at


def _at_work(facts: Iterable[Fact], files: set[str], line: int = 0) -> bool:
    """Return whether ranks are seen at work in these files below a line, or in a collective."""
    for fact in facts:
        at = 0
        if isinstance(fact, LogTail) and fact.source.file in files and fact.outlook in AT_WORK:
            at = fact.lines[fact.decisive].number
        elif isinstance(fact, LogLine) and fact.source.file in files and "WorkNCCL" in fact.text:
            at = fact.source.line or 0
        if at > line:
            return True
    return False


def _source(fact: Fact) -> Source | None:
    return getattr(fact, "source", None)
