"""Which rank uses which GPU.

The pid on the GPU is trusted most (it may be of another namespace), then the PCI address in the
rank's own NCCL lines, then LOCAL_RANK with CUDA_VISIBLE_DEVICES; where two disagree the more
trusted wins, and it is said.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from whyhang.analyzer.facts import Gap, GpuAddress, replace, same_host, short_host
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


class Placement:
    """Puts members on devices."""

    def __init__(
        self, devices: Sequence[Device], members: Sequence[Member], addresses: Iterable[GpuAddress]
    ) -> None:
        self._devices = devices
        self._by_pid: dict[int, list[Device]] = defaultdict(list)
        self._by_host: dict[str | None, list[Device]] = defaultdict(list)
        for device in devices:
            self._by_host[None if device.host is None else short_host(device.host)].append(device)
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

    def place_by_number(self, members: Sequence[Member]) -> None:
        """Place each rank on the GPU with its number, where that is all that can be.

        The ranks, from 0 on and of one host as far as is known, are as many as the GPUs of the one
        host whose GPUs are known.
        """
        ranks = {member.rank: member for member in members}
        by_index = {device.now("index"): device for device in self._devices}
        hosts = {member.host for member in members} - {None}
        fits = len(ranks) > 1 and ranks.keys() == set(range(len(ranks))) == by_index.keys()
        if not fits or self._by_member or not self._one_place or len(hosts) > 1:
            return
        for rank, member in ranks.items():
            self._by_member[member.id] = by_index[rank].number
            self._how[member.id] = len(HOW) - 1

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
        devices = self._by_host.get(short_host(member.host), []) + self._by_host.get(None, [])
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
