"""Counters of errors of network ports: perfquery, ethtool -S, rdma statistic, files of sysfs."""

import re

from whyhang.analyzer.facts import NOBODY, ErrorCounter, Statement
from whyhang.collectors import limits
from whyhang.collectors.prints import Lines, PrintedLine

_OF_ERRORS = limits.compile(
    r"symbol_?err|err(?:or)?s?(?:counter|_phy|_frames)?$|link_?(?:error_?recovery|down)|integrity"
    r"|overrun|discards?|retrans|_nak|nak_|timeout_err|out_of_sequence|seq_err|out_of_buffer"
    r"|crc_|cqe_err|_dropped|duplicate_request",
    re.IGNORECASE,
)
_PERFQUERY = limits.compile(r"# Port (?:extended )?counters: (?P<port>Lid \d+ port \d+)")
_DOTTED = limits.compile(r"(?P<name>[A-Z]\w+):\.*(?P<value>\d{1,19})$")
_ASKED = limits.compile(r".*\bethtool -S (?P<port>[\w.-]+)")
_ETHTOOL = limits.compile(r"(?P<name>[a-z][\w. ]*?): (?P<value>\d{1,19})$")
_RDMA = limits.compile(r"link (?P<port>[\w.-]+/\d+) (?P<rest>(?:[a-z]\w* \d{1,19} ?)+)$")
_SYSFS = limits.compile(
    r"(?:\S*/)?(?P<name>\w+)/ports/(?P<port>\d+)/(?:hw_)?counters/(?P<counter>\w+):(?P<value>\d{1,19})$"
)


def parse(lines: Lines) -> list[Statement]:
    """Read one print of counters; all errors of it, those at zero as well."""
    line = lines.next
    if match := _PERFQUERY.match(line.words):
        return _below(lines, match["port"], _DOTTED)
    if line.words == "NIC statistics:":
        asked = _ASKED.match(lines.above.words)
        return _below(lines, asked["port"] if asked else None, _ETHTOOL)
    if match := _RDMA.match(line.words):
        words = match["rest"].split()
        lines.take()
        pairs = zip(words[::2], words[1::2], strict=False)
        return [each for pair in pairs for each in _counter(line, match["port"], *pair)]
    if match := _SYSFS.match(line.words):
        port = f"{match['name']}/{match['port']}"
        if counted := _counter(line, port, match["counter"], match["value"]):
            lines.take()
        return counted
    return []


def _below(lines: Lines, port: str | None, shape: limits.Pattern[str]) -> list[Statement]:
    rows = lines.below(
        lambda line: (m := shape.match(line.words)) and (line, m["name"], m["value"])
    )
    return [each for line, name, value in rows for each in _counter(line, port, name, value)]


def _counter(line: PrintedLine, port: str | None, name: str, value: str) -> list[Statement]:
    """Return a counter where it is one of errors."""
    if not _OF_ERRORS.search(name):
        return []
    source, name = line.source, name.strip()
    return [ErrorCounter(who=NOBODY, source=source, port=port, name=name, value=int(value))]
