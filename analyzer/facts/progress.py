"""Facts of how far ranks came: their last lines, the steps they noted, signs of life."""

import enum
import re
from collections import Counter

from whyhang.analyzer.facts.base import Record
from whyhang.analyzer.facts.statements import Statement

ENDED_WELL = re.compile(
    r" -> FINISHED\W*$|^Job '\S+' succeeded$"
    r"|\bDone waiting for other agents\b|^# Out of bounds values : 0 OK"
    r"|\bNormal termination \(return value 0\)"
    r"|^=+ (?=[^=]*\bpassed\b)(?![^=]*\b(?:failed|errors?)\b)[^=]+ in [\d.]+s\b[^=]*=+$"
)
"""What who keeps all processes says of the job: Ray, torchrun, HTCondor, nccl-tests, pytest."""


class LastLine(Statement):
    """The last line of a rank.

    ``ends_log``: also that of its file, which is read to its end. ``cut``: no line break is behind
    it.
    """

    text: str
    ends_log: bool
    time: float | None = None
    cut: bool = False


class Outlook(enum.Enum):
    """What the last own lines of a log show of the work."""

    UNKNOWN = "unknown"  # nothing of it
    STEPS = "steps"  # in the middle of them
    IDLE = "idle"  # a server that has nothing to do
    ENDED = "ended"  # at the end that was planned


class OwnLine(Record):
    """A line that a program prints of itself.

    ``template`` is what it has in common with others of the same statement, ``values`` are the
    numbers, paths and hashes that differ.
    """

    number: int
    text: str
    template: str
    values: tuple[str, ...] = ()
    time: float | None = None


class LogTail(Statement):
    """The last own lines of a rank in a log, oldest first, before the first word of trouble.

    ``decisive`` is the number of the line that shows the ``outlook``. ``whole``: they are all that
    it printed. ``cut``: the file ends within a line, and so near behind these that
    more of this rank may have followed. ``trouble``: the first words of trouble behind these;
    ``troubled``: there are some of somebody without a label.
    """

    lines: tuple[OwnLine, ...]
    outlook: Outlook
    decisive: int = -1
    whole: bool = False
    cut: bool = False
    trouble: OwnLine | None = None
    troubled: bool = False

    def steps_below(self, number: int) -> list[OwnLine]:
        """Return its lines below a line of the file that are of one statement, which counts."""
        below = [line for line in self.lines if line.number > number and line.values]
        most = Counter(line.template for line in below).most_common(1)
        return [line for line in below if line.template == most[0][0]]


class SignOfLife(Statement):
    """A step, a loss, a progress bar, a result: words of a job that is through its start.

    The source has the line of the last one, as far as the end and the beginning of the log show.
    """

    text: str


class StepsWritten(Statement):
    """A line with another step than those before, written to a log while the job was looked at.

    That is, since the snapshots before the last ones: of a job that has come to its hang meanwhile
    older ones say nothing.
    """

    text: str


class StepsWrittenBefore(Statement):
    """The same, written before that. It tells of a job whose steps are far from each other."""

    text: str


class Progressed(Statement):
    """The step that a rank said it was in, at ``time``, by ``whyhang.heartbeat``.

    ``beats`` counts its calls so far, ``longest`` is the longest time between two of them in
    seconds. ``read_at`` is when this was read, where that is known.
    """

    step: int
    time: float
    beats: int
    longest: float
    read_at: float | None = None


class TrainingOutput(Statement):
    """That a file has words which only the output of a training program has."""
