"""What a log says of the job as a whole: its size, launcher, backend and versions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from whyhang.analyzer.facts import NOBODY, Fact, Setting, Source, WorldSize
from whyhang.collectors.logs.found import FileView, Found, Handler

if TYPE_CHECKING:
    import regex

WORLD_SIZE = (
    r"(?i)(?:\b(?:dist_)?world[_ ]?size\b\W{1,3}|global_world_sizes=\[|ranks? \d+ of "
    r"|\bnum_processes\W{1,3})(?P<size>\d{1,6})\b"
)
CLIENTS = r"\d+/(?P<size>\d+) clients joined"
TORCH_VERSION = (
    r"(?i)\b(?:py)?torch(?:==|[ _-]?version\W{1,3}|/)v?(?P<version>\d+\.\d+(?:\.\d+)?)\b"
)
GLOO = r"gloo/transport/|ProcessGroupGloo\.cpp"
NCCL = r"ProcessGroupNCCL\.cpp"
NODES = r"(?:--nnodes|--num_machines|--num_nodes|--node_rank|group_world_size)[= ](?P<nodes>\d+)"
LOCAL_SIZE = r"--nproc[_-]per[_-]node[= ](?P<size>\d+)"
STANDALONE = r"--standalone\b"
REMOTE = r"--dist[-_]url[= ]\W{0,2}tcp://(?!127\.|localhost)"
RANK_MAP = r"local_ranks=\[(?P<local>[\d, ]+)\]"
LAUNCHERS = {
    "torchrun": r"torch[./]distributed[./](?:run|launch|elastic)\b|torchrun\b",
    "deepspeed": r"deepspeed[./]launcher|\[launch\.py:\d+",
    "accelerate": r"accelerate[./]commands[./]launch|accelerate launch",
    "slurm": r"\bsrun: |slurmstepd: |\bsrun ",
    "mpirun": r"\b(?:mpirun|mpiexec|prterun|orterun)\b",
    "mp.spawn": r"torch/multiprocessing/spawn\.py|mp\.spawn\(",
    "ray": r"\bRayTrainWorker\b|ray::|ray/train/",
}
_NODE_RANK = "--node_rank"


class JobReader:
    """Collects what lines say of the whole job, each statement once."""

    def __init__(self, file: FileView) -> None:
        self._file = file
        self._first: dict[tuple[str, str | int], Setting | WorldSize] = {}
        self._times: Counter[tuple[str, str | int]] = Counter()
        self._local_size: tuple[int, Source] | None = None
        self._launchers: dict[str, Source] = {}
        self._nodes: int | None = None

    def watches(self) -> dict[str, Handler]:
        """Give the patterns to look for, and what to call with each line found."""
        return {
            WORLD_SIZE: self.on_size,
            CLIENTS: self.on_size,
            TORCH_VERSION: self.on_version,
            GLOO: self.on_gloo,
            NCCL: self.on_nccl,
            NODES: self.on_nodes,
            LOCAL_SIZE: self.on_local_size,
            STANDALONE: self.on_standalone,
            REMOTE: self.on_remote,
            RANK_MAP: self.on_rank_map,
            **dict.fromkeys(LAUNCHERS.values(), self.on_launcher),
        }

    def _note(self, fact: Setting | WorldSize) -> None:
        self._times[_key(fact)] += 1
        self._first.setdefault(_key(fact), fact)

    def on_size(self, found: Found, match: regex.Match[str]) -> None:
        """Note the number of ranks."""
        if int(match["size"]) > 0:
            self._note(WorldSize(size=int(match["size"]), who=NOBODY, source=found.source))

    def on_version(self, found: Found, match: regex.Match[str]) -> None:
        """Note torch's version."""
        version = match["version"]
        self._note(Setting(name="torch", value=version, who=NOBODY, source=found.source))

    def on_gloo(self, found: Found, match: regex.Match[str]) -> None:  # noqa: ARG002
        """Note that gloo is in use."""
        self._note(Setting(name="backend", value="gloo", who=NOBODY, source=found.source))

    def on_nccl(self, found: Found, match: regex.Match[str]) -> None:  # noqa: ARG002
        """Note that NCCL is in use."""
        self._note(Setting(name="backend", value="nccl", who=NOBODY, source=found.source))

    def on_nodes(self, found: Found, match: regex.Match[str]) -> None:
        """Note on how many hosts the job runs."""
        nodes = int(match["nodes"])
        if match[0].startswith(_NODE_RANK):
            nodes = 2 if nodes > 0 else 0  # the first node tells nothing
        if "group_world_size" in match[0] and nodes == 1:
            self._file.one_host = self._file.one_host is not False
        if nodes > 1:
            self._nodes = nodes
            self._file.one_host = False
        del found

    def on_local_size(self, found: Found, match: regex.Match[str]) -> None:
        """Note how many ranks run on each host."""
        if self._local_size is None:
            self._local_size = (int(match["size"]), found.source)

    def on_standalone(self, found: Found, match: regex.Match[str]) -> None:  # noqa: ARG002
        """Note that all runs on one host."""
        if self._file.one_host is None:
            self._file.one_host = True

    def on_remote(self, found: Found, match: regex.Match[str]) -> None:  # noqa: ARG002
        """Note that the ranks meet at another host."""
        self._file.one_host = False

    def on_rank_map(self, found: Found, match: regex.Match[str]) -> None:
        """Read which global ranks the local ones of this host are (torchrun's rendezvous)."""
        local = [int(number) for number in match["local"].replace(",", " ").split()]
        for _, line in found.following(3):
            _, key, rest = line.text.partition("global_ranks=[")
            if key:
                ranks = [int(number) for number in rest.rstrip("] \r").replace(",", " ").split()]
                self._file.ranks.update(zip(local, ranks, strict=False))
                if ranks != local:
                    self._file.one_host = False

    def on_launcher(self, found: Found, match: regex.Match[str]) -> None:
        """Note what started the job."""
        for name, pattern in LAUNCHERS.items():
            if match.re.pattern == pattern and name not in self._launchers:
                self._launchers[name] = found.source
                self._file.launchers.add(name)

    def facts(self) -> Iterator[Fact]:
        """Give each statement once."""
        if self._local_size is not None and self._nodes is None:
            size, source = self._local_size
            if self._file.one_host is None:
                self._file.one_host = True
            sized = any(isinstance(fact, WorldSize) for fact in self._first.values())
            if self._file.one_host and not sized:
                self._note(WorldSize(size=size, who=NOBODY, source=source))
        best = {name: value for (name, value), _ in reversed(self._times.most_common())}
        for (name, value), fact in self._first.items():
            if best[name] == value:  # told most often; others are of parts of the job
                yield fact
        for launcher, source in self._launchers.items():
            yield Setting(name="launcher", value=launcher, who=NOBODY, source=source)


def _key(fact: Setting | WorldSize) -> tuple[str, str | int]:
    return (fact.name, fact.value) if isinstance(fact, Setting) else ("world size", fact.size)
