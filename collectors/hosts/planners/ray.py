"""The nodes of a Ray job, as Ray's state API names them; an actor pinned to each reaches it.

Ray itself is imported by ``ray_channel`` only, which is run by a Python that has it.
"""

import importlib.util
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.facts import Gap, Record, Who
from whyhang.collectors.hosts.reach import Reach, ReachedHost
from whyhang.collectors.live.programs import run

LIMIT = 40.0
"""Seconds that the cluster has to take us in as a driver, and to say what it runs."""

PATIENCE = 30.0
"""Seconds for a node's first sign of life: Ray starts a Python process for the actor."""

CHANNEL = str(Path(__file__).parents[1] / "ray_channel")

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


class Actor(Record):
    """An actor. ``died`` says in Ray's words how it ended."""

    class_name: str = ""
    state: str = ""
    node_id: str | None = None
    pid: int | None = None
    job_id: str | None = None
    placement_group_id: str | None = None
    died: str = ""


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
    ids = list(dict.fromkeys(one.node_id for one in living if one.node_id)) or list(alive)
    called = {id_: _called(alive[id_], alive.values()) for id_ in ids}
    hosts = [
        ReachedHost(
            name=called[id_],
            argv=(*channel, f"--node={id_}={called[id_]}", "--"),
            pids=tuple(sorted(one.pid for one in living if one.node_id == id_ and one.pid)),
        )
        for id_ in ids
    ]
    hosts.sort(key=lambda host: host.name)
    nodes = f"{len(hosts)} node{'s' * (len(hosts) != 1)}"
    what = f"Ray job {living[0].job_id} ({len(living)} {living[0].class_name})" if living else "Ray"
    together = [f"--node={id_}={called[id_]}" for id_ in sorted(ids, key=lambda id_: called[id_])]
    return Reach(
        kind="ray",
        sentence=f"{nodes} of {what} by an actor pinned to each",
        hosts=tuple(hosts),
        gaps=(*_gaps(state, ranks, living), *_others(state, ranks)),
        together=(*channel, *together, "--"),
        patience=PATIENCE,
    )


def _ranks(state: State) -> list[Actor]:
    """Return the actors that are ranks, those that have died among them."""
    mine = [one for one in state.actors if not one.class_name.startswith(_SERVES)]
    alive = [one for one in mine if one.state == "ALIVE"]
    placed = [one for one in alive if one.placement_group_id] or alive
    kinds = Counter(_kind(one) for one in placed)
    if not kinds:
        return []
    chosen = kinds.most_common(1)[0][0]
    return [one for one in mine if _kind(one) == chosen]


def _kind(actor: Actor) -> tuple[str, str, str]:
    return (actor.job_id or "", actor.placement_group_id or "", actor.class_name)


def _called(node: Node, nodes: Sequence[Node] | Any) -> str:
    """Name a node by its host; where several share one, with a piece of its id."""
    host = node.host or node.address or node.id
    alike = sum((each.host or each.address) == host for each in nodes)
    return host if alike == 1 else f"{host}-{node.id[:8]}"


def _gaps(state: State, ranks: Sequence[Actor], living: Sequence[Actor]) -> list[Gap]:
    """Return what is known to be missing: actors that have died, or are not told of."""
    gaps = [
        Gap(
            what=f"{one.class_name} with PID {one.pid}",
            why=f"Ray says that this actor is {one.state}" + (f": {one.died}" if one.died else ""),
            cost="its rank has ended, and its stack cannot be read",
            remedy="ray logs actor --pid shows the end of its log",
            who=Who(pid=one.pid),
        )
        for one in ranks
        if one not in living
    ]
    if state.no_actors:
        gaps.append(
            Gap(
                what="the actors of the Ray cluster",
                why=f"its state API does not answer ({state.no_actors})",
                cost="every node is looked at, and ranks are told by the names of processes only",
                remedy="Start the cluster with its dashboard: pip install 'ray[default]'",
            )
        )
    return gaps


def _others(state: State, ranks: Sequence[Actor]) -> list[Gap]:
    """Return the other placement groups that hold actors: they may be the job that is meant."""
    own = {_kind(one) for one in ranks}
    others = Counter(
        (one.job_id, one.class_name)
        for one in state.actors
        if one.state == "ALIVE" and one.placement_group_id and _kind(one) not in own
    )
    return [
        Gap(
            what=f"{count} {kind} of Ray job {job}",
            why="one job is looked at, and another has more actors",
            remedy="Give a PID of it, on its host",
        )
        for (job, kind), count in others.items()
    ]


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
