"""What is seen of a job at one moment, and of what kind each sign is."""

from typing import Protocol

from whyhang.analyzer.facts import Record

JOB = "the job"
"""Whose a sign is where it is no single rank's."""


class Look(Record):
    """What was seen of a job at one moment. ``at`` is in seconds of a clock that never jumps.

    ``signs`` are counts that only work raises, by whose and what they are: steps noted, bytes of
    logs. ``stirs`` are counts that work raises and that some waits raise as well: context switches
    of a main thread, bytes read and written. CPU time is neither, for a wait may spin. ``alarms``
    are words for what shows by itself that the job is stuck. ``start`` differs from one start of
    the ranks to the next. ``over`` says how the job ended, once it has.
    """

    at: float
    signs: dict[tuple[str, str], int] = {}
    stirs: dict[tuple[str, str], int] = {}
    alarms: tuple[str, ...] = ()
    start: str = ""
    over: str = ""


class Looks(Protocol):
    """A job that can be looked at again and again."""

    @property
    def pids(self) -> tuple[int, ...]:
        """A process of it to diagnose, while there is one."""

    @property
    def paths(self) -> tuple[str, ...]:
        """What to read of it: of a folder, or the logs of processes that have ended."""

    def look(self) -> Look:
        """Look now; raises nothing for what a job does."""
