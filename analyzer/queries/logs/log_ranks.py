"""Which rank lines of a log speak of, where it is not the one that prints them."""

import re
import signal
from collections import defaultdict
from collections.abc import Iterable, Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import (
    CRASHES,
    MAX_RANKS,
    GpuAddress,
    LogLine,
    OwnAddress,
    Trust,
    Who,
    same_host,
    whole,
)
from whyhang.analyzer.queries.machines.cluster import ranks_on
from whyhang.analyzer.rank_state.from_logs.ends import FEW, ended_before_the_rest, ends_of, who_says

MAX_DIGITS = 8  # of a rank, and not only digits in a line that lies
_ADDRESS = re.compile(r"([0-9a-f]{4}):([0-9a-f]{2}):([0-9a-f]{2})(?:\.\d)?$", re.IGNORECASE)


def using_gpu(case: Case, line: LogLine) -> tuple[Who, ...]:
    """Return the ranks on the GPU whose address a line names, where its pid names none of them.

    Hosts of one make have the same addresses, so a line that names no host says nothing in a
    job of several.
    """
    bus = _ADDRESS.search(line.fields.get("pci", ""))
    pid = line.fields.get("pid", "")
    named = case.job.member_of(Who(pid=int(pid), host=line.who.host)) if pid else None
    if bus is None or named is not None:
        return ()
    address = ":".join(bus.groups()).lower()
    devices = [
        device
        for device in case.job.gpus.devices
        if device.now("bus") == address and same_host(device.host, line.who.host)
    ]
    numbers = {number for device in devices for number in device.members}
    at_address = (f for f in case.job.of(GpuAddress) if f.bus[-10:].lower() == address)
    using = (case.job.member_of(fact.who) for fact in at_address)
    numbers |= {m.id for m in using if m is not None and same_host(m.host, line.who.host)}
    members = [case.member(number) for number in sorted(numbers)]
    if line.who.host is None and len({member.host for member in members}) > 1:
        return ()
    return tuple(
        Who(rank=member.rank, pid=member.pid, host=member.host)
        for member in members
        if member.rank is not None or member.pid is not None
    )


def whose_end(case: Case, lines: Iterable[LogLine]) -> list[Who]:
    """Return the ranks whose end these lines report: one, or some that crashed or were killed.

    Several exit codes, or the killing of all, may be what the end of one has brought, unless a few
    ended so before all others were terminated; what crashes most of them is not theirs, unless
    all others are known to have ended in another way. Lines that report no rank's end are of the
    one that was killed, if only one was, and they tell of no other host than its own.
    """
    lines = tuple(lines)
    places = {(line.source.file, line.source.line) for line in lines}
    ended = {
        exit_.who.rank: exit_
        for exit_ in case.job.exits
        if exit_.who.rank is not None and (exit_.source.file, exit_.source.line) in places
    }
    own = {rank for rank, end in ends_of(case.job).items() if end.own}
    if any(line.count > 1 for line in lines):  # of more lines alike not all are kept
        files = {file for file, _ in places}
        more = (row for row in case.job.exits if row.source.file in files and row.who.rank in own)
        ended |= {row.who.rank: row for row in more if row.who.rank is not None}
    ended = {rank: exit_ for rank, exit_ in ended.items() if rank in own} or ended
    if not ended:
        killed = [
            row.who
            for row in case.job.exits
            if row.signal == signal.SIGKILL and row.who.rank is not None
            if row.who.trust > Trust.INFERRED
            and any(same_host(line.fields.get("node"), row.who.host) for line in lines)
        ]
        return killed if len({who.rank for who in killed}) == 1 else []
    signals = {exit_.signal for exit_ in ended.values()}
    ranks_of_job = case.job.world_size or max(ended, default=0) + 1  # at least
    some_killed = signals == {signal.SIGKILL} and len(ended) < ranks_of_job
    others_end = {exit_.who.rank for exit_ in case.job.exits} - {None, *ended}
    few = 2 * len(ended) <= max(ranks_of_job, 2 * FEW)
    others_did_not = bool(others_end) and len(ended) + len(others_end) == ranks_of_job
    some_crashed = signals <= CRASHES and (few or others_did_not)
    known = len(ended) == 1 or some_crashed or some_killed
    known = known or ended_before_the_rest(case.job, ended)
    known = known and not any(exit_.killed_with_others for exit_ in ended.values())
    return [exit_.who for exit_ in ended.values()] if known else []


def peers_of(case: Case, lines: Sequence[LogLine]) -> list[Who]:
    """Return the rank with which the calls were in which these lines were raised, if it is one.

    Of two ranks it is the other one.
    """
    speakers = {(line.source.file, line.who.rank) for line in lines}
    peers = {
        call.peer
        for track in case.job.tracks
        if track.kind == "stack" and (track.source.file, track.who.rank) in speakers
        for call in track.calls
    }
    own = {rank for _, rank in speakers}
    if case.job.world_size == 2 and len(own) == 1 and None not in own:
        peers = {rank for rank in (0, 1) if rank not in own}
    peers = peers - {None} or _at_addresses(case, lines)
    return [Who(rank=peer) for peer in peers if peer is not None and len(peers) == 1]


