"""Hosts that are namespaces of this machine: each its own network, processes, name and sshd.

Needs root, ``ip``, ``unshare`` and ``sshd``. They are on one switch, ``n0`` is 10.78.0.1 and so on;
all of it ends with the processes in them, and the test's folder holds their files.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

NEEDED = ("ip", "unshare", "nsenter", "ssh", "ssh-keygen")
SSHD = "/usr/sbin/sshd"
ROOT = Path(__file__).resolve().parent.parent
"""The checkout, which may lie in /tmp, as its virtual environment does."""

_SETUP = """
set -e
hostname {name}
mount --make-rprivate /
mount --bind {folder}/etc-hosts /etc/hosts
mount --bind {folder}/ssh /etc/ssh
mkdir {folder}/{name}.checkout
mount --bind {root} {folder}/{name}.checkout
mount -t tmpfs tmpfs /tmp
mkdir -p {root}
mount --bind {folder}/{name}.checkout {root}
mkdir -p /run/sshd
ip link set lo up
echo up
read go
ip address add {address}/24 dev eth0
ip link set eth0 up
{more}
exec {sshd} -D -e -f {folder}/{name}.sshd -o PidFile=none
"""


def missing() -> str:
    """Say what this machine lacks for such hosts; "" where nothing."""
    if os.geteuid() != 0:
        return "needs root"
    lacks = [name for name in NEEDED if shutil.which(name) is None]
    lacks += [] if Path(SSHD).exists() else ["sshd"]
    return f"needs {', '.join(lacks)}" if lacks else ""


class Hosts:
    """The hosts; use as a context manager."""

    def __init__(self, folder: Path, count: int, more: dict[int, str] | None = None) -> None:
        self.folder = folder
        self.names = [f"n{number}" for number in range(count)]
        self.addresses = {name: f"10.78.0.{n + 1}" for n, name in enumerate(self.names)}
        self._more = more or {}
        self._switch: subprocess.Popen[bytes] | None = None
        self._hosts: dict[str, subprocess.Popen[bytes]] = {}
        self.pids: dict[str, int] = {}

    def __enter__(self) -> Hosts:  # noqa: PYI034 - typing.Self is of Python 3.11
        try:
            self._files()
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for pid in self.pids.values():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)  # the first of its namespace: all others end, too
        for process in (*self._hosts.values(), self._switch):
            if process is not None:
                with contextlib.suppress(OSError):
                    process.kill()
                process.wait()

    def command(self, name: str, *words: str) -> list[str]:
        """Return the command that runs words on a host."""
        return ["nsenter", "-t", str(self.pids[name]), "-a", "--", *words]

    def run(
        self, name: str, *words: str, timeout: float = 120.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on a host to its end."""
        return subprocess.run(
            self.command(name, *words), capture_output=True, text=True, timeout=timeout, check=False
        )

    @contextlib.contextmanager
    def started(self, name: str, *words: str, **how: object) -> Iterator[subprocess.Popen[bytes]]:
        """Start a command on a host; it ends with the context at the latest."""
        process = subprocess.Popen(
            self.command(name, *words),
            stdin=subprocess.DEVNULL,
            stdout=how.get("stdout", subprocess.DEVNULL),  # type: ignore[call-overload]
            stderr=subprocess.STDOUT,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def processes(self, name: str) -> list[str]:
        """List the command lines of all processes of a host, not cut off at COLUMNS (-ww)."""
        listed = self.run(name, "ps", "-ww", "-eo", "pid=,args=").stdout.splitlines()
        return [line for line in listed if "ps -ww" not in line]

    def files(self, name: str) -> list[str]:
        """List what lies in the temporary folders of a host."""
        places = ("/tmp", "/var/tmp", "/dev/shm")
        but = ("-path", str(ROOT), "-prune", "-o", "-path", "*.checkout", "-prune", "-o", "-print")
        return self.run(name, "find", *places, *but).stdout.split()

    def _files(self) -> None:
        ssh = self.folder / "ssh"
        ssh.mkdir(parents=True)
        for name in ("key", "host_key", "other_key"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name)],
                check=True,
            )
        public = (self.folder / "host_key.pub").read_text().split()[:2]
        (self.folder / "authorized").write_text((self.folder / "key.pub").read_text())
        known = [f"{name},{ip} {' '.join(public)}\n" for name, ip in self.addresses.items()]
        (ssh / "ssh_known_hosts").write_text("".join(known))
        (ssh / "ssh_config").write_text(
            f"Host *\n  IdentityFile {self.folder}/key\n  IdentitiesOnly yes\n"
            "  UserKnownHostsFile /dev/null\n  GlobalKnownHostsFile /etc/ssh/ssh_known_hosts\n"
        )
        lines = [f"{ip} {name}\n" for name, ip in self.addresses.items()]
        (self.folder / "etc-hosts").write_text("127.0.0.1 localhost\n" + "".join(lines))
        for name in self.names:
            (self.folder / f"{name}.sshd").write_text(
                f"HostKey {self.folder}/host_key\nAuthorizedKeysFile {self.folder}/authorized\n"
                "StrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\n"
                "MaxStartups 100\nSubsystem sftp internal-sftp\n"
            )

    def _start(self) -> None:
        switch = "ip link add switch type bridge && ip link set switch up && echo up && exec cat"
        self._switch = subprocess.Popen(
            ["unshare", "-n", "sh", "-c", switch], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        _line(self._switch)
        inside = ["nsenter", "-t", str(self._switch.pid), "-n", "ip", "link"]
        for number, name in enumerate(self.names):
            script = _SETUP.format(
                name=name,
                folder=self.folder,
                root=ROOT,
                address=self.addresses[name],
                more=self._more.get(number, ""),
                sshd=SSHD,
            )
            words = ["unshare", "-n", "-u", "-m", "-p", "-f", "--mount-proc", "sh", "-c", script]
            host = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=(self.folder / f"{name}.log").open("wb"),
            )
            self._hosts[name] = host
            _line(host)
            children = Path(f"/proc/{host.pid}/task/{host.pid}/children").read_text().split()
            self.pids[name] = int(children[0])
            cable = f"cable{number}"
            peer = ("peer", "name", "eth0", "netns", str(self.pids[name]))
            subprocess.run([*inside, "add", cable, "type", "veth", *peer], check=True)
            subprocess.run([*inside, "set", cable, "master", "switch", "up"], check=True)
            assert host.stdin is not None
            host.stdin.write(b"go\n")
            host.stdin.flush()
        until = time.monotonic() + 20
        while late := [n for n in self.names if "sshd" not in " ".join(self.processes(n))]:
            logs = {name: (self.folder / f"{name}.log").read_text() for name in late}
            assert time.monotonic() < until, f"no sshd: {logs}"
            time.sleep(0.1)


def _line(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n", "this machine makes no namespaces"


def wait_for(condition: Sequence[str] | object, seconds: float = 60.0) -> None:
    """Wait until a function gives something true."""
    assert callable(condition)
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not come to that"
        time.sleep(0.2)
