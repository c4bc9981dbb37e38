"""Text in which tools of hosts and clusters have printed something, alone or among other lines.

One pass over the lines of each host; where one of the known beginnings stands, its parser reads on
to the end of that print.
"""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from whyhang.analyzer.facts import Fact, Statement, replace
from whyhang.analyzer.reading import Document
from whyhang.collectors import limits
from whyhang.collectors.cluster import (
    counters,
    hostfiles,
    pods,
    ports,
    processes,
    room,
    scripts,
    settings,
    slurm,
)
from whyhang.collectors.files.marks import Marks
from whyhang.collectors.gpu.lines import Line, Lines, by_host

MAX_BYTES = 1 << 20
MAX_OWNED = 128 << 10
_BESIDE = (b"Namespace:", b"kind: ", b"#SBATCH", b"NCCL_", b"GLOO_", b"MASTER_", b"WORLD_SIZE")
_PROMPT = limits.compile(
    r"[^$#]{0,200}[$#] |Filesystem |State |Proto |Active |COMMAND |[=#*>-]{2}|.{1,80}:\s*$"
)
Parser: TypeAlias = Callable[[Document, Lines], "list[Statement]"]
"""Reads the print that begins with the next line; nothing is read if it returns nothing."""

_PARSERS: dict[bytes, Parser] = {
    **dict.fromkeys((b"CA '", b"nfiniband device '", b"hca_id:"), ports.adapter),
    **dict.fromkeys((b" physical_state ", b" mtu ", b"Link detected:"), ports.interface),
    **dict.fromkeys((b"/16", b"/24", b"/30", b"hostname -", b" UP ", b" DOWN "), ports.addresses),
    **dict.fromkeys((b"# Port ", b"NIC statistics:", b"counters/", b" local_ack_"), counters.parse),
    **dict.fromkeys((b"JobID", b"JOBID", b"NODELIST"), slurm.table),
    **dict.fromkeys((b"JobId=", b"NodeName="), slurm.record),
    **dict.fromkeys((b"READY ", b"ROLES "), pods.table),
    **dict.fromkeys((b"PID ", b" PID"), processes.table),
    b" slots=": hostfiles.hostfile,
    b"% /": room.room,
    b"LISTEN": room.listener,
    b"Namespace:": pods.described,
    b"kind: ": pods.spec,
    b"#SBATCH": scripts.script,
    b"ax locked memory ": settings.limit,
    **dict.fromkeys((b"NCCL_", b"GLOO_", b"MASTER_", b"WORLD_SIZE="), settings.variable),
}
_MARKS = Marks(*_PARSERS)


class ClusterReader:
    """Reads what ibstat, ip, ethtool, perfquery, sacct, scontrol, kubectl and their like print."""

    name = "output of network and cluster tools"

    def sniff(self, document: Document) -> bool:
        """Return whether it holds a mark of such a print."""
        return bool(_MARKS.within(document.head))

    def owns(self, document: Document) -> bool:
        """Return whether it is short and holds nothing but such prints and prompts.

        Descriptions of pods, scripts and environments are for the reader of logs, too.
        """
        data = document.head
        if not 0 < document.size == len(data) <= MAX_OWNED or any(mark in data for mark in _BESIDE):
            return False
        text, _ = limits.bounded(document, data.decode("utf-8", "replace"))
        prints = [
            one for lines in by_host(document, text) for one in _prints(document, lines, data)
        ]
        return any(isinstance(one, list) for one in prints) and all(
            isinstance(one, list) or _PROMPT.match(one.text) for one in prints
        )

    def read(self, document: Document) -> Iterator[Fact]:
        """Yield what each print says."""
        with document.open() as stream:
            data = stream.read(MAX_BYTES)
        text, gaps = limits.bounded(document, data.decode("utf-8", "replace"))
        yield from gaps
        for lines in by_host(document, text):
            for facts in _prints(document, lines, data):
                for fact in facts if isinstance(facts, list) else ():
                    host = fact.who.host or lines.host
                    yield replace(fact, who=replace(fact.who, host=host))


def _prints(document: Document, lines: Lines, data: bytes) -> Iterator[list[Statement] | Line]:
    """Yield what each print says, and each line between prints that is not empty."""
    parsers = tuple(dict.fromkeys(_PARSERS[mark] for mark in _MARKS.within(data)))
    for line in lines:
        if line.text.strip():
            yield next(filter(None, (parse(document, lines) for parse in parsers)), None) or line
