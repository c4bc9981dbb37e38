"""Which GPU is whose: states of GPUs become devices, and each rank is put on its own.

Tools name a GPU by index, UUID or PCI address, and a file may not say of which host it is. Of what
tells which rank uses which, the pid on the GPU is trusted most (it may be of another namespace),
then the PCI address in the rank's own NCCL lines, then LOCAL_RANK with CUDA_VISIBLE_DEVICES; where
two disagree the more trusted wins, and it is said.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from whyhang.analyzer.facts import Gap, Gpu, GpuAddress, grouped, replace, same_host, short_host
from whyhang.analyzer.job.device import Device, Devices
from whyhang.analyzer.job.records import Member

MAX_NAME = 200
"""Characters of a device's name in CUDA_VISIBLE_DEVICES: the UUID of a MIG device has 41."""

HOW = (
    "its pid is on it",
    "its NCCL lines name it",
    "LOCAL_RANK and CUDA_VISIBLE_DEVICES say so",
    "the ranks of one host are as many as its GPUs",
)
"""How a rank's GPU was learnt, most trusted first."""


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
    with_pid: dict[int | None, list[Device]] = defaultdict(list)
    for device in devices:
        for pid in device.pids:
            with_pid[pid].append(device)
    by_host = grouped(devices, lambda device: short_host(device.host or ""))
    of_pids = grouped(addresses, lambda address: address.who.pid)
    of_ranks = grouped(of_pids.pop(None, ()), lambda address: address.who.rank)
    pids_known = any(member.pid in with_pid for member in members)
    by_member: dict[int, tuple[int, int]] = {}  # how it was learnt, and the device's number
    gaps = []
    for member in members:
        here = devices
        if member.host is not None:  # with those of which it is not known where they are
            here = by_host.get(short_host(member.host), []) + by_host.get("", [])
        here = here if _in_one_place(here) else []
        by_pid = _with_pid(with_pid.get(member.pid, ()), member)
        spoken = [*of_pids.get(member.pid, ()), *of_ranks.get(member.rank, ())]
        buses = {each.bus for each in spoken if same_host(each.who.host, member.host)}
        on_bus = [device for device in here if device.now("bus") in buses]
        by_bus = on_bus[0] if len(buses) == len(on_bus) == 1 else None
        trusts = uses_gpus and (not pids_known or by_pid is not None)
        by_environment = _by_environment(here, member) if trusts else None
        named = [(n, d) for n, d in enumerate((by_pid, by_bus, by_environment)) if d is not None]
        for how, device in named:
            first = named[0][1]
            by_member.setdefault(member.id, (how, first.number))
            if device is not first:
                gaps.append(_conflict(member, first, named[0][0], device, how))
    by_member = by_member or _by_number(devices, members)
    using = grouped(sorted(by_member), lambda member: by_member[member][1])
    return Devices(
        devices=tuple(replace(d, members=tuple(using.get(d.number, ()))) for d in devices),
        by_member={member: number for member, (_, number) in by_member.items()},
        how={member: how for member, (how, _) in by_member.items()},
        gaps=tuple(gaps),
    )


def _by_number(devices: Sequence[Device], members: Sequence[Member]) -> dict[int, tuple[int, int]]:
    """Place each rank on the GPU with its number, where that is all that can be.

    The ranks, from 0 on and of one host as far as is known, are as many as the GPUs of the one
    host whose GPUs are known.
    """
    by_index = {device.now("index"): device for device in devices}
    if not _in_one_place(devices) or not _of_one_host(members, by_index):
        return {}
    ranks = {member.rank: member for member in members}
    return {m.id: (len(HOW) - 1, by_index[rank].number) for rank, m in ranks.items()}


def _with_pid(devices: Sequence[Device], member: Member) -> Device | None:
    """Return the device with the pid on it; of several the one with most of its memory."""
    own = [device for device in devices if same_host(device.host, member.host)]
    if not _in_one_place(own):
        return None  # on no host, or pids repeat over hosts
    return max(own, key=lambda device: device.pids[member.pid or 0])


def _by_environment(devices: Sequence[Device], member: Member) -> Device | None:
    environ = member.processes[-1].environ if member.processes else {}
    chosen = _visible_device(environ.get("CUDA_VISIBLE_DEVICES"), member.local_rank)
    if chosen is None or len(chosen) > MAX_NAME:
        return None
    is_mixed = len({device.now("name") for device in devices}) > 1
    if not chosen.isdecimal():
        found = [device for device in devices if _has_uuid(device, chosen)]
    elif is_mixed and environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        return None  # CUDA counts the fastest first, nvidia-smi by address
    else:
        found = [device for device in devices if device.now("index") == int(chosen)]
    return found[0] if len(found) == 1 else None


