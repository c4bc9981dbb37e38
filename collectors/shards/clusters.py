"""Workers on a Ray cluster, as actors, and in a Slurm allocation, as steps.

Actors are pinned to nodes and reserve no CPU and no GPU; a step stands beside what runs there.
"""

import contextlib
import importlib
import logging
import os
import re
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping
from multiprocessing import Pipe
from typing import Any

from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.job.slurm_hosts import expand, hosts_in
from whyhang.collectors.live.programs import run
from whyhang.collectors.ray_channel.__main__ import NoClusterError, connect
from whyhang.collectors.shards.channel import Channel, ChannelError, environ, on_each
from whyhang.collectors.shards.worker import Worker

_JOB = re.compile(r"\d+(?:_\d+)?")


def workers(on: str) -> list[Channel]:
    """Start the workers that ``--on`` names; return the way to each. Raises ``TargetError``."""
    kind, _, which = on.partition(":")
    if kind not in {"ray", "slurm"}:
        raise TargetError(
            f"--on {on}: there is no such kind of cluster",
            "--on ray[:ADDRESS] or --on slurm[:JOB].",
        )
    return _on_ray(which) if kind == "ray" else _on_slurm(which)


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


def _on_ray(address: str) -> list[Channel]:
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
        return connect(address, runtime_env={"env_vars": dict(environ())})
    except NoClusterError as error:
        raise TargetError(
            f"--on ray: {str(error).splitlines()[0][:200]}",
            "Run whyhang with the Python of the cluster, on a node of it, or say where it is: "
            "--on ray:HOST:6379.",
        ) from error


class StepChannel(Channel):
    """A worker that is a step of the job: srun carries its standard input and output."""

    def __init__(self, name: str, command: list[str], environment: Mapping[str, str]) -> None:
        super().__init__(name)
        there, self._questions = Pipe(duplex=False)
        self._answers, back = Pipe(duplex=False)
        self._step = subprocess.Popen(
            command,
            stdin=there.fileno(),
            stdout=back.fileno(),
            stderr=subprocess.PIPE,
            env={**os.environ, **environment},
            start_new_session=True,  # a key that is pressed is for this process
        )
        there.close()
        back.close()
        self._errors: deque[bytes] = deque(maxlen=20)
        printed = (self._step.stderr or (),)
        threading.Thread(target=self._errors.extend, args=printed, daemon=True).start()

    def exchange(self, question: bytes, seconds: float | None) -> bytes:
        """Return its answer. Raises ``ChannelError``."""
        late = None if seconds is None else threading.Timer(seconds, self._step.kill)
        try:
            if late is not None:
                late.start()
            self._questions.send_bytes(question)
            return self._answers.recv_bytes()
        except (OSError, EOFError) as error:
            raise ChannelError(self._why()) from error
        finally:
            if late is not None:
                late.cancel()

    def close(self) -> None:
        """End the worker by ending its input; srun then ends the step."""
        self._questions.close()
        try:
            self._step.wait(5)
        except subprocess.TimeoutExpired:
            self._step.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._step.wait(5)
        self._answers.close()

    def _why(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._step.wait(2)
        lines = [line.decode("utf-8", "replace").strip() for line in self._errors]
        words = [line for line in lines if line and not line.startswith("srun: Terminating")]
        return words[-1][:200] if words else "srun ended without a word"


def _on_slurm(job: str) -> list[Channel]:
    job, nodes = _allocation(job)
    places = [node for node in nodes for _ in range(on_each(len(nodes)))]
    return [StepChannel(node, _command(job, node), environ()) for node in places]


def _command(job: str, node: str) -> list[str]:
    step = ["srun", f"--jobid={job}", "--overlap", f"--nodelist={node}", "--nodes=1", "--ntasks=1"]
    step += ["--mem=0", "--cpu-bind=none", "--mpi=none", "--unbuffered", "--quiet"]
    return [*step, sys.executable, "-m", "whyhang.collectors.shards.worker"]


def _allocation(job: str) -> tuple[str, list[str]]:
    if not job:
        job = os.environ.get("SLURM_JOB_ID", "")
        nodes = hosts_in(os.environ)
        if not job or not nodes:
            raise TargetError(
                "--on slurm: this shell is in no allocation",
                "Run it inside one (salloc -N4 whyhang DIR --on slurm), or name a job of yours "
                "that runs: --on slurm:JOB.",
            )
        return job, list(nodes)
    if not _JOB.fullmatch(job):
        raise TargetError(f"--on slurm:{job}: a job is a number", "squeue --me lists yours.")
    asked = run("squeue", "-h", "-t", "R", "-j", job, "-o", "%N", limit=30)
    if asked.code is None:
        raise TargetError(
            f"--on slurm:{job}: squeue cannot be asked ({asked.errors.strip() or 'no answer'})",
            "Run whyhang where Slurm's commands are installed.",
        )
    nodes = expand(asked.output.decode(errors="replace").strip())
    if not nodes:
        why = asked.errors.strip().splitlines()[-1:] or ["it does not run"]
        raise TargetError(
            f"--on slurm:{job}: the job has no nodes: {why[0]}", "squeue --me lists yours."
        )
    return job, list(nodes)
