"""What a log says of the job as a whole: its size, launcher, backend and versions."""

from collections import Counter
from collections.abc import Iterator

from whyhang.analyzer.facts import (
    NOBODY,
    Address,
    Fact,
    InitArguments,
    Record,
    Setting,
    SettingName,
    Source,
    WorldSize,
    unfold,
)
from whyhang.analyzer.job.launchers import PER_NODE
from whyhang.collectors import tables
from whyhang.collectors.logs.engine.matching import Match
from whyhang.collectors.logs.lines.line_reader import FoundLine, LineReader, LogFile, wants


class _Table(Record):
    sizes: tuple[str, ...]
    tasks: tuple[str, ...]
    meetings: tuple[str, ...]
    launchers: dict[str, tuple[str, ...]]
    backends: dict[str, tuple[str, ...]]
    versions: dict[SettingName, tuple[str, ...]]


_TABLE = tables.read("logs.lines", "job.toml", _Table)
_LAUNCHERS = tables.by_pattern(_TABLE.launchers)
_BACKENDS = tables.by_pattern(_TABLE.backends)
_VERSIONS = tables.by_pattern(_TABLE.versions)
_NODE_RANK = "--node_rank"
MAX_MEETINGS = 16


class JobReader(LineReader):
    """Collects what lines say of the whole job, each statement once."""

    def __init__(self, file: LogFile) -> None:
        super().__init__(file)
        self._first: dict[tuple[str, str | int], Setting | WorldSize] = {}
        self._times: Counter[tuple[str, str | int]] = Counter()
        self._local_size: tuple[int, Source] | None = None
        self._tasks: dict[int, Source] = {}
        self._launchers: dict[str, Source] = {}
        self._nodes: int | None = None
        self._node_counts: set[int] = set()  # as commands give them
        self._meetings: dict[str, Source] = {}

    def _note(self, fact: Setting | WorldSize) -> None:
        self._times[_key(fact)] += 1
        self._first.setdefault(_key(fact), fact)

    @wants(*_TABLE.sizes)
    def on_size(self, line: FoundLine, match: Match) -> None:
        """Note the number of ranks."""
        if int(match["size"]) > 0:
            self._note(WorldSize(size=int(match["size"]), who=NOBODY, source=line.source))

    @wants(*_TABLE.meetings)
    def on_meeting(self, line: FoundLine, match: Match) -> None:
        """Note an address at which the ranks, or those who start them, are to meet."""
        if len(self._meetings) < MAX_MEETINGS:
            self._meetings.setdefault(match["host"], line.source)

    @wants(*_BACKENDS)
    def on_backend(self, line: FoundLine, match: Match) -> None:
        """Note the backend of the collectives."""
        value = _BACKENDS[match.re.pattern]
        self._note(Setting(name="backend", value=value, who=NOBODY, source=line.source))

    @wants(*_VERSIONS)
    def on_version(self, line: FoundLine, match: Match) -> None:
        """Note a version."""
        name = _VERSIONS[match.re.pattern]
        self._note(Setting(name=name, value=match["version"], who=NOBODY, source=line.source))

    @wants(
        r"(?:--nnodes|--num_machines|--num_nodes|--node_rank|group_world_size)[= ](?P<nodes>\d+)"
    )
    def on_nodes(self, line: FoundLine, match: Match) -> None:
        """Note on how many hosts the job runs."""
        nodes = int(match["nodes"])
        if match[0].startswith(_NODE_RANK):
            nodes = 2 if nodes > 0 else 0  # the first node tells nothing
        if "group_world_size" in match[0] and nodes == 1:
            self._file.one_host = self._file.one_host is not False
        if nodes > 1:
            self._nodes = nodes
            self._file.one_host = False
        if not match[0].startswith(_NODE_RANK):
            self._node_counts.add(nodes)

    @wants(r"--nproc[_-]per[_-]node[= ](?P<size>\d+)")
    def on_local_size(self, line: FoundLine, match: Match) -> None:
        """Note how many ranks run on each host."""
        if self._local_size is None:
            self._local_size = (int(match["size"]), line.source)

    @wants(*_TABLE.tasks)
    def on_tasks(self, line: FoundLine, match: Match) -> None:
        """Note how many processes a command starts: ranks, or the launchers of ranks."""
        if int(match["size"]) > 0:
            self._tasks.setdefault(int(match["size"]), line.source)

    @wants(r"--standalone\b")
    def on_standalone(self, line: FoundLine, match: Match) -> None:
        """Note that all runs on one host."""
        if self._file.one_host is None:
            self._file.one_host = True

    @wants(r"--dist[-_]url[= ]\W{0,2}tcp://(?!127\.|localhost)")
    def on_remote(self, line: FoundLine, match: Match) -> None:
        """Note that the ranks meet at another host."""
        self._file.one_host = False

    @wants(r"local_ranks=\[(?P<local>[\d, ]+)\]")
    def on_rank_map(self, line: FoundLine, match: Match) -> None:
        """Read which global ranks the local ones of this host are (torchrun's rendezvous)."""
        local = unfold(match["local"])
        for _, after in line.following(3):
            _, key, rest = after.text.partition("global_ranks=[")
            if key:
                ranks = unfold(rest.partition("]")[0])
                self._file.ranks.update(zip(local, ranks, strict=False))
                if ranks != local:
                    self._file.one_host = False

    @wants(*_LAUNCHERS)
    def on_launcher(self, line: FoundLine, match: Match) -> None:
        """Note what started the job."""
        name = _LAUNCHERS[match.re.pattern]
        self._launchers.setdefault(name, line.source)
        self._file.launchers.add(name)

    def facts(self) -> Iterator[Fact]:
        """Yield each statement once."""
        if self._local_size is not None:
            size, source = self._local_size
            if self._file.one_host is None and self._nodes is None:
                self._file.one_host = True
            nodes = 1 if self._nodes is None and self._file.one_host else 0
            if self._nodes is not None and self._node_counts == {self._nodes}:
                nodes = self._nodes
            sized = any(isinstance(fact, WorldSize) for fact in self._first.values())
            if nodes and not sized:
                self._note(WorldSize(size=nodes * size, who=NOBODY, source=source))
        sized = any(isinstance(fact, WorldSize) for fact in self._first.values())
        if len(self._tasks) == 1 and not sized and PER_NODE.isdisjoint(self._launchers):
            ((size, source),) = self._tasks.items()
            self._note(WorldSize(size=size, who=NOBODY, source=source))
        for host, source in self._meetings.items():
            yield InitArguments(address=Address(host=host), who=NOBODY, source=source)
        best = {name: value for (name, value), _ in reversed(self._times.most_common())}
        for (name, value), fact in self._first.items():
            if best[name] == value:  # the most frequent one; others are of parts of the job
                yield fact
        for launcher, source in self._launchers.items():
            yield Setting(name="launcher", value=launcher, who=NOBODY, source=source)


def _key(fact: Setting | WorldSize) -> tuple[str, str | int]:
    return (fact.name, fact.value) if isinstance(fact, Setting) else ("world size", fact.size)
