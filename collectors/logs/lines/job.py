"""What a log says of the job as a whole: its size, launcher, backend and versions."""

from collections import Counter
from collections.abc import Iterator

from whyhang.analyzer.facts import (
    NOBODY,
    Address,
    Fact,
    InitArguments,
    Setting,
    SettingName,
    Source,
    WorldSize,
    unfold,
)
from whyhang.analyzer.job.launchers import PER_NODE
from whyhang.collectors.logs.engine.matching import Match
from whyhang.collectors.logs.lines.line_reader import FoundLine, LineReader, LogFile, wants

LAUNCHERS = {
    r"torch[./]distributed[./](?:run|launch|elastic)\b|torchrun\b": "torchrun",
    r"deepspeed[./]launcher|\[launch\.py:\d+": "deepspeed",
    r"accelerate[./]commands[./]launch|accelerate launch": "accelerate",
    r"\bsrun: |slurmstepd: |(?:^|[$#+&;|>] ?)\s*srun [\w./-]": "slurm",
    r"\b(?:mpirun|mpiexec|prterun|orterun)\b": "mpirun",
    r"torch/multiprocessing/spawn\.py|mp\.spawn\(": "mp.spawn",
    r"\bRayTrainWorker\b|ray::|ray/train/": "ray",
}
SETTINGS: dict[str, tuple[SettingName, str]] = {
    r"(?i)\b(?:py)?torch(?:==|[ _-]?version\W{1,3}|/)v?(?P<version>\d+\.\d+(?:\.\d+)?)\b": (
        "torch",
        "",  # the version in the line
    ),
    r"gloo/transport/|ProcessGroupGloo\.cpp": ("backend", "gloo"),
    r"ProcessGroupNCCL\.cpp": ("backend", "nccl"),
}
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

    @wants(
        r"(?i)(?:(?<![a-z])(?<![a-z]_)(?:dist(?:ributed)?_)?world[_ ]?size\b\W{1,3}"
        r"|global_world_sizes=\[|ranks? \d+ of |\brank \d+(?:/|[,:] world )"
        r"|\b(?:num[_ ]processes|number of (?:mpi )?(?:ranks|processes)|horovod size)\W{1,3}"
        r"|worker group of size )(?P<size>\d{1,6})\b(?!/)",
        # Lightning, timm, torch's barrier in the store
        r"(?i)initializing (?:ddp|distributed): GLOBAL_RANK: \d+, MEMBER: \d+/(?P<size>\d+)",
        r"processes registered\. Starting(?: \w+)? with (?P<size>\d+) processes",
        r"\bProcess \d+, total (?P<size>\d+)\b",
        r"Completed store-based barrier for key:store_based_barrier_key:1 with (?P<size>\d+) nodes",
        r"\d+/(?P<size>\d+) (?:clients|workers) joined",
    )
    def on_size(self, line: FoundLine, match: Match) -> None:
        """Note the number of ranks."""
        if int(match["size"]) > 0:
            self._note(WorldSize(size=int(match["size"]), who=NOBODY, source=line.source))

    @wants(
        r"(?:Local node IP: |Ray cluster at address: |init_method=\W{0,2}tcp://"
        r"|(?:--master[_-]addr|--node-ip-address|MASTER_ADDR|rdzv_endpoint)[=: ]\W{0,2})"
        r"(?P<host>\d{1,3}(?:\.\d{1,3}){3})\b"
    )
    def on_meeting(self, line: FoundLine, match: Match) -> None:
        """Note an address at which the ranks, or those who start them, are to meet."""
        if len(self._meetings) < MAX_MEETINGS:
            self._meetings.setdefault(match["host"], line.source)

    @wants(*SETTINGS)
    def on_setting(self, line: FoundLine, match: Match) -> None:
        """Note a version or a backend."""
        name, value = SETTINGS[match.re.pattern]
        value = value or match["version"]
        self._note(Setting(name=name, value=value, who=NOBODY, source=line.source))

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

    @wants(
        r"\b(?:mpirun|mpiexec|prterun|orterun|horovodrun|srun)(?:\.\w+)? (?:.{0,200}? )?"
        r"(?:-np?|--n(?:tasks|p))[= ]?(?P<size>\d{1,6})\b",
        r"\bSLURM_(?:NTASKS|NPROCS)\W{1,3}(?P<size>\d{1,6})\b",
    )
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

    @wants(*LAUNCHERS)
    def on_launcher(self, line: FoundLine, match: Match) -> None:
        """Note what started the job."""
        name = LAUNCHERS[match.re.pattern]
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
