"""Lines in which a process says which rank it is, and where: its pid, host or address.

Programs print them in words of their own ("rank 5/8 listening on 10.0.0.7:4005", "pid=812 RANK=3",
"host n03 rank 8 of 16"). One counts only if several ranks print the same statement, or the one rank
whose the file is: what is said of another rank is no introduction.

The header of NCCL's lines ("host:pid:tid [3]") tells which GPU a process uses. The number is CUDA's
within the process. Where each process sees all GPUs of its host it is what launchers call the local
rank; where each sees one, it is 0 everywhere and tells nothing. A line of a channel between
processes of one host tells the rank of who speaks as well, in its communicator.
"""

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from whyhang.analyzer.facts import (
    MAX_RANKS,
    Address,
    NcclDevice,
    OwnAddress,
    ProcessRank,
    Record,
    Source,
    Trust,
    Who,
    replace,
)
from whyhang.collectors import tables
from whyhang.collectors.logs.lines.line_reader import LogFile
from whyhang.collectors.logs.text.line import Line, clean
from whyhang.collectors.logs.text.logger_header import reduce
from whyhang.collectors.logs.text.own_rank import FORMS

READ = 32 << 10  # bytes of the beginning of a file
MOST_LINES = 600  # that speak of ranks
LONGEST = 300  # characters of a line


class _Words(Record):
    of_ranks: re.Pattern[bytes]
    rank: re.Pattern[str]
    placed: re.Pattern[str]
    pid: re.Pattern[str]
    host: re.Pattern[str]
    address: re.Pattern[str]
    of_others: re.Pattern[str]
    master: re.Pattern[str]
    header: re.Pattern[bytes]


_WORDS = tables.patterns(__package__, "introductions.toml", _Words)

_LOOPBACK = ("127.", "0.0.0.0")  # noqa: S104 - an address in a log


class _Introduction(Record):
    rank: int
    who: Who
    address: Address | None
    source: Source
    own: bool  # in the file of this rank


def introductions(data: bytes, file: LogFile) -> Iterator[ProcessRank | OwnAddress]:
    """Yield the processes, hosts and addresses of ranks that the beginning of a file tells."""
    spoken: dict[str, list[_Introduction]] = defaultdict(list)
    for number, line in _lines(data, file):
        made = _introduction(line, file.document.source(number))
        if made is not None:
            host = made.who.host
            text = line.text.replace(host, "@") if host else line.text
            template, _ = reduce(_WORDS.master.sub("", text))
            spoken[template].append(made)
    for made in _believed(spoken.values()):
        if (made.who.pid, made.who.host, made.who.local_rank) != (None, None, None):
            yield ProcessRank(rank=made.rank, who=made.who, source=made.source)
        if made.address is not None:
            who = Who(rank=made.rank, trust=Trust.CONTENT, host=made.who.host)
            yield OwnAddress(who=who, address=made.address, source=made.source)
    if file.voice.index is FORMS.named_index:
        yield from _pods(file)


def _pods(file: LogFile) -> Iterator[ProcessRank]:
    """Yield the ranks that the names of pods in front of lines count."""
    seen: set[str] = set()
    for number, line in file.beginning(MOST_LINES):
        match = FORMS.named_index.match(line.text)
        if match is not None and (pod := f"{match['name']}-{match['rank']}") not in seen:
            seen.add(pod)
            who = Who(host=pod)
            yield ProcessRank(rank=int(match["rank"]), who=who, source=file.document.source(number))


def _lines(data: bytes, file: LogFile) -> Iterator[tuple[int, Line]]:
    head = data[:READ]
    for speaks in itertools.islice(_WORDS.of_ranks.finditer(head), MOST_LINES):
        if len(speaks[0]) <= LONGEST:
            line = file.take_apart(clean(speaks[0]))[0]
            yield head.count(b"\n", 0, speaks.start()) + 1, line


