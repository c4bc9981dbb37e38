"""Whether a job was stopped from outside while its steps went on, by the times of both."""

import re
from itertools import pairwise

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import LogLine, LogTail, Outlook, OwnLine, Record, Source
from whyhang.analyzer.rank_state.from_logs.ends import waits_in_vain
from whyhang.analyzer.rank_state.from_logs.log_ends import all_tails

_STOPPED = re.compile(
    r"Received (?:2|15|Signals\.SIG(?:INT|TERM)) death signal, shutting down workers"
    r"|SignalException: Process \d+ got signal: (?:2|15)\b|CANCELLED AT [\dT:-]+"
)
"""Of lines that other signatures know: somebody stopped the job."""

_BY_HAND = re.compile(r"SIGINT|(?:Received|signal:) 2\b")
LEAST = 4  # steps
SLACK = 2.0  # times the longest of the last steps, and seconds: launchers notice a signal late


class Stop(Record):
    """The ``line`` that tells of the stop, and the last ``step`` before, of a rank if known."""

    line: LogLine
    step: OwnLine
    source: Source
    rank: int | None

    @property
    def by_hand(self) -> bool:
        """Return whether somebody pressed Ctrl-C."""
        return _BY_HAND.search(self.line.text) is not None

    @property
    def since(self) -> float:
        """Return how many seconds the last step lies back."""
        return (self.line.time or 0.0) - (self.step.time or 0.0)


def told_to_stop(case: Case) -> LogLine | None:
    """Return the first line that tells of somebody who stopped the job."""
    lines = [
        line for line in case.job.lines if line.time is not None and _STOPPED.search(line.text)
    ]
    return min(lines, key=lambda line: line.time or 0.0, default=None)


def stopped_at_work(case: Case) -> Stop | None:
    """Return how the job was stopped; None where it was not, or no step came shortly before."""
    stop = told_to_stop(case)
    tails = [tail for tail in all_tails(case.job) if tail.outlook is Outlook.STEPS]
    if (
        stop is None
        or not tails
        or _failed(case)
        or not all(_at_work(tail, stop) for tail in tails)
    ):
        return None
    last = max(tails, key=lambda tail: tail.steps_below(0)[-1].time or 0.0)
    return Stop(line=stop, step=last.steps_below(0)[-1], source=last.source, rank=last.who.rank)


def _failed(case: Case) -> bool:
    """Return whether a rank ended of itself, or gave up waiting for another one."""
    return any(state.end is not None and state.end.own for state in case.states) or any(
        waits_in_vain(line) or (line.raised is not None and line.raised.is_own)
        for line in case.job.lines
    )


def _at_work(tail: LogTail, stop: LogLine) -> bool:
    """Return whether the last step is no older than steps are long."""
    times = [line.time for line in tail.steps_below(0) if line.time is not None][-LEAST * 4 :]
    if len(times) < LEAST or stop.time is None:
        return False
    longest = max(b - a for a, b in pairwise(times))
    return -SLACK <= stop.time - times[-1] <= SLACK * max(longest, 1.0)
