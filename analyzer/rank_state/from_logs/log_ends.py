"""Where the logs of ranks end: at the end of the work, in the middle of it, or idle.

That nothing in a log looks bad makes no job healthy: one that hangs without a word leaves such
logs as well.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile

from whyhang.analyzer.facts import (
    LastLine,
    LogLine,
    LogTail,
    Outlook,
    OwnLine,
    Scheduled,
    SignOfLife,
)
from whyhang.analyzer.facts.progress import ENDED_WELL
from whyhang.analyzer.facts.times import before
from whyhang.analyzer.job.inference.attempts import AT_WORK, STEPS
from whyhang.analyzer.job.inference.kernel_lines import OF_KERNEL
from whyhang.analyzer.job.records import Job, with_lines
from whyhang.analyzer.job.slurm_numbers import own_slurm_rows
from whyhang.analyzer.rank_state.from_logs.ends import BROUGHT_DOWN, waits_in_vain

NO_LOGS = (".py", ".sh", ".toml", ".json", ".yaml", ".yml", ".md", ".cfg", ".ini")
"""Text files beside logs: how they end says nothing."""

_ENDED = frozenset({"Completed", "Succeeded"})
"""Kubernetes' words for what came to its end."""

_MOST = {Outlook.ENDED: 3, Outlook.STEPS: 2, Outlook.IDLE: 1, Outlook.UNKNOWN: 0}


def tails_of_ranks(job: Job) -> dict[int, LogTail]:
    """Return the tail of each rank's log: of several files the one that says most of the work."""
    tails: dict[int, LogTail] = {}
    for tail in job.of(LogTail):
        rank = tail.who.rank
        if rank is not None:
            known = (tails.get(rank, tail), tail)
            tails[rank] = max(known, key=lambda each: (_MOST[each.outlook], len(each.lines)))
    return tails


def own_line(job: Job, last: LastLine) -> str:
    """Return the words of a rank's last line, without the header of a logger."""
    texts = (tail.lines[-1].text for tail in job.of(LogTail) if tail.source == last.source)
    return next(texts, last.text.strip())


def all_tails(job: Job) -> tuple[LogTail, ...]:
    """Return the tail of each rank's log, and those of which nobody knows whose they are."""
    nobody = (
        tail
        for tail in job.of(LogTail)
        if tail.who.rank is None and not tail.source.file.endswith(NO_LOGS)
    )
    return (*tails_of_ranks(job).values(), *nobody)


def have_ended(job: Job) -> bool:
    """Return whether the logs show an end that was planned, and none stops short of it.

    Often the first or the last rank speaks for all: then the last words of the others are none that
    it went on from. What a scheduler shows of a job and its parts counts for all of them.
    """
    tails = all_tails(job)
    if rows_of_the_end(job):
        return True
    ended = [tail for tail in tails if tail.outlook is Outlook.ENDED]
    others = [tail for tail in tails if tail.outlook is not Outlook.ENDED]
    if any(tail.trouble for tail in others):
        return False
    # the line that shows the end, or the one above it: a summary may have two
    results = (
        x for tail in ended for x in tail.lines[max(0, tail.decisive - 1) : tail.decisive + 1]
    )
    if any(ENDED_WELL.search(line.text) for line in results):
        return True
    if _all_said_hello(tails):
        return True
    if not ended or (len(ended) > 1 and len(others) <= len(ended)):
        return bool(ended) and not any(tail.who.rank is not None for tail in others)
    if any(_once_each(tail, len(others)) for tail in ended if tail.who.rank is None):
        return True
    ranks = [tail.who.rank for tail in tails if tail.who.rank is not None]
    speaks_for_all = {None, min(ranks, default=0), max(ranks, default=0)}  # else one ends alone
    return any(tail.who.rank in speaks_for_all for tail in ended) and not any(
        _stops_short(tail, ended) for tail in others
    )


_HELLO = re.compile(
    r"(?i)\bhello\b.{0,80}?\b(?:rank|process\w*|task|am|from)\W{0,3}(?P<rank>\d{1,6}) (?:out )?of "
    r"(?P<size>\d{1,6})\b"
)


def _all_said_hello(tails: Sequence[LogTail]) -> bool:
    """Return whether the program is one that greets on each rank, and all have done so."""
    said = [match for tail in tails for line in tail.lines if (match := _HELLO.search(line.text))]
    ranks, sizes = ({int(match[name]) for match in said} for name in ("rank", "size"))
    others = any(tail.outlook in {Outlook.STEPS, Outlook.IDLE} for tail in tails)
    return not others and len(sizes) == 1 and len(ranks) > 1 and ranks == {*range(*sizes)}


