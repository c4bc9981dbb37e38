"""Which GPU is whose: the one place where states of GPUs become devices.

Tools name a GPU by index, UUID or PCI address, and a file may not say of which host it is.
Here these are joined; which rank uses which device says ``device_of_rank.py``.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from whyhang.analyzer.facts import Gpu, GpuAddress, short_host
from whyhang.analyzer.job.device import Device, Devices
from whyhang.analyzer.job.device_of_rank import Placement
from whyhang.analyzer.job.records import Member


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
    ranks = Placement(devices, members, addresses)
    for member in members:
        ranks.place(member, by_environment=uses_gpus)
    ranks.place_by_number(members)
    return ranks.devices()


def _places(
    facts: Sequence[Gpu], members: Sequence[Member]
) -> list[tuple[str, str | None, list[Gpu]]]:
    """Sort the facts by host; files that name none by what they share with others."""
    named: dict[str, list[Gpu]] = defaultdict(list)
    nameless: dict[str, list[Gpu]] = defaultdict(list)
    names: dict[str, str] = {}
    for gpu in facts:
        if gpu.who.host is not None:
            names.setdefault(short_host(gpu.who.host), gpu.who.host)
            named[short_host(gpu.who.host)].append(gpu)
        else:
            nameless[gpu.source.file].append(gpu)
    # A mark of what only facts about one host share: whose it is, a host's key or a file.
    owners: dict[object, tuple[dict[str, list[Gpu]], str]] = {}
    for key, states in named.items():
        owners.update(dict.fromkeys(_marks(states), (named, key)))
    joined: dict[str, list[Gpu]] = defaultdict(list)
    for file, states in nameless.items():
        marks = _marks(states)
        if not named and _of_one_host(members, states):
            marks.add(ONE_HOST)  # and so has no other
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


ONE_HOST = "the host of all ranks"


def _of_one_host(members: Sequence[Member], states: Sequence[Gpu]) -> bool:
    """Return whether these GPUs are as many as the ranks, which are of one host as far as known."""
    ranks = {member.rank for member in members}
    hosts = {member.host for member in members} - {None}
    gpus = {gpu.index for gpu in states}
    return len(hosts) < 2 and len(gpus) > 1 and ranks == gpus == set(range(len(gpus)))


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
