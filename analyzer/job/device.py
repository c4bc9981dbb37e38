"""A GPU as a record, with its states over time, and which rank uses which."""

from typing import Any

from whyhang.analyzer.facts import Gap, Gpu, Record


class Device(Record):
    """One GPU, with its states over time, oldest first.

    ``members`` are the ranks that use it. ``place`` is the host, or the file where no host is
    known.
    """

    number: int
    host: str | None
    place: str
    states: tuple[Gpu, ...]
    members: tuple[int, ...] = ()

    def now(self, field: str) -> Any:
        """Return the last value of a field of ``Gpu``, None where no state has one."""
        values = (getattr(state, field) for state in reversed(self.states))
        return next((value for value in values if value is not None), None)

    def every(self, field: str) -> list[Any]:
        """Return all values of a field, oldest first."""
        values = (getattr(state, field) for state in self.states)
        return [value for value in values if value is not None]

    def state_with(self, field: str) -> Gpu:
        """Return the last state that has a field; the last of all where none does."""
        having = [s for s in self.states if getattr(s, field) not in (None, False, ())]
        return having[-1] if having else self.states[-1]

    @property
    def pids(self) -> dict[int, float]:
        """The programs seen on it last, with their memory in MiB (0: not known)."""
        pids: dict[int, float] = {}
        for process in self.now("processes") or ():
            if not process.graphics:
                pids[process.pid] = max(pids.get(process.pid, 0.0), process.memory or 0.0)
        return pids

    @property
    def name(self) -> str:
        """Name it within its host: "GPU 3", else by its address or UUID."""
        index = self.now("index")
        other = self.now("bus") or self.now("uuid") or "of unknown number"
        return f"GPU {other if index is None else index}"

    def __str__(self) -> str:
        bus = self.now("bus")
        address = f" ({bus})" if bus is not None and bus not in self.name else ""
        where = f" of {self.host}" if self.host else ""
        return f"{self.name}{where}{address}"


class Devices(Record):
    """All GPUs that are known, and which rank uses which.

    ``by_member`` gives a device's number, ``how`` an index into ``HOW``. ``gaps`` are the
    disagreements.
    """

    devices: tuple[Device, ...] = ()
    by_member: dict[int, int] = {}
    how: dict[int, int] = {}
    gaps: tuple[Gap, ...] = ()

    def of(self, member: int) -> Device | None:
        """Return the device of a member, if it is known."""
        number = self.by_member.get(member)
        return None if number is None else self.devices[number]
