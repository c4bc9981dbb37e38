"""The steps that ranks have noted with ``whyhang.heartbeat``: who goes on, who is behind, how long.

Where a rank noted its step says nothing of what it does there: that is for its stack, its records
and its logs to tell.
"""

from collections.abc import Iterable

from whyhang.analyzer.facts import Progressed, Record
from whyhang.analyzer.job.records import Job

OF_ANOTHER_RUN = 3600.0
"""Seconds between two last beats of one job, at most times the longest pause if that is more."""


class Pulse(Record):
    """The beats of one rank: the first and the last that were read.

    ``behind`` is how many steps it is behind the rank that has come furthest.
    """

    first: Progressed
    last: Progressed
    behind: int = 0

    @property
    def goes_on(self) -> bool:
        """Whether it came to another step between two readings."""
        return self.first.step != self.last.step

    @property
    def silent_for(self) -> float | None:
        """Seconds from its last beat to the reading."""
        read_at = self.last.read_at
        return None if read_at is None else max(0.0, read_at - self.last.time)


def pulses(job: Job) -> dict[int, Pulse]:
    """Return the beats of each member. Of several processes of one rank the last one counts."""
    of_members = []
    for number, beats in job.by_member(Progressed).items():
        pid = job.members[number].pid
        each = [beat for beat in beats if pid is None or pid == beat.who.pid]
        if not each:
            continue
        last = max(each, key=lambda beat: (beat.time, beat.read_at or 0.0))
        same = [b for b in each if (b.who.pid, b.who.host) == (last.who.pid, last.who.host)]
        of_members.append((number, min(same, key=lambda b: (b.time, b.beats)), last))
    newest = max((last.time for _, _, last in of_members), default=0.0)
    longest = max((last.longest for _, _, last in of_members), default=0.0)
    oldest = newest - max(OF_ANOTHER_RUN, longest)  # files of an earlier job are left out
    most = max((last.step for _, _, last in of_members if last.time >= oldest), default=0)
    return {
        member: Pulse(first=first, last=last, behind=most - last.step)
        for member, first, last in of_members
        if last.time >= oldest
    }


def usual_step(pulses: Iterable[Pulse]) -> float | None:
    """Return the longest time between two beats of any rank so far; None where there was none."""
    longest = [pulse.last.longest for pulse in pulses if pulse.last.beats > 2]
    return max(longest, default=None)
