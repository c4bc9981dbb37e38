"""A Ray cluster of several nodes on this machine, for tests.

Each node has a host name and processes of its own, as in ``little_slurm.py``; all share this
machine's network. It needs root and ``ray[default]``. All of it lies in a temporary folder and ends
with the context manager.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from whyhang.samples.harness.little_slurm import HOST, free_ports

if TYPE_CHECKING:
    from typing_extensions import Self

PATIENCE = 120.0


class LittleRay:
    """A cluster of ``nodes`` nodes, r1 (the head), r2, …, each with so many CPUs."""

    def __init__(self, nodes: int, cpus: int = 2) -> None:
        self.nodes = [f"r{number}" for number in range(1, nodes + 1)]
        self.folder = Path(tempfile.mkdtemp(prefix="ray-"))
        self._cpus = cpus
        port, dashboard, client, *self._agents = free_ports(nodes + 3)
        self._ports = [f"--port={port}", f"--dashboard-port={dashboard}"]
        self._ports.append(f"--ray-client-server-port={client}")
        self.address = f"127.0.0.1:{port}"
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("RAY_")},
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_AUTH_MODE": "disabled",  # whatever token the user of this machine has
            "RAY_ADDRESS": self.address,
            "RAY_raylet_start_wait_time_s": "100",
            "GLOO_SOCKET_IFNAME": "lo",  # the names of the nodes mean no address
        }
        self._programs: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        ray = str(Path(sys.executable).with_name("ray"))
        try:
            for node, agent in zip(self.nodes, self._agents, strict=True):
                head = node == self.nodes[0]
                words = [ray, "start", "--block", f"--num-cpus={self._cpus}", "--num-gpus=0"]
                words += ["--head", *self._ports] if head else [f"--address={self.address}"]
                words.append(f"--dashboard-agent-listen-port={agent}")
                words += [f"--temp-dir={self.folder}"] if head else []
                with (self.folder / f"{node}.out").open("wb") as output:
                    self._programs[node] = subprocess.Popen(
                        [*HOST, node, *words], env=self.environ, stdout=output, stderr=output
                    )
                self._wait(len(self._programs))  # together they time out on a busy machine
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def kill(self, node: str) -> None:
        """Kill a node with all that runs there."""
        self._programs[node].kill()
        self._programs[node].wait()

    def _wait(self, nodes: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while self._started() < nodes:
            printed = " ".join(self._outputs())
            if time.monotonic() > deadline or "Traceback" in printed:
                raise TimeoutError(f"{nodes} nodes of Ray did not come up: {printed}")
            time.sleep(0.2)

    def _started(self) -> int:
        return sum("Ray runtime started" in output for output in self._outputs())

    def _outputs(self) -> list[str]:
        return [(self.folder / f"{node}.out").read_text() for node in self._programs]

    def _end(self) -> None:
        for program in reversed(self._programs.values()):
            program.kill()  # and the kernel all in its namespace
        for program in self._programs.values():
            program.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
