"""Which process is which rank, in the words of programs that start or place ranks.

Their other lines carry a pid or a place in a group only. vLLM (``parallel_state.py``: "rank 3 in
world size 4 is assigned as DP rank 0, …"), Ray Train (its table of workers, and ``Worker(…)`` in
errors). Sizes of groups are read from the arguments that vLLM and SGLang print at the start.

Where a command or a script puts its ranks tells as much: which node a file is of, how slots are
filled.
"""

import re
from collections.abc import Iterator

from whyhang.analyzer.facts import (
    MAX_RANKS,
    NOBODY,
    Fact,
    GroupSize,
    LaunchPlan,
    ProcessRank,
    Speaker,
    Statement,
    Trust,
    Who,
    WorldSize,
    counted,
    replace,
)
from whyhang.collectors.logs.engine.matching import Match
from whyhang.collectors.logs.lines.line_reader import FoundLine, LineReader, LogFile, wants

MAX_RANKS_OF_FILE = 10_000
MAX_OF_POD = 120  # lines between a pod's name and its environment
_POD = re.compile(r"(?:Name:\s+|.*\bkubectl .*describe pods?[/ ])(?P<pod>[a-z0-9][\w.-]*)\s*$")

_OF_MESSAGE = re.compile(r"error occurred in MPI_\w*(?:[Rr]ecv|[Uu]npack|[Ww]ait|[Tt]est)")

_RANK_AND_PID = re.compile(r"(?i)\brank[ _]?(\d{1,6}) ?[=:] ?(?:pid )?(\d{2,8})\b")

_AXES = {"TP": "t(?:ensor|p)", "PP": "p(?:ipeline|p)", "DP": "d(?:ata|p)"}
_SIZES = {
    axis: re.compile(
        rf"(?:\b{name}(?:_parallel)?_size['\"]?[=:] ?|--{name}(?:-parallel)?(?:-size)?[= ])"
        r"(\d{1,5})\b"
    )
    for axis, name in _AXES.items()
}
"""As vLLM and SGLang print their arguments, and as commands have them."""


class ProcessRankReader(LineReader):
    """Collects ranks of processes, and resolves those of the other readers' lines."""

    def __init__(self, file: LogFile) -> None:
        super().__init__(file)
        self._facts: list[Statement] = []

    @wants(r"\brank (?P<rank>\d{1,6}) in world size (?P<size>\d{1,6}) is assigned as ")
    def on_assigned(self, line: FoundLine, match: Match) -> None:
        """Note the rank of who speaks, by its pid and its place in groups."""
        self._note(line, line.who, int(match["rank"]))
        self._facts.append(WorldSize(size=int(match["size"]), who=NOBODY, source=line.source))

    @wants(
        r"\bip=(?P<host>[\w.:]+), pid=(?P<pid>\d{1,10})\) world_rank=(?P<rank>\d{1,6})\b",
        r"node_ip='(?P<host>[\w.:]+)', pid=(?P<pid>\d{1,10})\b.{0,300}"
        r"\bworld_rank=(?P<rank>\d{1,6})\b",
        # a row of Open MPI's orte-ps, which names a process by its job and rank
        r"\|\s*\[\[\d+,\d+\],(?P<rank>\d{1,6})\]\s*\|(?:\s*\d+\s*\|)?"
        r"\s*(?P<pid>\d{2,8})\s*\|\s*(?P<host>[\w.-]+)\s*\|",
    )
    def on_listed(self, line: FoundLine, match: Match) -> None:
        """Note the rank of a process that Ray Train or ``orte-ps`` names."""
        who = Who(pid=int(match["pid"]), host=match["host"])
        self._note(line, who, int(match["rank"]))

    @wants(
        r"^\W{0,4}(?:(?i:pid)[ =:]{0,2})?(?P<pid>\d{2,8})[: \t]{1,4}"
        r"(?:OMPI_COMM_WORLD_|MV2_COMM_WORLD_|PMIX?_|PALS_|HOROVOD_|SLURM_)?(?P<local>LOCAL_)?"
        r"(?:RANK(?:ID)?|PROCID)=(?P<rank>\d{1,6})\s*$"
    )
    def on_environment(self, line: FoundLine, match: Match) -> None:
        """Note what somebody read in the environment of a process: "4711 RANK=3"."""
        if match["local"] is None or self._file.one_host is not False:
            self._note(line, Who(pid=int(match["pid"])), int(match["rank"]))

    @wants(r"(?i)\bpids?\b.{0,40}?\brank[ _]?\d{1,6} ?[=:] ?(?:pid )?\d{2,8}\b(?=.*\brank[ _]?\d)")
    def on_pids_in_a_row(self, line: FoundLine, match: Match) -> None:
        """Note the processes of all ranks in one line: "pids: rank0=6600 rank1=6601"."""
        for rank, pid in _RANK_AND_PID.findall(line.text[match.start() :]):
            self._note(line, Who(pid=int(pid), host=line.who.host), int(rank))

    @wants(r"\*\*\* reported by process \[\d+,(?P<rank>\d{1,6})\]")
    def on_reporter(self, line: FoundLine, match: Match) -> None:
        """Note the rank that Open MPI names below an error; the header has its process.

        Not of a collective: which of its ranks has the wrong part is not known.
        """
        of_message = any(_OF_MESSAGE.search(above) for above in line.preceding(1))
        if of_message and line.who.pid is not None:
            self._note(line, line.who, int(match["rank"]))

    @wants(r"\(PID:(?P<pid>\d{1,10}), Device:(?P<device>\d{1,5}), RankID:(?P<rank>-?\d{1,6})\)")
    def on_npu(self, line: FoundLine, match: Match) -> None:
        """Note the rank in torch_npu's header: that of HCCL, and without one the device's."""
        rank = int(match["rank"])
        if rank >= 0 or self._file.one_host is not False:
            own = match["rank"] if rank >= 0 else match["device"]
            self._note(line, Who(pid=int(match["pid"])), int(own))

    @wants(r"^\s{2,12}RANK:\s+(?P<rank>\d{1,6})\s*$")
    def on_pod(self, line: FoundLine, match: Match) -> None:
        """Note the rank of a pod, in the environment that ``kubectl describe`` shows."""
        named = (_POD.match(before) for before in line.preceding(MAX_OF_POD))
        pod = next((match["pod"] for match in named if match is not None), None)
        if pod is not None:
            self._note(line, Who(host=pod, label=pod), int(match["rank"]))

    @wants(
        r"\btensor_parallel_size[=:]",
        r"\btp_size['\"]?[=:]",
        r"--(?:tp|tensor-parallel|pp|pipeline-parallel)(?:-size)?[= ]\d",
    )
    def on_sizes(self, line: FoundLine, match: Match) -> None:
        """Note the sizes of the groups along each axis, as far as arguments have them."""
        for axis, name in _SIZES.items():
            if size := name.search(line.text):
                fact = GroupSize(axis=axis, size=int(size[1]), who=NOBODY, source=line.source)
                self._facts.append(fact)

    def _note(self, line: FoundLine, who: Who, rank: int) -> None:
        if len(self._facts) < MAX_RANKS_OF_FILE:
            who = replace(who, rank=None, trust=Trust.CONTENT)
            self._facts.append(ProcessRank(rank=rank, who=who, source=line.source))
            if who.pid is not None:
                self._file.pids.setdefault((who.host, who.pid), rank)

    def facts(self) -> Iterator[Fact]:
        """Yield each statement once, and who prints into the file."""
        yield from dict.fromkeys(self._facts)
        source = self._file.document.source(1)
        for who in self._file.voice.speakers:
            yield Speaker(who=self._file.resolve(who), source=source)


