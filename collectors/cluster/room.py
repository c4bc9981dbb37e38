"""Room in file systems and ports that are listened on: df, ss, netstat, lsof."""

from whyhang.analyzer.facts import NOBODY, Capacity, OpenPort, Statement
from whyhang.collectors import limits
from whyhang.collectors.prints import Lines

_DF = limits.compile(
    r"\S+ (?P<size>[\d.]+)(?P<unit>[KMGTP]?)i?B? \S+ \S+ (?P<used>\d{1,3})% (?P<mount>/\S*)$"
)
_LISTENS = limits.compile(
    r"(?:tcp6? \d+ \d+ |(?:tcp )?LISTEN \d+ \d+ )(?P<address>\S+?):(?P<port>\d{1,5}) \S+"
    r"|\S+ \d+ .*\bTCP (?P<address>\S+?):(?P<port>\d{1,5}) \(LISTEN\)"
)
_UNITS = {"": 1 << 10, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}


def room(lines: Lines) -> list[Statement]:
    """Read one row of df: blocks of a kilobyte, or with units."""
    match = _DF.match(lines.next.words)
    if match is None:
        return []
    line = lines.take()
    return [
        Capacity(
            who=NOBODY,
            source=line.source,
            quote=line.words,
            mount=match["mount"],
            size=float(match["size"]) * _UNITS[match["unit"]],
            free=max(0, 100 - int(match["used"])) / 100,
        )
    ]


def listener(lines: Lines) -> list[Statement]:
    """Read one row of ss, netstat or lsof about a port that is listened on."""
    match = _LISTENS.match(lines.next.words) if "LISTEN" in lines.next.text else None
    if match is None:
        return []
    line = lines.take()
    return [
        OpenPort(
            who=NOBODY,
            source=line.source,
            quote=line.words,
            address=match["address"].strip("[]").partition("%")[0],
            port=int(match["port"]),
        )
    ]
