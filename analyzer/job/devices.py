"""Which GPU is whose: the one place where states of GPUs become devices, and ranks find theirs.

Tools name a GPU by index, UUID or PCI address, a file may not say of which host it is, and a
process is known by a pid that may be of another namespace. Here these are joined. The
pid on the GPU is trusted most, then the PCI address in the rank's own NCCL lines, then
LOCAL_RANK with CUDA_VISIBLE_DEVICES; where two disagree the more trusted wins, and it is said.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from whyhang.analyzer.facts import Gap, Gpu, GpuAddress, Record, replace

if TYPE_CHECKING:
    from whyhang.analyzer.job.records import Member

MAX_NAME = 200
"""Characters of a device's name in CUDA_VISIBLE_DEVICES: the UUID of a MIG device has 41."""

HOW = ("its pid is on it", "its NCCL lines name it", "LOCAL_RANK and CUDA_VISIBLE_DEVICES say so")
"""How a rank's GPU was learnt, most trusted first."""


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
    devices: list[Device] = []
    for place, host, states in _places(facts, members):
        for own in _by_device(states):
            in_time = tuple(sorted(own, key=lambda gpu: (gpu.taken_at or 0.0, gpu.look)))
            devices.append(Device(number=len(devices), host=host, place=place, states=in_time))
    ranks = _Ranks(devices, members, addresses)
    for member in members:
        ranks.place(member, by_environment=uses_gpus)
    return ranks.devices()


def same_host(one: str | None, other: str | None) -> bool:
    """Return whether two names may be of one host: unknown, equal, or equal but for the domain."""
    if one is None or other is None or one == other:
        return True
    return short(one) == short(other)


@functools.lru_cache(maxsize=1 << 16)
def short(host: str) -> str:
    """Cut the domain off the name of a host; addresses stay."""
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
            names.setdefault(short(gpu.who.host), gpu.who.host)
            named[short(gpu.who.host)].append(gpu)
        else:
            nameless[gpu.source.file].append(gpu)
    # A mark of what only facts about one host share: whose it is, a host's key or a file.
    owners: dict[object, tuple[dict[str, list[Gpu]], str]] = {}
    for key, states in named.items():
        owners.update(dict.fromkeys(_marks(states), (named, key)))
    joined: dict[str, list[Gpu]] = defaultdict(list)
    for file, states in nameless.items():
        marks = _marks(states)
        owner = next((owners[mark] for mark in marks if mark in owners), (joined, file))
        owners.update(dict.fromkeys(marks, owner))
        group, key = owner
        group[key] += states
    hosts = {member.host for member in members if member.host is not None}
    only = next(iter(hosts)) if len(hosts) == 1 and len(joined) == 1 and not named else None
    places: list[tuple[str, str | None, list[Gpu]]]
    places = [(names[key], names[key], states) for key, states in named.items()]
    for file, states in joined.items():
        host = _host_by_pids(states, members) or only
        places.append((host or file, host, states))
    return places


def _marks(states: Iterable[Gpu]) -> set[object]:
    """Return what only facts about one host have in common: UUIDs, a pid on a certain GPU."""
    marks: set[object] = set()
    for gpu in states:
        if gpu.uuid is not None:
            marks.add(gpu.uuid)
        if gpu.bus is not None or gpu.index is not None:
            marks |= {(process.pid, gpu.bus or gpu.index) for process in gpu.processes or ()}
    return marks


def _host_by_pids(states: Iterable[Gpu], members: Sequence[Member]) -> str | None:
    """Return the host whose ranks' pids stand on these GPUs, if it is but one."""
    pids = {process.pid for gpu in states for process in gpu.processes or ()}
    hosts = {m.host for m in members if m.pid in pids and m.host is not None}
    return next(iter(hosts)) if len(hosts) == 1 else None


class _Identity:
    """What is known of which device it is, and the states that are of it."""

    def __init__(self) -> None:
        self.uuid: str | None = None
        self.bus: str | None = None
        self.index: int | None = None
        self.slices: set[str] = set()
        self.states: list[Gpu] = []

    def learn(self, gpu: Gpu) -> None:
        """Take over what a state tells of which device it is about."""
        if gpu.uuid is not None and not gpu.uuid.startswith("MIG-"):
            self.uuid = self.uuid or gpu.uuid
        self.bus = self.bus or gpu.bus
        self.index = gpu.index if self.index is None else self.index
        self.slices |= {part.uuid for part in gpu.slices if part.uuid is not None}

    def is_of(self, gpu: Gpu) -> bool:
        """Return whether a state is of this device; an index alone is trusted least."""
        if gpu.uuid is not None and gpu.uuid.startswith("MIG-"):
            return gpu.uuid in self.slices or (self.uuid or "\0") in gpu.uuid
        if gpu.uuid is not None and self.uuid is not None:
            return gpu.uuid == self.uuid
        if gpu.bus is not None and self.bus is not None:
            return gpu.bus == self.bus
        return gpu.index is not None and gpu.index == self.index


def _by_device(states: Sequence[Gpu]) -> list[list[Gpu]]:
    """Sort the states of one host by device, in the order of the devices' numbers."""
    devices: list[_Identity] = []
    known: dict[str, _Identity] = {}
    device_of: dict[int, _Identity] = {}
    # Those that tell most of which device they are about come first.
    for number in sorted(range(len(states)), key=lambda number: -_names(states[number])):
        gpu = states[number]
        device = next((known[key] for key in (gpu.uuid, gpu.bus) if key and key in known), None)
        if device is None or not device.is_of(gpu):
            device = next((one for one in devices if one.is_of(gpu)), None)
        if device is None:
            device = _Identity()
            devices.append(device)
        device.learn(gpu)
        device_of[number] = device
        known.update((key, device) for key in (device.uuid, device.bus) if key)
    for number, gpu in enumerate(states):  # in the order they came, which is that of time
        device_of[number].states.append(gpu)
    devices.sort(key=lambda one: (one.index is None, one.index or 0, one.bus or ""))
    return [device.states for device in devices]


