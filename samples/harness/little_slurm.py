"""A Slurm cluster of several nodes on this machine, for as long as one command runs.

``python -m whyhang.samples.harness.little_slurm NODES COMMAND...`` starts munged, slurmctld and a
slurmd for each node (n1, n2, …) with everything they write in a temporary folder, runs the
command there (``srun …``), and ends all of them with it. ``LittleSlurm`` is the same for tests, and
can lose a node. It needs root and Debian's ``slurmctld slurmd slurm-client munge``; a cluster that
the machine is part of is left alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

PATIENCE = 30.0
PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h

CONFIGURATION = """\
ClusterName=little
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
HOST: tuple[str, ...] = (
    "unshare",
    "--uts",
    "--pid",
    "--mount-proc",
    "--fork",
    "--kill-child",
    "sh",
    "-c",
)
HOST += ('hostname "$0"; "$@"; exec sleep infinity',)
"""A node has a name and processes of its own, and goes on for a while without its slurmd."""

NODE = (
    "NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 State=UNKNOWN\n"
)


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def configure(folder: Path, nodes: int) -> Path:
    host = socket.gethostname().partition(".")[0]
    ports = free_ports(nodes + 1)
    text = CONFIGURATION.format(host=host, ports=ports, folder=folder)
    for number in range(1, nodes + 1):
        text += NODE.format(number=number, host=host, port=ports[number])
        (folder / f"spool-n{number}").mkdir()
    (folder / "state").mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    path = folder / "slurm.conf"
    path.write_text(text)
    return path


def daemons(folder: Path, conf: Path, nodes: int) -> list[list[str]]:
    munged = ["munged", "--foreground", "--force", f"--socket={folder}/munge.socket"]
    munged += [f"--key-file={folder}/munge.key", f"--pid-file={folder}/munge.pid"]
    munged += [f"--log-file={folder}/munge.log", f"--seed-file={folder}/munge.seed"]
    slurmds = [
        [*HOST, f"n{n}", "slurmd", "-D", "-N", f"n{n}", "-f", str(conf)]
        for n in range(1, nodes + 1)
    ]
    return [munged, ["slurmctld", "-D", "-f", str(conf)], *slurmds]


class LittleSlurm:
    """A cluster of ``nodes`` nodes; a context manager that starts it and ends it with its jobs.

    ``environ`` is what a command needs that shall run on the login side. ``lines`` are added to
    the configuration, with ``{folder}`` filled in.
    """

    def __init__(self, nodes: int, *lines: str) -> None:
        self.nodes = [f"n{number}" for number in range(1, nodes + 1)]
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-"))
        self.folder.chmod(0o755)
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SLURM")},
            "SLURM_CONF": str(configure(self.folder, nodes)),
        }
        with (self.folder / "slurm.conf").open("a") as conf:
            conf.writelines(f"{line.format(folder=self.folder)}\n" for line in lines)
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        try:
            for words in daemons(self.folder, self.folder / "slurm.conf", len(self.nodes)):
                name = words[len(HOST)] if words[0] == HOST[0] else words[0]
                self._daemons[name] = subprocess.Popen(
                    words, env=self.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
            self._wait_until_idle()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def ask(self, *command: str) -> str:
        """Return what a command of Slurm prints."""
        return subprocess.run(command, env=self.environ, capture_output=True, text=True).stdout

    def kill(self, node: str) -> None:
        """Kill the daemon of a node; what runs there goes on."""
        for pid in self.processes():
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if words[:4] == [b"slurmd", b"-D", b"-N", node.encode()]:
                os.kill(pid, signal.SIGKILL)

    def _wait_until_idle(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while (states := self.ask("sinfo", "-h", "-N", "-o", "%T").split()) != ["idle"] * len(
            self.nodes
        ):
            if time.monotonic() > deadline:
                sys.exit(f"the nodes did not come up: {' '.join(states)}")
            time.sleep(0.1)

    def _end(self) -> None:
        """End the daemons, and of the jobs what they leave: it has our configuration."""
        if "slurmctld" in self._daemons:
            for job in self.ask("squeue", "-h", "-o", "%A").split():
                self.ask("scancel", job)
        for name, daemon in reversed(self._daemons.items()):
            if name in self.nodes:
                daemon.kill()  # and the kernel all that runs there
            else:
                daemon.terminate()
        for daemon in self._daemons.values():
            try:
                daemon.wait(5)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def processes(self) -> list[int]:
        """List what runs with this cluster's configuration in its environment."""
        mark = f"SLURM_CONF={self.environ['SLURM_CONF']}".encode()
        pids: list[int] = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                    pids.append(int(entry.name))
        return pids


def main() -> int:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # slurmstepd leaves its parent
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with LittleSlurm(int(sys.argv[1])) as cluster:
        return subprocess.run(sys.argv[2:], env=cluster.environ).returncode


if __name__ == "__main__":
    sys.exit(main())
