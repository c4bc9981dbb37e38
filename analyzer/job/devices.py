"""Which GPU is whose: the one place where states of GPUs become devices, and ranks find theirs.

Tools name a GPU by index, UUID or PCI address, a file may not say of which host it is, and a
process is known by a pid that may be of another namespace. Here the sayings are joined. The
pid on the GPU is trusted most, then the PCI address in the rank's own NCCL lines, then
LOCAL_RANK with CUDA_VISIBLE_DEVICES; where two disagree the more trusted wins, and it is said.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from whyhang.analyzer.facts import Gap, Gpu, GpuAddress, Record, replace

if TYPE_CHECKING:
    from whyhang.analyzer.job.records import Member

HOW = ("its pid is on it", "its NCCL lines name it", "LOCAL_RANK and CUDA_VISIBLE_DEVICES say so")
"""How a rank's GPU was learnt, most trusted first."""


class Device(Record):
    """One GPU, with everything that was told of it over time, oldest first.

    ``members`` are the ranks that use it. ``place`` is the host, or the file where no host is
    known.
    """

    number: int
    host: str | None
    place: str
    states: tuple[Gpu, ...]
    members: tuple[int, ...] = ()

    def now(self, field: str) -> Any:
        """Give what was told last of a field of ``Gpu``, or None."""
        for state in reversed(self.states):
            value = getattr(state, field)
            if value is not None:
                return value
        return None

    def every(self, field: str) -> list[Any]:
        """Give everything that was told of a field, oldest first."""
        told = (getattr(state, field) for state in self.states)
        return [value for value in told if value is not None]

    def state_with(self, field: str) -> Gpu:
        """Give the last state that tells a field; the last of all where none does."""
        telling = [s for s in self.states if getattr(s, field) not in (None, False, ())]
        return telling[-1] if telling else self.states[-1]

    @property
    def pids(self) -> dict[int, float]:
        """Give the programs seen on it last, with their memory in MiB (0: not told)."""
        told: dict[int, float] = {}
        for process in self.now("processes") or ():
            if not process.graphics:
                told[process.pid] = max(told.get(process.pid, 0.0), process.memory or 0.0)
        return told

    @property
    def name(self) -> str:
        """Name it within its host: "GPU 3", else by its address or UUID."""
        index, bus = self.now("index"), self.now("bus")
        if index is not None:
            return f"GPU {index}"
        return f"GPU {bus or self.now('uuid') or 'of unknown number'}"

    def __str__(self) -> str:
        bus = self.now("bus")
        address = f" ({bus})" if bus is not None and bus not in self.name else ""
        where = f" of {self.host}" if self.host else ""
        return f"{self.name}{where}{address}"


class Devices(Record):
    """All GPUs that were told of, and which rank uses which.

    ``by_member`` gives a device's number, ``how`` an index into ``HOW``. ``gaps`` are the
    disagreements.
    """

    devices: tuple[Device, ...] = ()
    by_member: dict[int, int] = {}  # noqa: RUF012 - msgspec copies it for each record
    how: dict[int, int] = {}  # noqa: RUF012
    gaps: tuple[Gap, ...] = ()

    def of(self, member: int) -> Device | None:
        """Give the device of a member, if it is known."""
        number = self.by_member.get(member)
        return None if number is None else self.devices[number]


def join(
    facts: Sequence[Gpu],
    members: Sequence[Member],
    addresses: Iterable[GpuAddress],
    *,
    uses_gpus: bool,
) -> Devices:
    """Make devices of the facts, and find each member's.

    ``uses_gpus``: it is known that the job uses GPUs; only then does an environment that names
    devices put a rank on one.
    """
    if not facts:
        return Devices()
    made: list[_Draft] = []
    for place, host, told in _places(facts, members):
        made += _devices_of(place, host, told)
    devices = tuple(
        Device(
            number=number,
            host=device.host,
            place=device.place,
            states=tuple(sorted(device.states, key=_when)),
        )
        for number, device in enumerate(made)
    )
    found = _Ranks(devices, members, addresses)
    for member in members:
        found.place(member, by_environment=uses_gpus)
    return found.devices_with_ranks()


def _when(gpu: Gpu) -> tuple[float, int]:
    return (gpu.taken_at if gpu.taken_at is not None else 0.0, gpu.look)


def same_host(one: str | None, other: str | None) -> bool:
    """Tell whether two names may be of one host: unknown, equal, or equal but for the domain."""
    if one is None or other is None or one == other:
        return True
    return _short(one) == _short(other)


def _short(host: str) -> str:
    return host if host.replace(".", "").isdecimal() else host.partition(".")[0].lower()