def _names(gpu: Gpu) -> int:
    return sum(key is not None for key in (gpu.uuid, gpu.bus, gpu.index))


class _Ranks:
    """Puts members on devices."""

    def __init__(
        self,
        devices: Sequence[Device],
        members: Sequence[Member],
        addresses: Iterable[GpuAddress],
    ) -> None:
        self._devices = devices
        self._by_pid: dict[int, list[Device]] = defaultdict(list)
        self._by_host: dict[str | None, list[Device]] = defaultdict(list)
        for device in devices:
            self._by_host[None if device.host is None else short(device.host)].append(device)
            for pid in device.pids:
                self._by_pid[pid].append(device)
        self._one_place = _in_one_place(devices)
        self._buses: dict[tuple[str, int], list[GpuAddress]] = defaultdict(list)
        for address in addresses:
            if address.who.pid is not None:
                self._buses["pid", address.who.pid].append(address)
            elif address.who.rank is not None:
                self._buses["rank", address.who.rank].append(address)
        self._pids_known = any(member.pid in self._by_pid for member in members)
        self._by_member: dict[int, int] = {}
        self._how: dict[int, int] = {}
        self._gaps: list[Gap] = []

    def place(self, member: Member, *, by_environment: bool) -> None:
        """Find the device of one member by everything that names one."""
        by_pid = self._with_pid(member)
        candidates = [by_pid, self._with_bus(member), None]
        if by_environment and (not self._pids_known or by_pid is not None):
            candidates[2] = self._by_environment(member)
        named = [(how, device) for how, device in enumerate(candidates) if device is not None]
        if not named:
            return
        (how, device), *others = named
        self._by_member[member.id], self._how[member.id] = device.number, how
        for other, against in others:
            if against is not device:
                self._gaps.append(_conflict(member, device, how, against, other))

    def devices(self) -> Devices:
        """Return the devices, each with its members."""
        members: dict[int, list[int]] = defaultdict(list)
        for member, number in sorted(self._by_member.items()):
            members[number].append(member)
        return Devices(
            devices=tuple(
                replace(device, members=tuple(members[device.number])) for device in self._devices
            ),
            by_member=self._by_member,
            how=self._how,
            gaps=tuple(self._gaps),
        )

    def _on_host(self, member: Member) -> Sequence[Device]:
        """Return the devices of a member's host; none where it is not known which host that is."""
        if member.host is None:
            return self._devices if self._one_place else ()
        devices = self._by_host.get(short(member.host), []) + self._by_host.get(None, [])
        return devices if _in_one_place(devices) else ()

    def _with_pid(self, member: Member) -> Device | None:
        """Return the device with the pid on it; of several the one with most of its memory."""
        devices = [
            device
            for device in self._by_pid.get(member.pid or -1, ())
            if same_host(device.host, member.host)
        ]
        if not _in_one_place(devices):
            return None  # on no host, or pids repeat over hosts
        return max(devices, key=lambda device: device.pids[member.pid or 0])

    def _with_bus(self, member: Member) -> Device | None:
        addresses = list(self._buses.get(("pid", member.pid or -1), ()))
        if member.rank is not None:
            addresses += self._buses.get(("rank", member.rank), ())
        buses = {address.bus for address in addresses if same_host(address.who.host, member.host)}
        if len(buses) != 1:
            return None
        return _only(device for device in self._on_host(member) if device.now("bus") in buses)

    def _by_environment(self, member: Member) -> Device | None:
        devices = self._on_host(member)
        environ = member.processes[-1].environ if member.processes else {}
        chosen = _visible_device(environ.get("CUDA_VISIBLE_DEVICES"), member.local_rank)
        if chosen is None or len(chosen) > MAX_NAME:
            return None
        if not chosen.isdecimal():
            return _only(device for device in devices if _has_uuid(device, chosen))
        is_mixed = len({device.now("name") for device in devices}) > 1
        if is_mixed and environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
            return None  # CUDA counts the fastest first, nvidia-smi by address
        return _only(device for device in devices if device.now("index") == int(chosen))


def _in_one_place(devices: Iterable[Device]) -> bool:
    return len({device.place for device in devices}) == 1


def _only(devices: Iterable[Device]) -> Device | None:
    """Return the device if there is but one."""
    several = list(devices)
    return several[0] if len(several) == 1 else None


def _visible_device(visible: str | None, local_rank: int | None) -> str | None:
    """Return the device that a rank chooses: an index or UUID as in CUDA_VISIBLE_DEVICES.

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
    """Return whether a UUID, which may be cut, is that of the device or one of its MIG devices."""
    uuids = [*device.every("uuid"), *(p.uuid or "" for s in device.states for p in s.slices)]
    return any(uuid.startswith(start) for uuid in uuids) or any(
        start.startswith(f"MIG-{uuid}") for uuid in uuids if uuid
    )


def _conflict(member: Member, device: Device, how: int, against: Device, other: int) -> Gap:
    return Gap(
        what=f"which GPU {member.name} uses",
        why=f"{device}, because {HOW[how]}; {against}, because {HOW[other]}",
        cost=f"{device.name} is taken for it",
        remedy="Compare CUDA_VISIBLE_DEVICES of the rank with nvidia-smi in the same container",
    )
