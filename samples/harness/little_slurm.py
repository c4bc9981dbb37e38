"""A Slurm cluster of several nodes on this machine, for as long as one command runs.

``python -m whyhang.samples.harness.little_slurm NODES COMMAND...`` starts munged, slurmctld and a
slurmd for each node (n1, n2, …) with everything they write in a temporary folder, runs the
command there (``srun …``), and ends all of them with it. It needs root and Debian's
``slurmctld slurmd slurm-client munge``; a cluster that the machine is part of is left alone.
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
    slurmds = [["slurmd", "-D", "-N", f"n{n}", "-f", str(conf)] for n in range(1, nodes + 1)]
    return [munged, ["slurmctld", "-D", "-f", str(conf)], *slurmds]


def wait_until_idle(nodes: int, environ: dict[str, str]) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        asked = subprocess.run(
            ["sinfo", "-h", "-N", "-o", "%T"], env=environ, capture_output=True, text=True
        )
        if asked.stdout.split() == ["idle"] * nodes:
            return
        if time.monotonic() > deadline:
            sys.exit(f"the nodes did not come up: {asked.stdout}{asked.stderr}")
        time.sleep(0.1)


def main() -> int:
    nodes, command = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # slurmstepd leaves its parent
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    folder.chmod(0o755)
    conf = configure(folder, nodes)
    environ = {**os.environ, "SLURM_CONF": str(conf)}
    started: list[subprocess.Popen[bytes]] = []
    try:
        for words in daemons(folder, conf, nodes):
            started.append(
                subprocess.Popen(
                    words, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
            )
        wait_until_idle(nodes, environ)
        return subprocess.run(command, env=environ).returncode
    finally:
        for daemon in reversed(started):
            daemon.terminate()
        for daemon in started:
            try:
                daemon.wait(5)
            except subprocess.TimeoutExpired:
                daemon.kill()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
