"""Which attempt of a job a fact is of, where a launcher has started it anew.

What ended an earlier attempt says nothing of a later one that got to work. Of one that did not get
there (its ranks never met, or failed as they started) the earlier is the cause, and all is kept.

torchrun ends all ranks when one fails, starts them anew, and writes on in the same log. An attempt
ends there at the line that says so, or at the row that says how a rank ended: where that rank's
process lives now, or where the log shows ranks at work after it; or at the line by which a rank
gives up waiting, where that rank trains on later. Of a command that somebody gave twice, the last
run counts, however it went.
"""

import re
import signal
from collections import defaultdict
from collections.abc import Sequence

from whyhang.analyzer.facts import (
    Exit,
    Fact,
    Gap,
    LastLine,
    LogLine,
    LogTail,
    Outlook,
    Process,
    Role,
    RootCause,
    SignOfLife,
    Source,
    StackDump,
    StartedAgain,
    Track,
)

RESTARTS = "TORCHELASTIC_RESTART_COUNT"
"""In the environment of a rank: how often its agent has started the ranks anew."""

STEPS = 4
"""Lines of one statement below the end of a rank, or trouble, from which on it is at work again."""

GONE = 60.0
"""Seconds behind which a process that gave up waiting is gone."""

AT_WORK = frozenset({Outlook.STEPS, Outlook.ENDED})

_FOLDER = re.compile(r"(?:^|/)attempt_(?P<number>\d{1,6})/")
"""torchrun's folder of one attempt, below that of the run."""

_STARTS_ANEW = re.compile(r"\d+/\d+ attempts left; will restart worker group")
"""The line at which torchrun starts its workers anew."""

_GAVE_UP = re.compile(r"[Cc]aught collective operation timeout")
"""The line at which a rank gives up: its process ends behind it."""

_CANCELLED = re.compile(r"CANCELLED AT \S+ (?P<why>DUE TO [A-Z ]*[A-Z])")
"""The line at which Slurm ends a job that may be started anew."""

_OF_AN_ATTEMPT = Exit | LastLine | LogLine | RootCause | StackDump | Track


def of_the_last_attempt(facts: Sequence[Fact]) -> list[Fact]:
    """Leave out what tells of attempts before the last one, if that got to work, and say so."""
    processes = (fact for fact in facts if isinstance(fact, Process))
    living = [each for each in processes if each.role is Role.RANK and not each.dead]
    folders = _earlier_folders(facts, living)
    ends = _ends(facts, living)
    kept: list[Fact] = []
    left_out: list[Source] = []
    over: list[Fact] = []
    for fact in facts:
        source: Source | None = getattr(fact, "source", None)
        if source is not None and (
            source.file in folders
            or (isinstance(fact, _OF_AN_ATTEMPT) and 0 < (source.line or 0) <= ends[source.file])
        ):
            left_out.append(source)
            over.append(fact)
        else:
            kept.append(fact)
    if left_out:
        files = sorted({source.file for source in left_out})
        those = f"{files[0]} says" if len(files) == 1 else f"{files[0]} and others say"
        gap = Gap(
            what=f"reading what {those} of earlier attempts",
            why="the job was started anew since",
            cost=_how_ended(over) or "why an earlier attempt ended is not told",
            remedy="Give what that attempt left alone",
            source=left_out[-1],
        )
        kept.append(gap)
    return kept


def _how_ended(facts: Sequence[Fact]) -> str:
    """Say how an earlier attempt ended, as the last that it left tells: "" where nothing does.

    An exception that a rank raised of its own tells more than its exit, that more than a signal
    with which others are ended.
    """
    told: dict[int, str] = {}
    for fact in facts:
        if isinstance(fact, Exit) and (fact.exitcode or fact.signal):
            brought_down = fact.killed_with_others or fact.signal == signal.SIGTERM
            number = fact.who.rank if fact.who.rank is not None else fact.who.local_rank
            known = "rank" if fact.who.rank is not None else "local rank"
            who = f"{known} {number}" if number is not None else "a process"
            told[1 if brought_down else 2] = f"{who} ended: {fact.how} ({fact.source})"
        elif not isinstance(fact, LogLine):
            continue
        elif (raised := fact.raised) is not None and raised.is_own and not raised.thread:
            who = f"rank {fact.who.rank}" if fact.who.rank is not None else "a process"
            told[3] = f"{who} ended: {raised} ({fact.source})"
        elif cancelled := _CANCELLED.search(fact.text):
            told[2] = f"Slurm ended it, {cancelled['why'].lower()} ({fact.source})"
    return f"of an earlier attempt it is told that {told[max(told)]}" if told else ""


