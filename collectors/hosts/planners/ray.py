"""The nodes of a Ray job, as Ray's state API names them; an actor pinned to each reaches it.

Ray itself is imported by ``ray_channel`` only, which is run by a Python that has it.
"""

import importlib.util
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.facts import Gap, Record, Who, counted
from whyhang.collectors.hosts.reach import Reach, ReachedHost
from whyhang.collectors.live.programs import run

LIMIT = 40.0
"""Seconds that the cluster has to take us in as a driver, and to say what it runs."""

PATIENCE = 30.0
"""Seconds for a node's first sign of life: Ray starts a Python process for the actor."""

CHANNEL = str(Path(__file__).parents[2] / "ray_channel")

_SERVES = (
    "TrainController", "PlacementGroupCleaner", "PreemptionWatcher", "SynchronizationActor",
    "DatasetManager", "AutoscalingCoordinator", "JobSupervisor", "StatsActor", "ServeController",
    "ProxyActor", "_QueueActor", "_SharedTrainer", "TunerInternal", "WhyhangRunner",
)  # fmt: skip
"""Classes of actors by which Ray's libraries keep house; they are no ranks."""


class Node(Record):
    """A node of the cluster."""

    id: str
    host: str | None = None
    address: str | None = None
    alive: bool = True

    @property
    def name(self) -> str:
        """What people call it."""
        return self.host or self.address or self.id


class Actor(Record):
    """An actor. ``died`` says in Ray's words how it ended."""

    class_name: str = ""
    state: str = ""
    node_id: str | None = None
    pid: int | None = None
    job_id: str | None = None
    placement_group_id: str | None = None
    died: str = ""

    @property
    def kind(self) -> tuple[str, str, str]:
        """What the ranks of one job have in common."""
        return (self.job_id or "", self.placement_group_id or "", self.class_name)


class State(Record):
    """What ``ray_channel state`` prints. ``no_actors`` says why Ray does not tell of any."""

    nodes: tuple[Node, ...] = ()
    actors: tuple[Actor, ...] = ()
    no_actors: str = ""


def reach(address: str | None) -> Reach:
    """Ask Ray for the nodes of its job. Raises ``TargetError`` where it cannot be asked."""
    where = () if address in {None, "auto"} else (f"--address={address}",)
    python = _python()
    asked = run(python, CHANNEL, "state", *where, limit=LIMIT)
    if asked.code != 0:
        why = asked.errors.strip().splitlines()[-1:] or [f"no answer within {LIMIT:g} s"]
        raise TargetError(
            f"Ray cannot be asked for its nodes: {why[0][:300]}",
            "Give the address of its GCS (--ray HOST:6379), run whyhang on a node of the cluster "
            "(`ray status` has to work there) and in a Python that has the cluster's Ray.",
        )
    try:
        state = msgspec.json.decode(asked.output, type=State)
    except msgspec.DecodeError as error:
        raise TargetError(f"what Ray said cannot be read: {error}") from error
    return plan(state, (python, CHANNEL, "run", *where))


def plan(state: State, channel: Sequence[str]) -> Reach:
    """Return the way to the nodes on which the ranks of a Ray job run.

    Ranks are the actors of one class in one placement group; without placement groups, of the job
    and class with the most actors. Where Ray does not tell of actors, every node is meant.
    """
    alive = {node.id: node for node in state.nodes if node.alive}
    ranks = _ranks(state)
    living = [one for one in ranks if one.state == "ALIVE" and one.node_id in alive]
    if not living and not state.no_actors:
        raise TargetError(
            "Ray runs no actors that could be the ranks of a job",
            "Look: ray list actors. Ranks that are plain tasks or no part of Ray at all are found "
            "on each host by its own PID, or with --hosts.",
        )
    ids = {one.node_id for one in living if one.node_id} or {*alive}
    alike = Counter(node.name for node in alive.values())
    hosts, options = [], []
    for name, node in sorted((alive[id_].name, id_) for id_ in ids):
        called = name if alike[name] == 1 else f"{name}-{node[:8]}"
        options.append(f"--node={node}={called}")
        pids = tuple(sorted(one.pid for one in living if one.node_id == node and one.pid))
        hosts.append(ReachedHost(name=called, argv=(*channel, options[-1], "--"), pids=pids))
    what = f"Ray job {living[0].job_id} ({len(living)} {living[0].class_name})" if living else "Ray"
    return Reach(
        kind="ray",
        sentence=f"{counted(len(hosts), 'node')} of {what} by an actor pinned to each",
        hosts=tuple(hosts),
        gaps=tuple(_gaps(state, ranks, living)),
        together=(*channel, *options, "--"),
        patience=PATIENCE,
    )


def _ranks(state: State) -> list[Actor]:
    """Return the actors that are ranks, those that have died among them."""
    mine = [one for one in state.actors if not one.class_name.startswith(_SERVES)]
    alive = [one for one in mine if one.state == "ALIVE"]
    placed = [one for one in alive if one.placement_group_id] or alive
    kinds = Counter(one.kind for one in placed)
    if not kinds:
        return []
    chosen = kinds.most_common(1)[0][0]
    return [one for one in mine if one.kind == chosen]


def _gaps(state: State, ranks: Sequence[Actor], living: Sequence[Actor]) -> Iterator[Gap]:
    """Yield what is known to be missing: actors that have died, are not told of, or not meant."""
    for one in ranks:
        if one not in living:
            died = f": {one.died}" if one.died else ""
            yield Gap(
                what=f"{one.class_name} with PID {one.pid}",
                why=f"Ray says that this actor is {one.state}{died}",
                cost="its rank has ended, and its stack cannot be read",
                remedy="ray logs actor --pid shows the end of its log",
                who=Who(pid=one.pid),
            )
    if state.no_actors:
        yield Gap(
            what="the actors of the Ray cluster",
            why=f"its state API does not answer ({state.no_actors})",
            cost="every node is looked at, and ranks are told by the names of processes only",
            remedy="Start the cluster with its dashboard: pip install 'ray[default]'",
        )
    own = {one.kind for one in ranks}
    others = Counter(
        (one.job_id, one.class_name)
        for one in state.actors
        if one.state == "ALIVE" and one.placement_group_id and one.kind not in own
    )
    for (job, kind), count in others.items():
        yield Gap(
            what=f"{count} {kind} of Ray job {job}",
            why="one job is looked at, and another has more actors",
            remedy="Give a PID of it, on its host",
        )


def _python() -> str:
    """Return a Python that has Ray: this one, else that of the command ``ray``."""
    if importlib.util.find_spec("ray") is not None:
        return sys.executable
    command = shutil.which("ray")
    if command is not None:
        first = Path(command).read_bytes()[:4096].partition(b"\n")[0].decode(errors="replace")
        if first.startswith("#!/") and Path(first[2:].split()[0]).exists():
            return first[2:].split()[0]
    raise TargetError(
        "Ray is not installed where whyhang is, and there is no command `ray`",
        "pip install 'whyhang[ray]', with the version of Ray that the cluster runs.",
    )
