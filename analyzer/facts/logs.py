"""Lines of logs, and the ends of processes that they tell of."""

import signal

from whyhang.analyzer.facts.base import Sourced
from whyhang.analyzer.facts.exceptions import Raised

RAS_LINE = "nccl-ras"
"""Finds the lines that tell what NCCL's health network (RAS) said of ranks.

Their fields: ``state`` and, where known, ``node``, ``process``, ``gpu``, ``comm`` and ``number``
(the rank within the communicator).
"""

FAILED = "failed: "
"""Begins what finds a line of which no signature knows the words; the object that failed follows.

Their field ``what`` holds the line's words.
"""

NO_YEAR = 2000  # a leap year
"""The year of times where no line of a log tells one."""


CRASHES = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE})
"""Signals that a process brings on itself."""

NAMES_WHOM = frozenset({"rank", "ranks", "pid"})
"""Fields of a line that say whom it is about."""


class LogLine(Sourced):
    """One line that a scanner found telling.

    ``matched`` holds the names of the patterns that found it, ``fields`` what their named
    groups captured. ``text`` is the line without launcher prefix, cut to a sane length;
    ``offset`` is its first byte in the file. ``raised`` is the exception of which it is the last
    line; no pattern found that.
    """

    text: str
    matched: tuple[str, ...] = ()
    fields: dict[str, str] = {}
    time: float | None = None
    offset: int | None = None
    raised: Raised | None = None
    count: int = 1  # lines alike of this rank that the scanner folded into this one

    @property
    def names_whom(self) -> bool:
        """Return whether the line itself says whom it is about, which need not be its speaker."""
        return not NAMES_WHOM.isdisjoint(self.fields)


class Exit(Sourced):
    """A process ended, as a launcher, scheduler or kernel reports it. ``signal`` 9 is SIGKILL.

    With neither a code nor a signal it died, and nobody says how.

    ``ends_all``: whoever reports it has ended all other processes before. ``killed_with_others``:
    its launcher killed it because of another one. ``parent``: the process that started it, and has
    not taken note of its end.
    """

    quote: str
    exitcode: int | None = None
    signal: int | None = None
    time: float | None = None
    ends_all: bool = False
    killed_with_others: bool = False
    parent: int | None = None

    @property
    def how(self) -> str:
        """How it ended: the name of a signal, an exit code, or that nobody says."""
        if self.signal is not None:
            named = self.signal in signal.valid_signals()
            return signal.Signals(self.signal).name if named else f"signal {self.signal}"
        known = self.exitcode is not None
        return f"exit code {self.exitcode}" if known else "died, it is not known how"