def _places(
    facts: Sequence[Gpu], members: Sequence[Member]
) -> list[tuple[str, str | None, list[Gpu]]]:
    """Sort the facts by host; files that name none by what they share with others."""
    named: dict[str, list[Gpu]] = defaultdict(list)
    nameless: dict[str, list[Gpu]] = defaultdict(list)
    names: dict[str, str] = {}
    for gpu in facts:
        if gpu.who.host is not None:
            names.setdefault(_short(gpu.who.host), gpu.who.host)
            named[_short(gpu.who.host)].append(gpu)
        else:
            nameless[gpu.source.file].append(gpu)
    owners: dict[object, tuple[bool, str]] = {}
    for key, told in named.items():
        owners.update((mark, (True, key)) for mark in _marks(told))
    joined: dict[str, list[Gpu]] = {}
    for file, told in nameless.items():
        marks = _marks(told)
        owner = next((owners[mark] for mark in marks if mark in owners), (False, file))
        owners.update((mark, owner) for mark in marks)
        if owner[0]:
            named[owner[1]] += told
        else:
            joined.setdefault(owner[1], []).extend(told)
    places: list[tuple[str, str | None, list[Gpu]]]
    places = [(names[key], names[key], told) for key, told in named.items()]
    hosts = {member.host for member in members if member.host is not None}
    only = next(iter(hosts)) if len(hosts) == 1 and len(joined) == 1 and not named else None
    for file, told in joined.items():
        host = _host_by_pids(told, members) or only
        places.append((host or file, host, told))
    return places


def _marks(told: Iterable[Gpu]) -> set[object]:
    """Give what only facts about one host have in common: UUIDs, a pid on a certain GPU."""
    marks: set[object] = set()
    for gpu in told:
        if gpu.uuid is not None:
            marks.add(gpu.uuid)
        for process in gpu.processes or ():
            if gpu.bus is not None or gpu.index is not None:
                marks.add((process.pid, gpu.bus or gpu.index))
    return marks


def _host_by_pids(told: Iterable[Gpu], members: Sequence[Member]) -> str | None:
    """Find the host whose ranks' pids stand on these GPUs, if it is but one."""
    pids = {process.pid for gpu in told for process in gpu.processes or ()}
    hosts = {m.host for m in members if m.pid in pids and m.host is not None}
    return next(iter(hosts)) if len(hosts) == 1 else None


class _Draft:
    """A device while facts are joined."""

    def __init__(self, place: str, host: str | None) -> None:
        self.place = place
        self.host = host
        self.states: list[Gpu] = []
        self.uuid: str | None = None
        self.bus: str | None = None
        self.index: int | None = None
        self.slices: set[str] = set()

    def learn(self, gpu: Gpu) -> None:
        """Take over what a fact tells of who it is about."""
        if gpu.uuid is not None and not gpu.uuid.startswith("MIG-"):
            self.uuid = self.uuid or gpu.uuid
        self.bus = self.bus or gpu.bus
        self.index = gpu.index if self.index is None else self.index
        self.slices |= {part.uuid for part in gpu.slices if part.uuid is not None}

    def is_of(self, gpu: Gpu) -> bool:
        """Tell whether a fact is about this device; an index alone is trusted least."""
        if gpu.uuid is not None and gpu.uuid.startswith("MIG-"):
            return gpu.uuid in self.slices or (self.uuid or "\0") in gpu.uuid
        if gpu.uuid is not None and self.uuid is not None:
            return gpu.uuid == self.uuid
        if gpu.bus is not None and self.bus is not None:
            return gpu.bus == self.bus
        return gpu.index is not None and gpu.index == self.index


def _devices_of(place: str, host: str | None, told: Sequence[Gpu]) -> list[_Draft]:
    """Join the facts about one host; those that tell most of who they are about come first."""
    devices: list[_Draft] = []
    known: dict[object, _Draft] = {}
    order = sorted(range(len(told)), key=lambda number: -_named(told[number]))
    taken: dict[int, _Draft] = {}
    for number in order:
        gpu = told[number]
        device = next((known[key] for key in (gpu.uuid, gpu.bus) if key in known and key), None)
        if device is None or not device.is_of(gpu):
            device = next((one for one in devices if one.is_of(gpu)), None)
        if device is None:
            device = _Draft(place, host)
            devices.append(device)
        taken[number] = device
        device.learn(gpu)
        known.update((key, device) for key in (device.uuid, device.bus) if key)
    for number, gpu in enumerate(told):  # in the order they came, which is that of time
        taken[number].states.append(gpu)
    return sorted(
        devices, key=lambda device: (device.index is None, device.index or 0, device.bus or "")
    )


def _named(gpu: Gpu) -> int:
    return sum(key is not None for key in (gpu.uuid, gpu.bus, gpu.index))


