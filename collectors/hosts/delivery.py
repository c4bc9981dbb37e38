"""Which self-contained file goes to a host that has no whyhang, a few hosts at a time."""

import hashlib
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from whyhang.collectors.hosts import payload, wire
from whyhang.collectors.hosts.remote_host import RemoteHost
from whyhang.collectors.hosts.wire import Answer

AT_ONCE = 16
"""Hosts that are sent the file at a time: it is megabytes."""


class Fitting(NamedTuple):
    """A Python of a host, and whyhang for it."""

    python: str
    program: bytes


class Delivery:
    """Hosts that wait for whyhang; ``seconds`` is how long making it for them has taken."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.seconds = 0.0
        self._tell = tell
        self._waiting: list[tuple[RemoteHost, Answer]] = []
        self._sent: list[RemoteHost] = []
        self._programs: dict[payload.Platform, bytes | None] = {}

    def add(self, host: RemoteHost, hello: Answer) -> None:
        """Put a host into the line, with what it says of itself."""
        self._waiting.append((host, hello))

    def send(self) -> Iterator[tuple[RemoteHost, bytes | None, str]]:
        """Yield hosts whose turn it is: the order with the program; None where none runs there.

        The last is the version of the Python on its PATH.
        """
        under_way = sum(not host.ready and host.gap is None for host in self._sent)
        while self._waiting and under_way < AT_ONCE:
            host, hello = self._waiting.pop(0)
            fitting = self._fitting(hello)
            if fitting is None:
                yield host, None, hello.text("python")
                continue
            digest = hashlib.sha256(fitting.program).hexdigest()
            yield (
                host,
                wire.question(
                    "payload",
                    [host.own_name],
                    fitting.program,
                    sha256=digest,
                    python=fitting.python,
                ),
                hello.text("python"),
            )
            self._sent.append(host)
            under_way += 1

    def _fitting(self, hello: Answer) -> Fitting | None:
        """Choose a Python of a host and what to send for it: as here, else whatever pip can get."""
        listed = hello.fields.get("pythons")
        pythons = {str(k): str(v) for k, v in listed.items()} if isinstance(listed, dict) else {}
        own, machine, system = payload.here(), hello.text("machine"), hello.text("system")
        if hello.text("libc") != "glibc":
            return None
        for version in (own.python, hello.text("python")):
            if version not in pythons:
                continue
            wanted = payload.Platform(python=version, machine=machine, system=system)
            if wanted not in self._programs:
                began = time.monotonic()
                self._tell(f"making what runs in Python {version}")
                self._programs[wanted] = payload.self_contained(wanted)
                self.seconds += time.monotonic() - began
            if (program := self._programs[wanted]) is not None:
                return Fitting(pythons[version], program)
        return None