_NODE = r"(?i)\bnode[_ -]?rank(?:[=:]| is)? ?(?P<node>\d{1,5})\b"
_EACH = r"(?:nproc|gpus|procs|ranks|tasks)(?:[_ -]?per[_ -]?node)?(?:[=:] ?| )(?P<size>\d{1,3})\b"
LARGEST = 64 << 10  # bytes of a machinefile
_SLOTS = re.compile(rb"(?:[A-Za-z][\w.-]{0,100}:\d{1,3}\s+){2,}")


class PlacementReader(LineReader):
    """Numbers the local ranks of a file that says which node it is of."""

    def __init__(self, file: LogFile) -> None:
        super().__init__(file)
        self._nodes: set[int] = set()
        self._each: set[int] = set()
        self._scattered: LaunchPlan | None = None

    @wants(_NODE)
    def on_node(self, line: FoundLine, match: Match) -> None:
        """Note which node of the job the file is of."""
        self._nodes.add(int(match["node"]))

    @wants(rf"{_NODE}.{{0,200}}?\b{_EACH}", rf"(?i)\b{_EACH}.{{0,200}}?\bnode[_ -]?rank")
    def on_each(self, line: FoundLine, match: Match) -> None:
        """Note how many ranks a node has, by a line that names the node."""
        self._each.add(int(match["size"]))

    @wants(
        r"--?(?:map|rank)-by[ =](?:node|ppr|seq)|--?by-?node\b|--?rankfile\b",
        r"\bmpi(?:run|exec).{0,200} -(?:n?ppn|n?per-?node)\b",
    )
    def on_order(self, line: FoundLine, match: Match) -> None:
        """Note that a command fills the slots of hosts in an order of its own."""
        self._scattered = self._scattered or LaunchPlan(
            who=NOBODY, source=line.source, quote=line.text, ranks=None, placed=None
        )

    def facts(self) -> Iterator[Fact]:
        """Give the local ranks of the file their numbers; yield what is told of the order."""
        if len(self._nodes) == len(self._each) == 1 and not self._file.ranks:
            (node,), (each,) = self._nodes, self._each
            self._file.ranks.update({local: node * each + local for local in range(each)})
        yield from self._machinefile()
        if self._scattered is not None:
            yield self._scattered

    def _machinefile(self) -> Iterator[LaunchPlan]:
        """Read a machinefile of MPICH, which holds nothing but hosts and their slots: "n01:2"."""
        document = self._file.document
        if document.size > LARGEST or _SLOTS.fullmatch(document.head) is None:
            return
        rows = [row.rpartition(":") for row in document.head.decode().split()]
        placed = [host for host, _, slots in rows for _ in range(int(slots))]
        yield LaunchPlan(
            who=NOBODY,
            source=document.source(1),
            quote=f"a machinefile with {counted(len(placed), 'slot')} ({rows[0][0]}, …)",
            ranks=len(placed),
            slots=len(placed),
            nodes=len(rows),
            placed=tuple(placed[:MAX_RANKS]),
        )
