"""Hostfiles of mpirun and DeepSpeed: how many ranks there is room for on which hosts."""

from whyhang.analyzer.facts import MAX_RANKS, NOBODY, LaunchPlan, Statement, counted
from whyhang.collectors import limits
from whyhang.collectors.prints import Lines, PrintedLine

_LINE = limits.compile(
    r"(?P<host>[A-Za-z0-9][\w.-]{0,252})[ \t]++slots=(?P<slots>\d{1,5})"
    r"(?:[ \t]++max[_-]slots=\d{1,5})?[ \t]*$"
)
MAX_HOSTS = 10_000
SHOWN = 3


def hostfile(lines: Lines) -> list[Statement]:
    """Read the lines of hosts, with comments between them."""
    if _LINE.match(lines.next.text.strip()) is None:
        return []
    first = lines.next
    hosts: list[tuple[PrintedLine, int]] = []
    placed: list[str] = []
    for line in lines:
        text = line.text.strip()
        match = _LINE.match(text)
        if match is None and text and not text.startswith("#"):
            break
        if match is not None and len(hosts) < MAX_HOSTS:
            hosts.append((line, int(match["slots"])))
            placed += [match["host"]] * min(int(match["slots"]), MAX_RANKS - len(placed))
    slots = sum(count for _, count in hosts)
    shown = ", ".join(line.words for line, _ in hosts[:SHOWN])
    more = ", …" if len(hosts) > SHOWN else ""
    return [
        LaunchPlan(
            who=NOBODY,
            source=first.source,
            quote=f"a hostfile with {counted(slots, 'slot')} ({shown}{more})",
            ranks=slots,
            slots=slots,
            nodes=len(hosts),
            placed=tuple(placed),
        )
    ]