def rows_of_the_end(job: Job) -> tuple[Scheduled, ...]:
    """Return a scheduler's rows of a job that ended well; none if one tells otherwise.

    Slurm's of the job and its steps; Kubernetes' of the job, or of all its pods, where none is.
    """
    slurm = own_slurm_rows(job)
    if slurm:
        return slurm if all(_completed(row) for row in slurm) else ()
    last = {(row.kind, row.name): row for row in job.of(Scheduled) if not row.name[:1].isdigit()}
    rows = [row for row in last.values() if row.kind == "job"]
    rows = rows or [row for row in last.values() if row.kind == "pod"]
    return tuple(rows) if all(row.state in _ENDED for row in rows) else ()


_ZERO = re.compile(r"(?<![\d:])0:0(?![\d:])")
_STEP = re.compile(r"\d\.\d+$")


def _completed(row: Scheduled) -> bool:
    return row.state == "COMPLETED" and _ZERO.search(row.quote) is not None


def tasks_left_with_zero(job: Job) -> bool:
    """Return whether Slurm says of the tasks themselves that they left with 0.

    A batch script may do so behind an error.
    """
    return any(_STEP.search(row.name) for row in rows_of_the_end(job)) and not has_failed(job)


_AN_END = re.compile(r"(?i)\b(?:finish|complete|end)(?:e?d|s)?\b|\b(?:done|exit\w*|bye)\b")


def _once_each(tail: LogTail, ranks: int) -> bool:
    """Return whether what ends without a label stands there once for each of so many ranks."""
    counts = Counter(line.template for line in tail.lines if _AN_END.search(line.text))
    return 0 < ranks <= max(counts.values(), default=0)


def _stops_short(tail: LogTail, ended: list[LogTail]) -> bool:
    """Return whether a rank does not come as far as one that came to the end."""
    last = tail.lines[-1]
    if tail.outlook is not Outlook.STEPS:
        return any(line.template == last.template for other in ended for line in other.lines)
    same = [[line for line in other.lines if line.template == last.template] for other in ended]
    counts = last.values[:1]
    return not counts or not any(lines and lines[-1].values[:1] == counts for lines in same)


def are_idle(job: Job) -> bool:
    """Return whether the logs are those of a server that waits for requests."""
    outlooks = [tail.outlook for tail in all_tails(job)]
    return Outlook.IDLE in outlooks and set(outlooks) <= {Outlook.IDLE, Outlook.UNKNOWN}


def in_the_middle(job: Job) -> LogTail | None:
    """Return the log that ends in the middle of its steps, and latest in them; None if none."""
    return max(
        (tail for tail in all_tails(job) if tail.outlook is Outlook.STEPS),
        key=lambda tail: (tail.lines[-1].time or 0.0, len(tail.lines)),
        default=None,
    )


def got_over(job: Job, line: LogLine) -> bool:
    """Return whether the rank that printed a line of trouble is seen at work, or at its end, below.

    Of an excerpt that names no ranks nothing is concluded.
    """
    return line.who.rank is not None and _at_work_below(job, line) is not None


def _at_work_below(job: Job, line: LogLine) -> OwnLine | None:
    """Return the line, below this one, that shows its rank in its steps or at its planned end."""
    shown = (
        tail.lines[tail.decisive]
        for tail in job.of(LogTail)
        if (tail.who.rank, tail.source.file) == (line.who.rank, line.source.file)
        and tail.outlook in AT_WORK
    )
    return next((step for step in shown if step.number > (line.source.line or 0)), None)


def unanswered(job: Job, lines: Iterable[LogLine]) -> list[LogLine]:
    """Return the lines below which their log shows no step and no result."""
    signs = {sign.source.file: sign.source.line or 0 for sign in job.of(SignOfLife)}
    return [x for x in lines if (x.source.line or 0) > signs.get(x.source.file, 0)]


def ended_well(job: Job) -> bool:
    """Return whether a job came to its planned end, and no process of it is seen to have failed."""
    return have_ended(job) and not has_failed(job)


def has_failed(job: Job) -> bool:
    """Return whether a process failed; those that a kernel killed may be of another program."""
    rows = (row for row in job.exits if not OF_KERNEL.search(row.quote))
    return any(row.signal or row.exitcode for row in rows)


