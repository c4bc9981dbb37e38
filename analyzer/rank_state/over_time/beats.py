"""The steps that ranks have noted with ``whyhang.heartbeat``: who goes on, who is behind, how long.

Where a rank noted its step says nothing of what it does there: that is for its stack, its records
and its logs to tell.
"""

from collections.abc import Iterable, Mapping

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
    beats: dict[int, list[Progressed]] = {}
    for beat in job.of(Progressed):
        member = job.member_of(beat.who)
        if member is not None and (member.pid is None or member.pid == beat.who.pid):
            beats.setdefault(member.id, []).append(beat)
    pulses: dict[int, Pulse] = {}
    for member_id, each in beats.items():
        last = max(each, key=lambda beat: (beat.time, beat.read_at or 0.0))
        same = [b for b in each if (b.who.pid, b.who.host) == (last.who.pid, last.who.host)]
        pulses[member_id] = Pulse(first=min(same, key=lambda b: (b.time, b.beats)), last=last)
    return _with_distance(pulses)


def _with_distance(pulses: Mapping[int, Pulse]) -> dict[int, Pulse]:
    """Say how far behind each is; files of an earlier job are left out."""
    newest = max((pulse.last.time for pulse in pulses.values()), default=0.0)
    longest = max((pulse.last.longest for pulse in pulses.values()), default=0.0)
    here = {
        member: pulse
        for member, pulse in pulses.items()
        if newest - pulse.last.time <= max(OF_ANOTHER_RUN, longest)
    }
    most = max((pulse.last.step for pulse in here.values()), default=0)
    return {
        member: Pulse(first=pulse.first, last=pulse.last, behind=most - pulse.last.step)
        for member, pulse in here.items()
    }


def usual_step(pulses: Iterable[Pulse]) -> float | None:
    """Return the longest time between two beats of any rank so far; None where there was none."""
    longest = [pulse.last.longest for pulse in pulses if pulse.last.beats > 2]
    return max(longest, default=None)