def _introduction(line: Line, source: Source) -> _Introduction | None:
    text = _WORDS.master.sub("", line.text)
    clause, _, rest = text.partition(",")
    if _WORDS.of_others.search(rest) and _WORDS.pid.search(clause):
        text = clause  # "pid 4711, neighbours 1 and 3": what follows is of others
    placed = _WORDS.placed.match(text)
    ranks = {int(match["rank"]) for match in _WORDS.rank.finditer(text)}
    ranks = ranks or ({int(placed["rank"])} if placed else set())
    if not ranks and line.who.rank is not None and line.who.trust <= Trust.PREFIX:
        ranks = {line.who.rank}
    if len(ranks) != 1 or _WORDS.of_others.search(text):
        return None
    (rank,) = ranks
    if rank >= MAX_RANKS or line.who.rank not in {None, rank}:
        return None
    pids = {int(match["pid"]) for match in _WORDS.pid.finditer(text)}
    pids = pids or ({line.who.pid} if line.who.pid is not None else set())
    hosts = {match["host"].rstrip(".-") for match in _WORDS.host.finditer(text)}
    hosts = hosts or ({placed["host"].rstrip(".-")} if placed else set())
    hosts = hosts or ({line.who.host} if line.who.host else set())
    places = {(m["host"], m["port"]) for m in _WORDS.address.finditer(text)}
    places = {place for place in places if not place[0].startswith(_LOOPBACK)}
    local = line.who.local_rank
    if max(len(pids), len(hosts), len(places), local is not None) != 1:
        return None
    pid = next(iter(pids), None)
    host = next(iter(hosts), None)
    address = next((Address(host=ip, port=int(p) if p else None) for ip, p in places), None)
    own = line.who.rank == rank and line.who.trust is Trust.FILE_NAME
    who = Who(pid=pid, host=host, local_rank=local)
    return _Introduction(rank=rank, who=who, address=address, source=source, own=own)


def _believed(statements: Iterable[list[_Introduction]]) -> Iterator[_Introduction]:
    """Yield the introductions that several ranks make alike, and that nothing contradicts."""
    by_rank: dict[int, list[_Introduction]] = defaultdict(list)
    for alike in statements:
        several = len({made.rank for made in alike}) > 1
        for made in alike:
            if several or made.own:
                by_rank[made.rank].append(made)
    joined = [one for made in by_rank.values() if (one := _joined(made)) is not None]
    places = Counter((one.who.host, one.who.pid) for one in joined)
    for one in joined:
        if one.who.pid is None or places[one.who.host, one.who.pid] < 2:
            yield one


def _joined(made: Sequence[_Introduction]) -> _Introduction | None:
    """Join what one rank says; nothing where it says two things, as of a start and another."""
    pids = {one.who.pid for one in made} - {None}
    hosts = {one.who.host for one in made} - {None}
    addresses = {one.address for one in made} - {None}
    locals_ = {one.who.local_rank for one in made} - {None}
    if max(len(pids), len(hosts), len(addresses), len(locals_)) > 1:
        return None
    who = Who(
        pid=next(iter(pids), None),
        host=next(iter(hosts), None),
        local_rank=next(iter(locals_), None),
    )
    return replace(made[0], who=who, address=next(iter(addresses), None))


READ_HEADERS = 64 << 10  # the same for headers of NCCL


def devices(data: bytes, file: LogFile) -> Iterator[NcclDevice | ProcessRank]:
    """Yield the device of each process, and its rank where a line of it tells that."""
    head = data[:READ_HEADERS]
    if b" NCCL " not in head:
        return
    seen: dict[tuple[bytes, bytes, bytes], tuple[int, bytes | None]] = {}
    for match in _WORDS.header.finditer(head):
        key = (match["host"], match["pid"], match["device"])
        if key not in seen or (seen[key][1] is None and match["rank"]):
            seen[key] = (match.start(), match["rank"])
    for (host, pid, device), (at, rank) in seen.items():
        who = Who(host=host.decode(), pid=int(pid))
        source = file.document.source(head.count(b"\n", 0, at) + 1)
        start = head.rfind(b"\n", 0, at) + 1
        speaker = file.take_apart(clean(head[start : head.find(b"\n", at)]))[0].who
        if rank is None and speaker.rank is not None and speaker.pid == who.pid:
            yield ProcessRank(rank=speaker.rank, who=who, source=source)  # by a label before it
        number = None if rank is None else int(rank)
        yield NcclDevice(device=int(device), rank=number, who=who, source=source)
