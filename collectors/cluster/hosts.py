"""What a host says of itself: processes, room in file systems, open ports, variables, limits.

As ps, top, df, ss, netstat, lsof, env, exports in scripts, ulimit and /proc/PID/limits print it.
"""

import itertools
from collections.abc import Iterator

from whyhang.analyzer.facts import (
    NOBODY,
    Capacity,
    OpenPort,
    ProcessState,
    Statement,
    Trust,
    Variable,
    Who,
    replace,
)
from whyhang.collectors import limits
from whyhang.collectors.prints import Lines, PrintedLine

MAX_ROWS = 4000
_STATES = ("STAT", "S", "STATE")
_COMMANDS = ("COMMAND", "CMD", "ARGS")
_LETTERS = frozenset("RSDTtZXIW")
_LOCAL_RANK = limits.compile(r"--local[_-]rank[= ](?P<rank>\d{1,3})(?!\d)")
_RANK = limits.compile(r" --(?:global[_-])?rank[= ](?P<rank>\d{1,6})(?!\d)")
_DEFUNCT = "<defunct>"

_DF = limits.compile(
    r"\S+ (?P<size>[\d.]+)(?P<unit>[KMGTP]?)i?B? \S+ \S+ (?P<used>\d{1,3})% (?P<mount>/\S*)$"
)
_UNITS = {"": 1 << 10, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_LISTENS = limits.compile(
    r"(?:tcp6? \d+ \d+ |(?:tcp )?LISTEN \d+ \d+ )(?P<address>\S+?):(?P<port>\d{1,5}) \S+"
    r"|\S+ \d+ .*\bTCP (?P<address>\S+?):(?P<port>\d{1,5}) \(LISTEN\)"
)
_LIMIT = limits.compile(
    r"(?:max locked memory +\(kbytes, -l\) +(?P<value>\d+|unlimited)"
    r"|Max locked memory +(?P<value>\d+|unlimited) +\S+ +bytes)$"
)
_VARIABLE = limits.compile(
    r"(?:export |declare -x |ENV |- )?"
    r"(?P<name>(?:NCCL|GLOO|TORCH|MASTER|FI|UCX|OMPI_MCA)_[A-Z0-9_]+|WORLD_SIZE|NNODES|CUDA_VISIBLE_DEVICES)=(?P<value>[\"']?[^\s\"'$`]*[\"']?);?$"
)
_PAIR = limits.compile(r"(?P<name>[A-Z][A-Z0-9_]*)=(?P<value>[^\s\"'$`]*)$")
_OWN = limits.compile(r"(?:NCCL|GLOO|TORCH|MASTER|FI|UCX|OMPI_MCA)_|WORLD_SIZE$|NNODES$")


def processes(lines: Lines) -> Iterator[Statement]:
    """Read the rows below a header of ps or top that names at least the pid and the command."""
    names = lines.next.text.split()
    if "PID" in names and names[-1] in _COMMANDS:
        yield from lines.below(lambda line: _process(line, names), most=MAX_ROWS)


def _process(line: PrintedLine, names: list[str]) -> Statement | None:
    cells = line.text.split(maxsplit=len(names) - 1)
    if len(cells) == len(names) - 1 > 2:
        cells.append("")  # cut off
    cell = dict(zip(names, cells, strict=False))
    if len(cells) < len(names) or not cell["PID"].isdecimal() or len(cell["PID"]) > 8:
        return None
    command = cells[-1].strip()
    states = [cell[name] for name in _STATES if name in cell]
    state = states[0][:1] if states else "Z" if command.endswith(_DEFUNCT) else ""
    if state and state not in _LETTERS:
        return None
    rank, local = _RANK.search(command), _LOCAL_RANK.search(command)
    return ProcessState(
        who=Who(
            rank=int(rank["rank"]) if rank else None,
            trust=Trust.CONTENT if rank else Trust.NONE,
            pid=int(cell["PID"]),
            local_rank=int(local["rank"]) if local else None,
        ),
        source=line.source,
        state=state,
        wchan=cell.get("WCHAN", "").strip("-"),
        command=command,
        quote=line.words,
    )


def room(lines: Lines) -> Iterator[Statement]:
    """Read one row of df: blocks of a kilobyte, or with units."""
    if match := _DF.match(lines.next.words):
        line = lines.take()
        yield Capacity(
            who=NOBODY,
            source=line.source,
            quote=line.words,
            mount=match["mount"],
            size=float(match["size"]) * _UNITS[match["unit"]],
            free=max(0, 100 - int(match["used"])) / 100,
        )


def listener(lines: Lines) -> Iterator[Statement]:
    """Read one row of ss, netstat or lsof about a port that is listened on."""
    if "LISTEN" in lines.next.text and (match := _LISTENS.match(lines.next.words)):
        line, port = lines.take(), int(match["port"])
        address = match["address"].strip("[]").partition("%")[0]
        yield OpenPort(who=NOBODY, source=line.source, quote=line.words, address=address, port=port)


def limit(lines: Lines) -> Iterator[Statement]:
    """Read how much memory a process may lock, which RDMA needs, in KiB."""
    if match := _LIMIT.match(lines.next.words):
        line, value = lines.take(), match["value"]
        if line.words.endswith("bytes") and value.isdecimal():
            value = str(int(value) >> 10)
        yield Variable(who=lines.who, source=line.source, name="max locked memory", value=value)


def variable(lines: Lines) -> Iterator[Statement]:
    """Read variables: of the rank or host that their file, their line or the prompt above names."""
    line, who = lines.next, lines.who
    if match := _VARIABLE.match(line.words):
        values = {match["name"]: match["value"].strip("\"'")}
    else:
        words = reversed(line.words.split(" "))
        pairs = [*filter(None, itertools.takewhile(bool, map(_PAIR.match, words)))]
        values = {pair["name"]: pair["value"] for pair in reversed(pairs)}  # behind a header
        if len(pairs) < 2 or len(values) < len(pairs) or not any(map(_OWN.match, values)):
            return
        rank = values.get("RANK", "")
        if rank.isdecimal() and len(rank) < 7 and who.rank is None:
            who = replace(who, rank=int(rank), trust=Trust.CONTENT)
        values = {name: value for name, value in values.items() if _OWN.match(name)}
    lines.take()
    for name, value in values.items():
        yield Variable(who=who, source=line.source, name=name, value=value)
