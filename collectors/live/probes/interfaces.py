"""The network interfaces of a job's host: which there are, whether they carry, their addresses.

Asked of the kernel by ioctl (netdevice(7)), which tells of the network that whyhang is in: of one
that the job has for itself nothing is said, unless whyhang runs there, too.
"""

import contextlib
import fcntl
import os
import socket
import struct
from collections.abc import Iterator

from whyhang.analyzer.facts import NetworkPort, Who
from whyhang.collectors.files.claims import CLAIMS
from whyhang.collectors.live.probes.probe import Collected, Probe, Site

MOST = 64
_FLAGS, _ADDRESS = 0x8913, 0x8915  # SIOCGIFFLAGS, SIOCGIFADDR of linux/sockios.h
_UP, _LOOPBACK, _RUNNING = 0x1, 0x8, 0x40  # of linux/if.h
_NAME = 16  # IFNAMSIZ, of a struct ifreq of 40 bytes
_REQUEST = struct.Struct(f"{_NAME}s24x")


def collect(site: Site, collected: Collected) -> None:
    """Ask where the first rank lives in the same network as whyhang."""
    proc = site.host.proc
    ranks = [process.who.pid for process in site.ranks_seen]
    if ranks and not proc.foreign(ranks[0] or 0, "net"):
        collected.facts += interfaces(site.hostname)


def interfaces(hostname: str) -> Iterator[NetworkPort]:
    """Yield the interfaces of this network but for its loopback."""
    who = Who(host=hostname)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex()[:MOST]:
            request = _REQUEST.pack(os.fsencode(name))
            with contextlib.suppress(OSError):  # it may be gone by now
                answer = fcntl.ioctl(asked, _FLAGS, request)
                flags = int.from_bytes(answer[_NAME : _NAME + 2], "little")
                if flags & _LOOPBACK:
                    continue
                state = "down" if not flags & _UP else "up"
                if flags & _UP and not flags & _RUNNING:
                    state = "without carrier"
                address = _address(asked, request)
                yield NetworkPort(
                    name=name,
                    quote=f"{name}: {state}" + (f", {address}" if address else ""),
                    up=state == "up",
                    state=state,
                    addresses=(address,) if address else (),
                    who=who,
                    source=CLAIMS,
                )


def _address(asked: socket.socket, request: bytes) -> str:
    """Return the first IPv4 address of an interface, or nothing."""
    with contextlib.suppress(OSError):
        answer = fcntl.ioctl(asked, _ADDRESS, request)
        return socket.inet_ntoa(answer[_NAME + 4 : _NAME + 8])
    return ""


PROBE = Probe(name="the network interfaces", limit=1.0, collect=collect)
