"""Workers on a Ray cluster: actors pinned to its nodes that reserve no CPU and no GPU."""

from __future__ import annotations

import importlib
import logging
import os
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

from whyhang import __version__
from whyhang.analyzer.errors import TargetError
from whyhang.collectors.shards import wire
from whyhang.collectors.shards.start import STARTING, Search, environ, on_each
from whyhang.collectors.shards.team import Channel, ChannelError


class ShardActor:
    """A worker as an actor. What it returns is bytes, so that it is read here as all else is."""

    def __init__(self, number: int, patterns: tuple[str, ...], owners: Mapping[str, str]) -> None:
        # On its node, where what reads is imported.
        self._module = importlib.import_module("whyhang.collectors.shards.worker")
        self._worker = self._module.Worker(number, patterns, owners)

    def version(self) -> str:
        """Return which whyhang this is."""
        return __version__

    def answer(self, question: bytes) -> bytes:
        """Answer one question."""
        asked = pickle.loads(question)  # noqa: S301 - from who started this
        return pickle.dumps(self._module.answer(self._worker, asked), 5)

    def close(self) -> None:
        """Remove what was unpacked."""
        self._worker.close()


class ActorChannel:
    """The way to an actor."""

    def __init__(self, ray: Any, actor: Any, name: str, cluster: _Cluster) -> None:
        self._ray, self._actor, self._name, self._cluster = ray, actor, name, cluster

    @property
    def name(self) -> str:
        """The node it is on."""
        return self._name

    def greet(self) -> None:
        """Wait until it is there. Raises ``ChannelError``."""
        version = self._got(self._actor.version.remote(), STARTING)
        if version != __version__:
            raise ChannelError(f"whyhang {version} is installed there, here it is {__version__}")

    def ask(self, operation: str, *arguments: object) -> Any:
        """Return its answer. Raises ``ChannelError``."""
        question = pickle.dumps((operation, arguments), 5)
        try:
            good, answer = wire.facts_in(self._got(self._actor.answer.remote(question), None))
        except (wire.WireError, TypeError, ValueError) as error:
            raise ChannelError(str(error)) from error
        if not good:
            raise ChannelError(str(answer))
        return answer

    def close(self) -> None:
        """End the actor."""
        try:
            self._ray.get(self._actor.close.remote(), timeout=5)
            self._ray.kill(self._actor)
        except Exception as error:  # noqa: BLE001 - Ray raises all kinds, and it is gone then
            logging.getLogger(__name__).debug("actor on %s: %s", self._name, error)
        self._cluster.leave()

    def _got(self, reference: Any, seconds: float | None) -> Any:
        try:
            return self._ray.get(reference, timeout=seconds)
        except Exception as error:
            why = str(error).strip().splitlines() or [type(error).__name__]
            raise ChannelError(why[-1][:200]) from error


class _Cluster:
    """The connection to the cluster, given up with the last channel."""

    def __init__(self, ray: Any, channels: int) -> None:
        self._ray, self._channels = ray, channels

    def leave(self) -> None:
        """Count one channel less."""
        self._channels -= 1
        if self._channels == 0:
            self._ray.shutdown()


def workers(address: str, search: Search) -> tuple[Sequence[Channel], dict[int, str]]:
    """Start the actors; return the way to each, and by number why some did not start.

    Raises ``TargetError`` where there is no cluster to be reached.
    """
    ray = _connected(address)
    pinned = importlib.import_module("ray.util.scheduling_strategies")
    nodes = [node for node in ray.nodes() if node["Alive"]]
    places = [node for node in nodes for _ in range(on_each(len(nodes)))]
    cluster = _Cluster(ray, len(places))
    remote = ray.remote(ShardActor)
    channels = []
    for number, node in enumerate(places):
        on_node = pinned.NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)
        actor = remote.options(
            num_cpus=0, num_gpus=0, max_restarts=0, scheduling_strategy=on_node
        ).remote(number, search.patterns, search.owners)
        channels.append(ActorChannel(ray, actor, str(node["NodeManagerHostname"]), cluster))
    troubles = [_trouble(channel) for channel in channels]
    return channels, {number: why for number, why in enumerate(troubles) if why is not None}


def _trouble(channel: ActorChannel) -> str | None:
    try:
        channel.greet()
    except ChannelError as error:
        return str(error)
    return None


def _connected(address: str) -> Any:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        ray = importlib.import_module("ray")
    except ImportError:
        raise TargetError(
            "--on ray: this Python has no Ray",
            "Run whyhang with the Python of the cluster (pip install whyhang there).",
        ) from None
    try:
        ray.init(
            address=address or "auto",
            namespace="whyhang",
            log_to_driver=False,
            logging_level=logging.ERROR,
            runtime_env={"env_vars": dict(environ())},
        )
    except Exception as error:
        why = str(error).strip().splitlines() or [type(error).__name__]
        raise TargetError(
            f"--on ray: no cluster answers at {address or 'the address that Ray finds'}: "
            f"{why[0][:200]}",
            "Run it on a node of the cluster, or say where it is: --on ray:HOST:6379.",
        ) from error
    return ray