_PEER = re.compile(r"\bpeer (?P<host>\d{1,3}(?:\.\d{1,3}){3})<")


def on_host_of_peer(case: Case, lines: Sequence[LogLine]) -> list[Who]:
    """Return the ranks of the one host whose address several other hosts name as their peer's.

    What one host alone says may be the fault of its own card.
    """
    named = {(match["host"], line.who.host) for line in lines if (match := _PEER.search(line.text))}
    addresses, speakers = ({each[at] for each in named} for at in (0, 1))
    if len(addresses) != 1 or len(speakers - {None}) < 2:
        return []
    own = (fact for fact in case.job.of(OwnAddress) if fact.address.host in addresses)
    hosts = {fact.who.host for fact in own if fact.who.host} - speakers
    return [Who(rank=rank) for rank in ranks_on(case, hosts)] if len(hosts) == 1 else []


_PEER_ADDRESS = re.compile(r"\[(?P<host>\d{1,3}(?:\.\d{1,3}){3})\](?::(?P<port>\d{1,5}))?")


def _at_addresses(case: Case, lines: Sequence[LogLine]) -> set[int | None]:
    """Return the ranks that have said to be at the addresses in these lines, which is not theirs.

    Where several ranks share an address, the port has to be theirs as well.
    """
    owners: dict[str, set[tuple[int | None, int | None]]] = defaultdict(set)
    for fact in case.job.of(OwnAddress):
        if fact.who.rank is not None:
            owners[fact.address.host].add((fact.who.rank, fact.address.port))
    ranks: set[int | None] = set()
    for line in lines:
        for match in _PEER_ADDRESS.finditer(line.text):
            there = owners.get(match["host"], set())
            if len({rank for rank, _ in there}) > 1:
                there = {one for one in there if match["port"] and one[1] == int(match["port"])}
            ranks |= {rank for rank, _ in there}
    return ranks - {line.who.rank for line in lines}


_CAME = re.compile(r"wait timeout after \d+ms")
"""What a rank says that has reached the store, and waits there for the others."""


def ranks_of_others(case: Case, lines: Iterable[LogLine]) -> Iterable[int]:
    """Return all ranks but those that say so (group ``member``), or but 0 where it counts itself.

    Where it counts others, too, and as many are known to have come, all but those. Nobody, where
    there are more lines than numbers (two have one number, or lines were not kept), or the file is
    one rank's own.
    """
    lines = tuple(lines)
    counts = {(line.fields.get("joined"), line.fields.get("world", "")) for line in lines}
    joined, world = next(iter(counts))
    size = whole(world)
    if len(counts) > 1 or size is None or size > MAX_RANKS:
        return ()
    if joined is not None:
        known = who_says(case.job, lambda line: bool(_CAME.search(line.text))) | {
            line.who.rank for line in lines
        }
        known = {0} if joined == "1" else known
        all_known = None not in known and joined == str(len(known))
        return sorted(set(range(size)) - known) if all_known else ()
    members = {line.fields.get("member", "") for line in lines}
    own = any(line.who.trust is Trust.FILE_NAME for line in lines)
    twice = sum(line.count for line in lines) > len(members)
    if own or twice or len({line.source.file for line in lines}) > 1:
        return ()
    return sorted(set(range(size)).difference(map(whole, members)))


def all_came(lines: Iterable[LogLine]) -> bool:
    """Return whether each rank of as many as the lines tell says so itself (group ``member``)."""
    came = {(line.fields.get("world", ""), line.fields.get("member", "")) for line in lines}
    worlds = {world for world, _ in came}
    size = whole(worlds.pop()) if len(worlds) == 1 else None
    if size is None or size > MAX_RANKS:
        return False
    return {member for _, member in came}.issuperset(map(str, range(size)))


def names_root(lines: Iterable[LogLine]) -> bool:
    """Return whether several ranks failed at one target, and none of them was rank 0 itself.

    Where lines tell the number of the speaker within its group (``member``), one is enough: unless
    it is not its rank, or two have the same, the group is that of all ranks, or begins with rank 0.
    """
    lines = tuple(lines)
    numbers = [line.fields["member"] for line in lines if "member" in line.fields]
    if numbers:
        own = all(line.who.rank is None or str(line.who.rank) in numbers for line in lines)
        alone = len(set(numbers)) == sum(line.count for line in lines)
        return own and alone and "0" not in numbers
    targets = {(line.fields.get("peer"), line.fields.get("port")) for line in lines}
    speakers = {(line.who.rank, line.who.host, line.who.pid) for line in lines}
    is_root = any(line.who.rank == 0 for line in lines)
    return len(targets) == 1 and len(speakers) > 1 and not is_root


def ranks_in(text: str) -> tuple[int, ...]:
    """Read a list of ranks as logs write it: "1, 2, 5" or "4"."""
    numbers = (whole(word, MAX_DIGITS) for word in text.replace(",", " ").split())
    return tuple(number for number in numbers if number is not None)
