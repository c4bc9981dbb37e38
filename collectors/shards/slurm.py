"""Workers in a Slurm allocation: a step of its own for each, beside what runs there."""

import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO, cast

from whyhang import __version__
from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.job.slurm_hosts import expand, hosts_in
from whyhang.collectors.shards import wire
from whyhang.collectors.shards.start import STARTING, Search, environ, on_each
from whyhang.collectors.shards.team import Channel, ChannelError

_JOB = re.compile(r"\d+(?:_\d+)?")


class StepChannel:
    """A worker that is a step of the job: srun carries its standard input and output."""

    def __init__(self, command: list[str], name: str, environment: Mapping[str, str]) -> None:
        self._name = name
        self._step = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **environment},
            start_new_session=True,  # a key that is pressed is for this process
        )
        self._errors: list[bytes] = []
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def name(self) -> str:
        """The node it is on."""
        return self._name

    def greet(self, number: int, search: Search) -> None:
        """Tell it what it is to do, and wait until it is there. Raises ``ChannelError``."""
        late = threading.Timer(STARTING, self._step.kill)
        late.start()
        try:
            self._send((number, search.patterns, search.owners))
            version = self._answer()
        finally:
            late.cancel()
        if version != __version__:
            raise ChannelError(f"whyhang {version} is installed there, here it is {__version__}")

    def ask(self, operation: str, *arguments: object) -> Any:
        """Return its answer. Raises ``ChannelError``."""
        self._send((operation, arguments))
        return self._answer()

    def close(self) -> None:
        """End the worker by ending its input; srun then ends the step."""
        with contextlib.suppress(OSError):
            cast("BinaryIO", self._step.stdin).close()
        try:
            self._step.wait(5)
        except subprocess.TimeoutExpired:
            self._step.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._step.wait(5)
        cast("BinaryIO", self._step.stdout).close()

    def _send(self, message: object) -> None:
        try:
            wire.send(cast("BinaryIO", self._step.stdin), message)
        except OSError as error:
            raise ChannelError(self._why()) from error

    def _answer(self) -> Any:
        try:
            good, answer = wire.facts_in(wire.receive(cast("BinaryIO", self._step.stdout)))
        except (wire.WireError, OSError, ValueError, TypeError) as error:
            raise ChannelError(self._why() or str(error)) from error
        if not good:
            raise ChannelError(str(answer))
        return answer

    def _listen(self) -> None:
        for line in cast("BinaryIO", self._step.stderr):
            self._errors = [*self._errors[-20:], line]

    def _why(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._step.wait(2)
        lines = [line.decode("utf-8", "replace").strip() for line in self._errors]
        words = [line for line in lines if line and not line.startswith("srun: Terminating")]
        return words[-1][:200] if words else "srun ended without a word"


def workers(job: str, search: Search) -> tuple[Sequence[Channel], dict[int, str]]:
    """Start the workers; return the way to each, and by number why some did not start.

    Raises ``TargetError`` where there is no allocation, or no worker starts.
    """
    job, nodes = _allocation(job)
    count = on_each(len(nodes))
    places = [node for node in nodes for _ in range(count)]
    channels = [StepChannel(_command(job, node), node, environ()) for node in places]
    with ThreadPoolExecutor(len(channels)) as pool:
        troubles = list(
            pool.map(_greeted, channels, range(len(channels)), [search] * len(channels))
        )
    return channels, {number: why for number, why in enumerate(troubles) if why is not None}


def _greeted(channel: StepChannel, number: int, search: Search) -> str | None:
    try:
        channel.greet(number, search)
    except ChannelError as error:
        return str(error)
    return None


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
    try:
        asked = subprocess.run(
            ["squeue", "-h", "-t", "R", "-j", job, "-o", "%N"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TargetError(
            f"--on slurm:{job}: squeue cannot be asked ({error})",
            "Run whyhang where Slurm's commands are installed.",
        ) from error
    nodes = expand(asked.stdout.strip())
    if not nodes:
        why = asked.stderr.strip().splitlines()[-1:] or ["it does not run"]
        raise TargetError(
            f"--on slurm:{job}: the job has no nodes: {why[0]}", "squeue --me lists yours."
        )
    return job, list(nodes)
