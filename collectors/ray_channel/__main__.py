"""A program of its own that reaches the nodes of a Ray cluster.

Run by any Python that has Ray (standard library besides)::

    python ray_channel state [--address A]
    python ray_channel run [--address A] --node ID=NAME [--node ID=NAME ...] -- WORDS...

``state`` prints nodes and actors as JSON. ``run`` runs the words on each node in
an actor that is pinned to it and reserves no CPU and no GPU, with its name in ``WHYHANG_HOST``.
What stands on standard input goes to each; whole lines of what they print come back. Everything
ends with this program: Ray ends the actors of a driver that has gone, and what they started finds
its standard input closed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
from typing import Any

CHUNK = 1 << 20
MOST = 10_000  # actors; Ray's state API gives no more
NODE_FIELDS = {"id": "NodeID", "host": "NodeManagerHostname", "address": "NodeManagerAddress"}
ACTOR_FIELDS = ("class_name", "state", "node_id", "pid", "job_id", "placement_group_id")


class WhyhangRunner:
    """Runs on a node, as an actor: one program with standard input and output connected."""

    def __init__(self, name: str, words: list[str]) -> None:
        self._program: Any = subprocess.Popen(
            words,
            env={**os.environ, "WHYHANG_HOST": name},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def write(self, data: bytes) -> None:
        """Write to its standard input; nothing closes it."""
        with contextlib.suppress(OSError, ValueError):
            if data:
                self._program.stdin.write(data)
                self._program.stdin.flush()
            else:
                self._program.stdin.close()

    def read(self) -> bytes:
        """Wait for whole lines of its output; nothing: it has ended."""
        data: bytes = self._program.stdout.read1(CHUNK)
        if data and not data.endswith(b"\n"):
            data += self._program.stdout.readline()
        if not data:
            self._program.wait()
        return data


class NoClusterError(Exception):
    """There is no Ray here, or no cluster answers; the message says which."""


def connect(address: str | None, **more: Any) -> Any:
    """Join the cluster as a driver that says nothing. Raises ``NoClusterError``."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        import ray  # noqa: PLC0415 - an extra, and heavy
    except ImportError as error:
        raise NoClusterError(f"Ray cannot be imported by {sys.executable}: {error}") from error
    try:
        ray.init(
            address=address or "auto",
            namespace="whyhang",
            log_to_driver=False,
            logging_level=logging.ERROR,
            **more,
        )
    except Exception as error:
        where = address or "the address it finds itself"
        raise NoClusterError(f"Ray cannot be reached at {where}: {error}") from error
    return ray


def state(address: str | None) -> dict[str, object]:
    """Return nodes and actors of the cluster."""
    ray = connect(address)
    nodes = [
        {**{name: node.get(key) for name, key in NODE_FIELDS.items()}, "alive": node.get("Alive")}
        for node in ray.nodes()
    ]
    state: dict[str, object] = {"nodes": nodes}
    try:
        from ray.util.state import list_actors  # noqa: PLC0415

        actors = list_actors(limit=MOST, detail=True, timeout=10, raise_on_missing_output=False)
        state["actors"] = [
            {**{name: getattr(one, name, None) for name in ACTOR_FIELDS}, "died": _died(one)}
            for one in actors
        ]
    except Exception as error:  # noqa: BLE001 - as above; the dashboard may not run
        state["no_actors"] = str(error).strip().splitlines()[0]
    return state


def _died(actor: Any) -> str:
    """Say in Ray's words how an actor ended; empty for one that lives."""
    cause = getattr(actor, "death_cause", None) or {}
    for kind in cause.values() if isinstance(cause, dict) else ():
        if isinstance(kind, dict) and kind.get("error_message"):
            return " ".join(str(kind["error_message"]).split())[:300]
    return ""


def run(address: str | None, nodes: list[str], words: list[str]) -> int:
    """Run words on nodes until they have ended everywhere; 0 where each node answered."""
    ray = connect(address)
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415

    runner = ray.remote(concurrency_groups={"in": 1, "out": 1})(WhyhangRunner)
    actors = {}
    for node in nodes:
        id_, _, name = node.partition("=")
        pinned = NodeAffinitySchedulingStrategy(node_id=id_, soft=False)
        actors[name] = runner.options(
            num_cpus=0, num_gpus=0, max_restarts=0, scheduling_strategy=pinned
        ).remote(name, words)
    threading.Thread(target=_feed, args=(ray, actors), daemon=True).start()
    reads = {_read(actor): node for node, actor in actors.items()}
    lost = 0
    while reads:
        done, _ = ray.wait(list(reads), num_returns=1)
        node = reads.pop(done[0])
        try:
            data = ray.get(done[0])
        except Exception as error:  # noqa: BLE001 - as above
            lost += 1
            sys.stderr.write(f"{node}: {' '.join(str(error).split())[:400]}\n")
            continue
        if data:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            reads[_read(actors[node])] = node
    return 1 if lost else 0


def _read(actor: Any) -> Any:
    return actor.read.options(concurrency_group="out").remote()


def _feed(ray: Any, actors: dict[str, Any]) -> None:
    """Give what comes on standard input to all actors, and its end."""
    while True:
        data = os.read(0, CHUNK)
        shared = ray.put(data)
        for actor in actors.values():
            actor.write.options(concurrency_group="in").remote(shared)
        if not data:
            return


def main() -> int:
    """Parse the command line; print the state, or run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("do", choices=("state", "run"))
    parser.add_argument("--address")
    parser.add_argument("--node", action="append", default=[])
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options = parser.parse_args(sys.argv[1:split])
    try:
        if options.do == "run":
            return run(options.address, options.node, sys.argv[split + 1 :])
        json.dump(state(options.address), sys.stdout, indent=1)
    except NoClusterError as error:
        sys.exit(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
