"""Where a command or a script puts its ranks: which node a file is of, and how slots are filled."""

import re
from collections.abc import Iterator

from whyhang.analyzer.facts import MAX_RANKS, NOBODY, Fact, LaunchPlan, counted
from whyhang.collectors.logs.engine.matching import Match
from whyhang.collectors.logs.lines.line_reader import FoundLine, LineReader, LogFile, wants

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
