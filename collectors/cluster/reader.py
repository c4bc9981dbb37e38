"""Text in which tools of hosts and clusters have printed something, alone or among other lines."""

from collections.abc import Callable, Iterable, Iterator

from whyhang.analyzer.facts import Fact, Statement, replace
from whyhang.analyzer.reading import Document
from whyhang.collectors import limits
from whyhang.collectors.cluster import (
    counters,
    environment,
    hostfiles,
    pods,
    ports,
    processes,
    room,
    scripts,
    slurm,
)
from whyhang.collectors.files.marks import Marks
from whyhang.collectors.prints import Parser, PrintReader

_SHARED = (b"Namespace:", b"kind: ", b"#SBATCH", b"NCCL_", b"GLOO_", b"MASTER_", b"WORLD_SIZE")
"""Descriptions of pods, scripts and environments are for the reader of logs, too."""

_PROMPT = limits.compile(
    r"[^$#]{0,200}[$#] |Filesystem |State |Proto |Active |COMMAND |[=#*>-]{2}|.{1,80}:\s*$"
)
_PARSERS: dict[bytes, Parser[Statement]] = {
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
    b"ax locked memory ": environment.limit,
    **dict.fromkeys((b"NCCL_", b"GLOO_", b"MASTER_", b"WORLD_SIZE="), environment.variable),
}
_MARKS = Marks(*_PARSERS)


class ClusterReader(PrintReader[Statement]):
    """Reads what ibstat, ip, ethtool, perfquery, sacct, scontrol, kubectl and their like print."""

    name = "output of network and cluster tools"
    marks = Marks(*_PARSERS)
    max_bytes = 1 << 20
    beside = _PROMPT
    shared = _SHARED

    def parsers(self, data: bytes) -> Callable[[str], Iterable[Parser[Statement]]]:
        """Return the same for all lines: those whose marks stand in the text."""
        some = tuple(dict.fromkeys(_PARSERS[mark] for mark in self.marks.within(data)))
        return lambda _: some

    def facts(
        self, document: Document, printed: Iterable[tuple[str | None, Statement]]
    ) -> Iterator[Fact]:
        """Yield what each print says, of the host that it names or that it was taken on."""
        del document
        for host, fact in printed:
            yield replace(fact, who=replace(fact.who, host=fact.who.host or host))