def trained_on(job: Job) -> Callable[[str, int, int | None], bool]:
    """Return what tells of a line (file, number, rank) whether its log goes on for steps below it.

    On to the planned end; or, by times, to the end of a log in which nothing else went wrong.
    What a program prints as it ends it may have buffered, so without times steps alone are no
    proof. Where who keeps all processes says that the job has ended well, no steps are needed; nor
    does it matter then what was printed behind, as a process ended.
    """
    if tasks_left_with_zero(job):
        return lambda *_: True
    tails = all_tails(job)
    ended = ended_well(job)
    quiet = not (has_failed(job) or any(tail.trouble or tail.troubled for tail in tails))
    times = {(line.source.file, line.source.line): line.time for line in job.lines}
    decisive = [(tail.source.file, tail.lines[tail.decisive]) for tail in tails if ended]
    well = {file: line.number for file, line in decisive if ENDED_WELL.search(line.text)}

    def is_over(file: str, number: int, rank: int | None) -> bool:
        here = [tail for tail in tails if tail.source.file == file]
        if not ended and rank is not None:
            here = [tail for tail in here if tail.who.rank == rank] or here
        time = times.get((file, number))
        on = (_steps_on(tail, number, time, ended=ended) for tail in here)
        return number < well.get(file, 0) or any(on)

    return is_over if ended or quiet else lambda *_: False


def not_overcome(job: Job, lines: Sequence[LogLine]) -> Sequence[LogLine]:
    """Return the lines of trouble that the job did not train on from."""
    if not lines:
        return lines
    is_over = trained_on(job)
    return [x for x in lines if not is_over(x.source.file, x.source.line or 0, x.who.rank)]


def _steps_on(tail: LogTail, number: int, time: float | None, *, ended: bool) -> bool:
    steps = tail.steps_below(number)
    first = steps[0].time if steps else None
    later = time is not None and first is not None and before(time, first)
    return len(steps) >= STEPS and (ended or (later and tail.outlook is Outlook.STEPS))


def without_overcome(job: Job) -> Job:
    """Leave out exceptions of ranks that went on below: somebody has caught them.

    Steps further down are not enough, for a program that ends prints what it had buffered: they
    are later by their times, too, or the rank waits in vain behind them. So they are where another
    one prints the steps of all. Not of a rank of which a launcher says that it has failed.
    """
    failed = {
        row.who.rank
        for row in job.exits
        if (row.exitcode or row.signal)
        and row.signal not in BROUGHT_DOWN
        and not row.killed_with_others
    }
    caught = {
        line.source
        for line in job.lines
        if line.raised is not None
        and not line.raised.thread
        and line.who.rank is not None
        and line.who.rank not in failed
        and _went_on(job, line)
    }
    kept = tuple(line for line in job.lines if line.source not in caught)
    return with_lines(job, kept) if caught else job


def _printed_at(job: Job, line: LogLine) -> float | None:
    """Return when a line was printed: by its own time, or by that of its rank's line above it.

    Nobody else has printed in between.
    """
    if line.time is not None:
        return line.time
    number = line.source.line or 0
    above = [
        (own.number, tail.who.rank, own.time)
        for tail in job.of(LogTail)
        if tail.source.file == line.source.file
        for own in tail.lines
        if own.number < number
    ]
    above.sort(key=lambda each: each[0], reverse=True)
    alone = takewhile(lambda each: each[1] == line.who.rank, above)
    return next((time for _, _, time in alone if time is not None), None)


def _trained_past(job: Job, line: LogLine) -> bool:
    """Return whether the steps of its rank, or those printed for all, go on by their times.

    What is printed as it happens has steps above, too.
    """
    time, number = _printed_at(job, line), line.source.line or 0
    for tail in job.of(LogTail) if time is not None else ():
        if tail.source.file != line.source.file or tail.who.rank not in {None, line.who.rank}:
            continue
        below = tail.steps_below(number)
        if len(below) < STEPS or below[0].time is None or time is None:
            continue
        above = [own for own in tail.lines if own.number < number]
        usual = sum(own.template == below[0].template for own in above) >= STEPS
        if usual and before(time, below[0].time):
            return True
    return False


def _went_on(job: Job, line: LogLine) -> bool:
    if _trained_past(job, line):
        return True
    step = _at_work_below(job, line)
    if step is None:
        return False
    if line.time is not None and step.time is not None:
        return before(line.time, step.time)
    return any(
        (other.who.rank, other.source.file) == (line.who.rank, line.source.file)
        and (other.source.line or 0) > step.number
        and waits_in_vain(other)
        for other in job.lines
    )
