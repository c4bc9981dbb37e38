"""Workers on a Ray cluster: actors pinned to its nodes that reserve no CPU and no GPU."""

import importlib
import logging
import os
from typing import Any

from whyhang.analyzer.errors import TargetError
from whyhang.collectors.shards.channel import Channel, ChannelError, environ, on_each
from whyhang.collectors.shards.worker import Worker


class ActorChannel(Channel):
    """A worker that is an actor. What it returns is bytes, so that it is read here as all is."""

    def __init__(self, name: str, ray: Any, actor: Any) -> None:
        super().__init__(name)
        self._ray, self._actor = ray, actor

    def exchange(self, question: bytes, seconds: float | None) -> bytes:
        """Return its answer. Raises ``ChannelError``."""
        try:
            answer: bytes = self._ray.get(self._actor.answer.remote(question), timeout=seconds)
        except Exception as error:
            why = str(error).strip().splitlines() or [type(error).__name__]
            raise ChannelError(why[-1][:200]) from error
        return answer

    def close(self) -> None:
        """End the actor; the connection to the cluster ends with this program."""
        try:
            self._ray.get(self._actor.close.remote(), timeout=5)
            self._ray.kill(self._actor)
        except Exception as error:  # noqa: BLE001 - Ray raises all kinds, and it is gone then
            logging.getLogger(__name__).debug("actor on %s: %s", self.name, error)


def workers(address: str) -> list[Channel]:
    """Start the actors; return the way to each.

    Raises ``TargetError`` where there is no cluster to be reached.
    """
    ray = _connected(address)
    pinned = importlib.import_module("ray.util.scheduling_strategies")
    nodes = [node for node in ray.nodes() if node["Alive"]]
    remote = ray.remote(Worker)
    channels: list[Channel] = []
    for node in [node for node in nodes for _ in range(on_each(len(nodes)))]:
        on_node = pinned.NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)
        actor = remote.options(
            num_cpus=0, num_gpus=0, max_restarts=0, scheduling_strategy=on_node
        ).remote()
        channels.append(ActorChannel(str(node["NodeManagerHostname"]), ray, actor))
    return channels


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
