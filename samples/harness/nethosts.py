"""Runs one program on several hosts that are namespaces of this machine.

Run by path as root (standard library, ``ip`` and ``mount``), for samples that need more than one
host::

    python -I -S nethosts.py 2 PROGRAM ARGUMENT...

Each host has a network, host name and files of its own: ``node0`` is 10.77.0.1, ``node1``
10.77.0.2 and so on, on one switch, and /etc/hosts names them all. The program finds its number
in ``HOST_NUMBER`` and may change its own firewall, addresses and mounts. All of it exists in
namespaces only, which end with the last process in them, so that nothing is left behind on the
machine, however the sample ends.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile

# linux/sched.h
_MOUNTS, _NAMES, _NETWORK = 0x00020000, 0x04000000, 0x40000000


def _unshare() -> None:
    """Go into namespaces of our own. Raises ``OSError`` without the right to."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(_MOUNTS | _NAMES | _NETWORK):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    _run("mount", "--make-rprivate", "/")
    _run("ip", "link", "set", "lo", "up")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def _host(number: int, count: int, command: list[str]) -> None:
    """Become one host and run the program on it."""
    _unshare()
    sys.stdout.write("unshared\n")
    sys.stdout.flush()
    sys.stdin.readline()  # now the switch has given us our end of a cable
    _run("ip", "address", "add", f"10.77.0.{number + 1}/24", "dev", "eth0")
    _run("ip", "link", "set", "eth0", "up")
    _run("hostname", f"node{number}")
    with tempfile.NamedTemporaryFile("w", delete=False) as names:
        names.write("127.0.0.1 localhost\n")
        names.writelines(f"10.77.0.{each + 1} node{each}\n" for each in range(count))
    os.chmod(names.name, 0o644)
    _run("mount", "--bind", names.name, "/etc/hosts")
    os.environ |= {"HOST_NUMBER": str(number), "GLOO_SOCKET_IFNAME": "eth0"}
    silent, _held_open = os.pipe()
    os.dup2(silent, 0)
    os.dup2(2, 1)
    os.execvp(command[0], command)


def main() -> int:
    """Build the switch, start the hosts, and wait for them."""
    if sys.argv[1] == "--host":
        _host(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
    count, command = int(sys.argv[1]), sys.argv[2:]
    _unshare()
    _run("ip", "link", "add", "switch", "type", "bridge")
    _run("ip", "link", "set", "switch", "up")
    hosts = []
    for number in range(count):
        own = [sys.executable, "-I", "-S", __file__, "--host", str(number), str(count), *command]
        host = subprocess.Popen(own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert host.stdin is not None
        assert host.stdout is not None
        host.stdout.readline()
        cable = f"cable{number}"
        peer = ("peer", "name", "eth0", "netns", str(host.pid))
        _run("ip", "link", "add", cable, "type", "veth", *peer)
        _run("ip", "link", "set", cable, "master", "switch", "up")
        hosts.append(host)
    for host in hosts:
        assert host.stdin is not None
        host.stdin.write("go\n")
        host.stdin.flush()
    return max(host.wait() for host in hosts)


if __name__ == "__main__":
    sys.exit(main())
