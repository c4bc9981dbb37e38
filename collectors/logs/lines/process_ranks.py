"""Which process is which rank, in the words of programs that start or place ranks.

Their other lines carry a pid or a place in a group only. vLLM (``parallel_state.py``: "rank 3 in
world size 4 is assigned as DP rank 0, …"), Ray Train (its table of workers, and ``Worker(…)`` in
errors). Sizes of groups are read from the arguments that vLLM and SGLang print at the start.
"""

import re
from collections.abc import Iterator
from math import prod

from whyhang.analyzer.facts import (
    NOBODY,
    Fact,
    GroupSize,
    ProcessRank,
    Speaker,
    Statement,
    Trust,
    Who,
    WorldSize,
    replace,
)
from whyhang.collectors.logs.engine.matching import Match
from whyhang.collectors.logs.lines.line_reader import FoundLine, LineReader, LogFile, wants

MAX_RANKS_OF_FILE = 10_000
MAX_OF_POD = 120  # lines between a pod's name and its environment
_POD = re.compile(r"(?:Name:\s+|.*\bkubectl .*describe pods?[/ ])(?P<pod>[a-z0-9][\w.-]*)\s*$")

_SIZES = {
    axis: re.compile(rf"\b{name}(?:_parallel)?_size['\"]?[=:] ?(\d{{1,5}})\b")
    for axis, name in {"TP": "t(?:ensor|p)", "PP": "p(?:ipeline|p)", "DP": "d(?:ata|p)"}.items()
}


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
        r"\bip=(?P<ip>[\w.:]+), pid=(?P<pid>\d{1,10})\) world_rank=(?P<rank>\d{1,6})\b",
        r"node_ip='(?P<ip>[\w.:]+)', pid=(?P<pid>\d{1,10})\b.{0,300}"
        r"\bworld_rank=(?P<rank>\d{1,6})\b",
    )
    def on_worker(self, line: FoundLine, match: Match) -> None:
        """Note the rank of a worker that Ray Train names."""
        who = Who(pid=int(match["pid"]), host=match["ip"])
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

    @wants(r"^\s{2,12}RANK:\s+(?P<rank>\d{1,6})\s*$")
    def on_pod(self, line: FoundLine, match: Match) -> None:
        """Note the rank of a pod, in the environment that ``kubectl describe`` shows."""
        named = (_POD.match(before) for before in line.preceding(MAX_OF_POD))
        pod = next((match["pod"] for match in named if match is not None), None)
        if pod is not None:
            self._note(line, Who(host=pod, label=pod), int(match["rank"]))

    @wants(
        r"\|\s*\[\[\d+,\d+\],(?P<rank>\d{1,6})\]\s*\|(?:\s*\d+\s*\|)?"
        r"\s*(?P<pid>\d{2,8})\s*\|\s*(?P<host>[\w.-]+)\s*\|"
    )
    def on_table(self, line: FoundLine, match: Match) -> None:
        """Note a row of Open MPI's ``orte-ps``, which names a process by its job and rank."""
        who = Who(pid=int(match["pid"]), host=match["host"])
        self._note(line, who, int(match["rank"]))

    @wants(r"\btensor_parallel_size[=:]", r"\btp_size['\"]?[=:]")
    def on_sizes(self, line: FoundLine, match: Match) -> None:
        """Note the size of the one group that all ranks are in, where there is but one.

        Where they are in several, the group has no name.
        """
        matches = {axis: name.search(line.text) for axis, name in _SIZES.items()}
        sizes = {axis: int(size[1]) for axis, size in matches.items() if size is not None}
        wide = [axis for axis, size in sizes.items() if size > 1]
        if wide and sizes.keys() == _SIZES.keys():
            axis, size = wide[0] if len(wide) == 1 else "", prod(sizes.values())
            self._facts.append(GroupSize(axis=axis, size=size, who=NOBODY, source=line.source))

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
