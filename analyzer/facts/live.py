"""Facts that a look at living processes and their host states, beside what /proc tells of each."""

from typing import Literal, TypeAlias

from whyhang.analyzer.facts.statements import Statement


class PartOfHost(Statement):
    """The processes of a host were looked at from inside a container: others may run there."""


class NoInterpreter(Statement):
    """A process that should run Python has no interpreter in it."""


class Paused(Statement):
    """How many stack dumps of a process were taken, and how many seconds they took together.

    It was paused for a part of them.
    """

    dumps: int
    seconds: float


class LoopCounter(Statement):
    """The value of a variable that a loop in ``function`` counts with."""

    name: str
    value: int
    function: str
    file: str

    def __str__(self) -> str:
        return f"{self.value} {self.name} in {self.function} ({self.file})"


class Variables(Statement):
    """A checksum of all variables in the user's frames of a main thread at one moment.

    Two of one process that differ show that it went on, though it stands at the same line.
    """

    checksum: int


class CallArgument(Statement):
    """What a call of user code is given on a rank, by its line and the variables of its frame.

    ``op`` is the function that is called, ``name`` the argument (root, group, tag, …) and ``value``
    its text there; of a loop around the call both are "range", and the value is how often it is
    gone round. ``stands``: the rank is at that line, else elsewhere in that function.
    """

    op: str
    name: str
    value: str
    function: str
    file: str
    line: int
    stands: bool = True

    def __str__(self) -> str:
        where = f"{'at' if self.stands else 'in'} {self.function} ({self.file}:{self.line})"
        return f"{self.name}={self.value} of {self.op} {where}"


Limit: TypeAlias = Literal["cpu-quota", "group-memory", "oom-kills", "load", "host-memory"]


class NearLimit(Statement):
    """A limit that a process or its host is near: of CPU time, memory or load.

    ``measured`` is what was read: periods in which the quota stopped the process (``of`` so many
    periods), the share of its control group's ``size`` in GiB, processes killed, the load of the
    host of ``size`` processors, the share of its memory that is available.
    """

    limit: Limit
    measured: float
    size: float | None = None
    of: int | None = None

    @property
    def says(self) -> str:
        """It in words, of a host without its name."""
        return self.on("the host")

    def on(self, where: str) -> str:
        """Put it into words, with the name of its host."""
        match self.limit:
            case "cpu-quota":
                periods = f"{self.measured:.0f} of {self.of} periods"
                return f"its CPU quota stopped it in {periods} between the looks"
            case "group-memory":
                return f"its control group uses {self.measured:.0%} of its {self.size:.1f} GiB"
            case "oom-kills":
                killed = f"{self.measured:.0f} processes of its control group"
                return f"the kernel has killed {killed} for memory"
            case "load":
                return f"the load of {where} is {self.measured:.0f} on {self.size:.0f} processors"
            case "host-memory":
                return f"{self.measured:.0%} of the memory of {where} is available"


class DriverSilence(Statement):
    """A tool that asked the GPU driver did not come back, in words."""

    says: str


class HostSilence(Statement):
    """A host of the job (that of ``who``) gave no answer when whyhang tried to reach it; ``why``.

    Not one that answers and lets nobody in.
    """

    why: str


class HostAddress(Statement):
    """An address of the host of ``who``, as its name is resolved where whyhang ran."""

    address: str