def _earlier_folders(facts: Sequence[Fact], living: list[Process]) -> set[str]:
    """Return the files of attempts before the last, if that is at work, or lives."""
    files = {source.file for fact in facts if (source := getattr(fact, "source", None)) is not None}
    attempts = {file: int(m["number"]) for file in files if (m := _FOLDER.search(file))}
    last = max(attempts.values(), default=0)
    lives = str(last) in {process.environ.get(RESTARTS) for process in living}
    of_last = (file for file, number in attempts.items() if number == last)
    if not lives and not any(_at_work(facts, file, 0) for file in of_last):
        return set()
    return {file for file, number in attempts.items() if number < last}


def _ends(facts: Sequence[Fact], living: list[Process]) -> dict[str, int]:
    """Return for each log the last line that tells of an attempt before the last."""
    ends: dict[str, int] = defaultdict(int)
    tails: dict[str, list[LogTail]] = defaultdict(list)
    own: dict[tuple[str, int | None], LogTail] = {}
    for fact in facts:
        if isinstance(fact, LogTail) and fact.outlook in AT_WORK:
            tails[fact.source.file].append(fact)
            own[fact.source.file, fact.who.rank] = fact
    rows = (fact for fact in facts if isinstance(fact, Exit))
    last_row = {(row.source.file, row.who.pid): row.source.line for row in rows}
    for fact in facts:
        if isinstance(fact, StartedAgain) and _tells_of_ranks(facts, fact.source):
            ends[fact.source.file] = fact.source.line or 0
    for fact in facts:
        if not isinstance(fact, LogLine | Exit):
            continue
        file, line = fact.source.file, fact.source.line or 0
        if isinstance(fact, Exit):
            lives = any(_replaces(process, fact) for process in living)
            # What ends the job as a whole stands in the launcher's table again.
            again = last_row[file, fact.who.pid] != fact.source.line
            renewed = any(_comes_to_its_end(tail, fact.source) for tail in tails[file])
            ends_attempt = lives or renewed or (fact.ends_all and not again)
        else:
            lives = _GAVE_UP.search(fact.text) is not None and _trains_on(
                own.get((file, fact.who.rank)), fact
            )
            ends_attempt = lives or _STARTS_ANEW.search(fact.text) is not None
        if ends_attempt and line > ends[file] and (lives or _at_work(facts, file, line)):
            ends[file] = line
    return ends


def _tells_of_ranks(facts: Sequence[Fact], source: Source) -> bool:
    """Return whether a log says below a line how ranks ended, or went wrong."""
    return any(
        isinstance(fact, LogLine | Exit)
        and fact.source.file == source.file
        and (fact.source.line or 0) > (source.line or 0)
        for fact in facts
    )


def _replaces(process: Process, ended: Exit) -> bool:
    """Return whether this process is the rank that ended, as another process than that."""
    now, then = process.who, ended.who
    if then.pid is None or then.pid == now.pid or (then.host or now.host) != now.host:
        return False
    if then.rank is not None:
        return then.rank == now.rank
    return then.local_rank is not None and then.local_rank == now.local_rank


def _at_work(facts: Sequence[Fact], file: str, line: int) -> bool:
    """Return whether ranks are seen at work in a file below a line, or in a collective."""
    for fact in facts:
        if not isinstance(fact, LogTail | SignOfLife | LogLine) or fact.source.file != file:
            continue
        at = fact.source.line or 0
        if isinstance(fact, LogTail):
            at = fact.lines[fact.decisive].number if fact.outlook in AT_WORK else 0
        elif isinstance(fact, LogLine) and "WorkNCCL" not in fact.text:
            at = 0
        if at > line:
            return True
    return False


def _comes_to_its_end(tail: LogTail, ended: Source) -> bool:
    """Return whether a log that has a planned end goes on for steps below the end of a rank.

    Nobody trains on without that rank: a scheduler or a person has started the job anew.
    """
    planned = tail.outlook is Outlook.ENDED and not tail.trouble
    return planned and len(tail.steps_below(ended.line or 0)) >= STEPS


def _trains_on(tail: LogTail | None, gave_up: LogLine) -> bool:
    """Return whether the rank that gave up prints steps after that: as another process."""
    steps = tail.steps_below(gave_up.source.line or 0) if tail is not None else []
    times = [step.time for step in (*steps[:1], *steps[-1:]) if step.time is not None]
    if gave_up.time is None or len(times) < 2:
        return False
    return gave_up.time < times[0] and (len(steps) >= STEPS or times[1] - gave_up.time >= GONE)