class _Ranks:
    """Puts members on devices."""

    def __init__(
        self,
        devices: tuple[Device, ...],
        members: Sequence[Member],
        addresses: Iterable[GpuAddress],
    ) -> None:
        self._devices = devices
        self._by_pid: dict[tuple[str | None, int], list[Device]] = defaultdict(list)
        self._pids: dict[int, list[Device]] = defaultdict(list)
        for device in devices:
            for pid in device.pids:
                host = None if device.host is None else _short(device.host)
                self._by_pid[host, pid].append(device)
                self._pids[pid].append(device)
        self._by_host: dict[str | None, list[Device]] = defaultdict(list)
        for device in devices:
            self._by_host[None if device.host is None else _short(device.host)].append(device)
        self._one_place = len({device.place for device in devices}) == 1
        self._buses: dict[tuple[str, int], list[GpuAddress]] = defaultdict(list)
        for address in addresses:
            if address.who.pid is not None:
                self._buses["pid", address.who.pid].append(address)
            elif address.who.rank is not None:
                self._buses["rank", address.who.rank].append(address)
        self._seen = any(member.pid in self._pids for member in members)
        self._found: dict[int, int] = {}
        self._how: dict[int, int] = {}
        self._gaps: list[Gap] = []

    def place(self, member: Member, *, by_environment: bool) -> None:
        """Find the device of one member by everything that names one."""
        told = [self._with_pid(member), self._with_bus(member), None]
        if by_environment and (not self._seen or told[0] is not None):
            told[2] = self._by_environment(member)
        best = next(((how, device) for how, device in enumerate(told) if device is not None), None)
        if best is None:
            return
        how, device = best
        self._found[member.id], self._how[member.id] = device.number, how
        for other, against in enumerate(told):
            if against is not None and against is not device:
                self._gaps.append(_conflict(member, device, how, against, other))

    def devices_with_ranks(self) -> Devices:
        """Give the devices, each with its members."""
        users: dict[int, list[int]] = defaultdict(list)
        for member, number in self._found.items():
            users[number].append(member)
        return Devices(
            devices=tuple(
                _with_members(device, users.get(device.number, ())) for device in self._devices
            ),
            by_member=self._found,
            how=self._how,
            gaps=tuple(self._gaps),
        )

    def _on_host(self, member: Member) -> list[Device]:
        """Give the devices of a member's host; none where it cannot be told which host that is."""
        if member.host is None:
            return list(self._devices) if self._one_place else []
        named = self._by_host.get(_short(member.host), [])
        nameless = self._by_host.get(None, [])
        devices = named + nameless
        return devices if len({device.place for device in devices}) == 1 else []

    def _with_pid(self, member: Member) -> Device | None:
        """Find the device with the pid on it; of several the one with most of its memory."""
        if member.pid is None:
            return None
        if member.host is None:
            devices = self._pids.get(member.pid, [])
        else:
            named = self._by_pid.get((_short(member.host), member.pid), [])
            devices = named + self._by_pid.get((None, member.pid), [])
        if len({device.place for device in devices}) != 1:
            return None  # on no host, or pids repeat over hosts
        return max(devices, key=lambda device: device.pids[member.pid or 0])

    def _with_bus(self, member: Member) -> Device | None:
        addresses = list(self._buses.get(("pid", member.pid or -1), ()))
        if member.rank is not None:
            addresses += self._buses.get(("rank", member.rank), ())
        buses = {fact.bus for fact in addresses if same_host(fact.who.host, member.host)}
        if len(buses) != 1:
            return None
        devices = [device for device in self._on_host(member) if device.now("bus") in buses]
        return devices[0] if len(devices) == 1 else None

    def _by_environment(self, member: Member) -> Device | None:
        devices = self._on_host(member)
        environ = member.processes[-1].environ if member.processes else {}
        chosen = visible_device(environ.get("CUDA_VISIBLE_DEVICES"), member.local_rank)
        if chosen is None or not devices:
            return None
        if not chosen.isdecimal():
            found = [device for device in devices if _has_uuid(device, chosen)]
        elif _mixed(devices) and environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
            return None  # CUDA counts the fastest first, nvidia-smi by address
        else:
            found = [device for device in devices if device.now("index") == int(chosen)]
        return found[0] if len(found) == 1 else None


def visible_device(visible: str | None, local_rank: int | None) -> str | None:
    """Give the device that a rank chooses: an index or UUID as in CUDA_VISIBLE_DEVICES.

    A rank that sees one device uses it; else it takes the one of its local rank, as every
    launcher's programs do.
    """
    if visible is None:
        return None if local_rank is None else str(local_rank)
    entries = [entry.strip() for entry in visible.split(",") if entry.strip()]
    if len(entries) == 1:
        return entries[0]
    if local_rank is None or local_rank >= len(entries):
        return None
    return entries[local_rank]


def _has_uuid(device: Device, start: str) -> bool:
    """Tell whether a UUID, which may be cut, is that of the device or one of its MIG devices."""
    uuids = [*device.every("uuid"), *(p.uuid or "" for s in device.states for p in s.slices)]
    return any(uuid.startswith(start) for uuid in uuids) or any(
        start.startswith(f"MIG-{uuid}") for uuid in uuids if uuid
    )


def _mixed(devices: Iterable[Device]) -> bool:
    return len({device.now("name") for device in devices}) > 1


def _with_members(device: Device, members: Iterable[int]) -> Device:
    return replace(device, members=tuple(sorted(members)))


def _conflict(member: Member, device: Device, how: int, against: Device, other: int) -> Gap:
    return Gap(
        what=f"which GPU {member.name} uses",
        why=f"{device}, because {HOW[how]}; {against}, because {HOW[other]}",
        cost=f"{device.name} is taken for it",
        remedy="Compare CUDA_VISIBLE_DEVICES of the rank with nvidia-smi in the same container",
    )