def _in_one_place(devices: Iterable[Device]) -> bool:
    return len({device.place for device in devices}) == 1


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
    return any(uuid.startswith(start) or start.startswith(f"MIG-{uuid}") for uuid in uuids if uuid)


def _conflict(member: Member, device: Device, how: int, against: Device, other: int) -> Gap:
    return Gap(
        what=f"which GPU {member.name} uses",
        why=f"{device}, because {HOW[how]}; {against}, because {HOW[other]}",
        cost=f"{device.name} is taken for it",
        remedy="Compare CUDA_VISIBLE_DEVICES of the rank with nvidia-smi in the same container",
    )


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
        if not named and _of_one_host(members, {gpu.index for gpu in states}):
            marks.add(ONE_HOST)  # and so has no other
        owner = next((owners[mark] for mark in marks if mark in owners), (joined, file))
        owners.update(dict.fromkeys(marks, owner))
        group, key = owner
        group[key] += states
    one_file = len(joined) == 1 and not named
    places: list[tuple[str, str | None, list[Gpu]]]
    places = [(names[key], names[key], states) for key, states in named.items()]
    for file, states in joined.items():
        pids = {process.pid for gpu in states for process in gpu.processes or ()}
        host = _host_of(m for m in members if m.pid in pids)
        host = host or (_host_of(members) if one_file else None)
        places.append((host or file, host, states))
    return places


def _host_of(members: Iterable[Member]) -> str | None:
    """Return the one host of these ranks, as far as theirs are known."""
    hosts = {member.host for member in members} - {None}
    return hosts.pop() if len(hosts) == 1 else None


ONE_HOST = "the host of all ranks"


def _of_one_host(members: Sequence[Member], gpus: Collection[int | None]) -> bool:
    """Return whether these GPUs are as many as the ranks, which are of one host as far as known."""
    ranks = {member.rank for member in members}
    hosts = {member.host for member in members} - {None}
    return len(hosts) < 2 and len(ranks) > 1 and ranks == set(gpus) == set(range(len(ranks)))


def _marks(states: Iterable[Gpu]) -> set[object]:
    """Return what only facts about one host have in common: UUIDs, a pid on a certain GPU."""
    marks: set[object] = set()
    for gpu in states:
        if gpu.uuid is not None:
            marks.add(gpu.uuid)
        if gpu.bus is not None or gpu.index is not None:
            marks |= {(process.pid, gpu.bus or gpu.index) for process in gpu.processes or ()}
    return marks


def _by_device(states: Sequence[Gpu]) -> list[list[Gpu]]:
    """Sort the states of one host by device, in the order of the devices' numbers."""
    devices: list[Gpu] = []  # all that names each
    device_of: dict[tuple[object, ...], int] = {}  # by what a state names; a monitor has many alike
    own: dict[int, list[int]] = defaultdict(list)
    # Those that tell most of which device they are about come first.
    for number, gpu in sorted(enumerate(states), key=lambda each: _names(each[1]).count(None)):
        key = (gpu.uuid, gpu.bus, gpu.index)
        if key not in device_of:
            fitting = (n for n, known in enumerate(devices) if _is_of(known, gpu))
            at = device_of[key] = next(fitting, len(devices))
            if at == len(devices):
                devices.append(gpu)
            known = devices[at]
            uuid, bus, index = (
                new if old is None else old
                for old, new in zip(_names(known), _names(gpu), strict=True)
            )
            slices = known.slices or gpu.slices
            devices[at] = replace(known, uuid=uuid, bus=bus, index=index, slices=slices)
        own[device_of[key]].append(number)
    in_order = sorted(
        own, key=lambda n: (devices[n].index is None, devices[n].index or 0, devices[n].bus or "")
    )
    return [[states[number] for number in sorted(own[n])] for n in in_order]


def _names(gpu: Gpu) -> tuple[str | None, str | None, int | None]:
    """Return what names a GPU, surest first; the UUID of a part of it is none of its own."""
    is_slice = gpu.uuid is not None and gpu.uuid.startswith("MIG-")
    return (None if is_slice else gpu.uuid, gpu.bus, gpu.index)


def _is_of(known: Gpu, gpu: Gpu) -> bool:
    """Return whether a state is of this device, by the surest name that both have."""
    if gpu.uuid is not None and gpu.uuid in {part.uuid for part in known.slices}:
        return True
    names = zip(_names(known), _names(gpu), strict=True)
    return next((a == b for a, b in names if a is not None and b is not None), False)
