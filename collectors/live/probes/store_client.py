"""Reads the keys of a TCPStore as one more client that only asks, in a process of its own.

Run by path (standard library only, no import of whyhang, nor of torch)::

    python -I -S store_client.py '{"host": "10.0.0.1", "port": 29500, "limit": 3.0, ...}'

It prints one JSON object a line as it goes, each holding what is new, so that a process that had
to be given up has still told how far it came.

The protocol is torch's own (torch/csrc/distributed/c10d/TCPStoreBackend.hpp and the two servers
behind it): a query is one byte and its arguments; numbers are in host order; a text has its
length in 8 bytes before it. What is spoken here and by no other code in whyhang are the queries
that change nothing: VALIDATE, PING, GETNUMKEYS, CHECK, GET, LIST_KEYS. Speaking it needs no torch
here, and leaves no code path that could set, add or wait.

A server of torch 2.0 or older knows no VALIDATE and would take it for the SET of a key whose
length stands in the next 8 bytes. They are chosen so that the length is impossible, which makes
that server close the connection; and a query goes out in one piece, because its server serves
one client at a time.
"""

import contextlib
import ctypes
import errno
import json
import math
import os
import signal
import socket
import struct
import sys
import time
from typing import Any

VALIDATE, GET, CHECK, GETNUMKEYS, PING, LIST_KEYS = 0, 3, 5, 7, 13, 17
MAGIC = 0x3C85F7CE
NONCE = b"\xff\xff\xff\xff"
"""What the server has to send back; see above for why it is this."""

MAX_BYTES = 16 << 20
"""Bytes of keys read; a store that holds more is cut off."""

MAX_KEYS = 20_000
"""Keys told; ``num_keys`` says how many there are."""

MAX_VALUE = 64 << 10
_CLONE_NEWNET = 0x40000000  # linux/sched.h
_CLONE_NEWNS = 0x00020000
_IP_MTU_DISCOVER, _IP_MTU, _PROBE = 10, 14, 3  # linux/in.h; _PROBE: never cut up, any size
_HEADERS = 28  # bytes of the headers of IP and ICMP
_ECHO_WAIT = 1.0
_NO_WAY = {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT, errno.EHOSTDOWN}


class NoStoreError(Exception):
    """What answers is no store; holds the first bytes that it said."""


_OUTCOMES: tuple[tuple[type[Exception], str], ...] = (
    (socket.gaierror, "unresolved"),
    (NoStoreError, "stranger"),
    (TimeoutError, "timeout"),
    (ConnectionRefusedError, "refused"),
    (EOFError, "closed"),
    (ConnectionError, "closed"),
    (OSError, "failed"),
)


def tell(**fields: object) -> None:
    """Print what was found out."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def enter(pid: int, kind: str, flag: int) -> None:
    """Go into a namespace of another process. Raises ``OSError`` where that is not allowed."""
    descriptor = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY)
    try:
        library = ctypes.CDLL(None, use_errno=True)
        if library.setns(descriptor, flag):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(descriptor)


def text(value: str) -> bytes:
    """Write a text as the protocol does."""
    data = value.encode("utf-8", "surrogateescape")
    return struct.pack("=Q", len(data)) + data


class Client:
    """A connection to a store, with one deadline for everything.

    Raises ``NoStoreError`` where no store answers.
    """

    def __init__(self, task: dict[str, Any], deadline: float) -> None:
        self._connection = connect(task["host"], task["port"], deadline)
        self._deadline = deadline
        self._held = bytearray()
        tell(connected_to=self._connection.getpeername()[0], stage="greeting")
        self.ask(struct.pack("=BIB", VALIDATE, MAGIC, PING) + NONCE)
        answer = self._receive(256)
        if answer != NONCE:
            raise NoStoreError(answer[:80].decode("ascii", "backslashreplace"))

    def ask(self, query: bytes) -> None:
        """Send queries, all in one piece."""
        self._limit()
        self._connection.sendall(query)

    def _limit(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)

    def take(self, count: int) -> bytes:
        """Read so many bytes. Raises ``EOFError`` where the server closes before."""
        while len(self._held) < count:
            self._held += self._receive(1 << 16)
        data = bytes(self._held[:count])
        del self._held[:count]
        return data

    def _receive(self, most: int) -> bytes:
        self._limit()
        data = self._connection.recv(most)
        if not data:
            raise EOFError
        return data

    def number(self) -> int:
        """Read a count."""
        return int(struct.unpack("=q", self.take(8))[0])

    def count_keys(self) -> int:
        """Ask how many keys there are."""
        self.ask(bytes([GETNUMKEYS]))
        return self.number()

    def list_keys(self) -> list[str]:
        """Ask for all keys. Raises ``EOFError`` where the server does not know the query."""
        self.ask(bytes([LIST_KEYS]))
        count = self.number()
        keys, size = [], 0
        for _ in range(min(max(count, 0), MAX_KEYS)):
            length = self.number()
            size += length
            if length < 0 or size > MAX_BYTES:
                break
            keys.append(self.take(length).decode("utf-8", "backslashreplace"))
        return sorted(keys)

    def check(self, keys: list[str]) -> list[str]:
        """Ask which of these keys are there, one by one."""
        one = [bytes([CHECK]) + struct.pack("=Q", 1) + text(key) for key in keys]
        self.ask(b"".join(one))
        return [key for key, there in zip(keys, self.take(len(keys)), strict=True) if there == 0]

    def get(self, key: str) -> bytes:
        """Read the value of a key that is there."""
        self.ask(bytes([GET]) + text(key))
        length = self.number()
        if not 0 <= length <= MAX_VALUE:
            raise EOFError
        return self.take(length)


def connect(host: str, port: int, deadline: float) -> socket.socket:
    """Connect to the first address that answers, as torch does. Raises ``OSError``."""
    # as bytes a name needs no codec for other alphabets, which takes 10 ms to load
    name = host.encode() if host.isascii() else host
    entries = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
    tell(resolved=addresses, stage="connecting")
    trouble: OSError | None = None
    for number, (family, kind, protocol, _, address) in enumerate(entries):
        left = deadline - time.monotonic()
        if left <= 0:
            break
        connection = socket.socket(family, kind, protocol)
        # an address that drops packets must leave time for the next
        connection.settimeout(left / (len(entries) - number))
        try:
            connection.connect(address)
        except OSError as error:
            connection.close()
            trouble = error
        else:
            return connection
    raise trouble or TimeoutError()


def read(task: dict[str, Any], deadline: float) -> None:
    """Read keys and the values that were asked for, as far as the server can tell them."""
    client = Client(task, deadline)
    tell(outcome="answered", num_keys=client.count_keys(), stage="listing")
    try:
        keys = client.list_keys()
        tell(keys=keys, complete=True, stage="values")
    except (EOFError, ConnectionError):  # an older server: ask for those one knows
        client = Client(task, deadline)
        keys = client.check(task["guesses"])
        tell(outcome="answered", keys=keys, complete=False, stage="values")
    for key in [key for key in keys if any(part in key for part in task["values"])][:256]:
        if client.check([key]):
            value = client.get(key)
            tell(values={key: value.decode("utf-8", "backslashreplace")})
    tell(stage="")


def echo(address: str, size: int) -> bool:
    """Send one echo request (ping) of ``size`` bytes that may not be cut up; tell of an answer.

    Raises ``OSError`` where that is not allowed or not possible.
    """
    kind = socket.SOCK_DGRAM
    try:
        connection = socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP)
    except PermissionError:
        kind = socket.SOCK_RAW
        connection = socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP)
    with connection:
        connection.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _PROBE)
        connection.settimeout(_ECHO_WAIT)
        payload = struct.pack("=IQ", MAGIC, time.monotonic_ns()).ljust(size - _HEADERS, b"w")
        packet = struct.pack("!BBHHH", 8, 0, 0, 1, 1) + payload
        words = struct.unpack(f"!{len(packet) // 2}H", packet[: len(packet) // 2 * 2])
        total = sum(words) + (packet[-1] << 8 if len(packet) % 2 else 0)
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        checked = packet[:2] + struct.pack("!H", ~total & 0xFFFF) + packet[4:]
        connection.sendto(checked, (address, 0))
        until = time.monotonic() + _ECHO_WAIT
        with contextlib.suppress(TimeoutError):
            while time.monotonic() < until:
                data = connection.recv(65535)
                if kind == socket.SOCK_RAW:
                    data = data[(data[0] & 15) * 4 :]  # behind the header of IP
                if data[:1] == b"\0" and payload[:12] in data[:64]:
                    return True
    return False


def probe(address: str) -> None:
    """Try whether packets as large as the kernel would send come through where small ones do."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unused:
            unused.connect((address, 9))  # sends nothing
            mtu = unused.getsockopt(socket.IPPROTO_IP, _IP_MTU)
        tell(mtu=mtu, echo_small=echo(address, 84))
        tell(echo_large=echo(address, mtu) or echo(address, mtu))
    except OSError as error:
        tell(probe_trouble=error.strerror or str(error))


def main() -> None:
    """Do what the argument says."""
    task = json.loads(sys.argv[1])
    spare = 1 + (4 if task.get("probe") else 0)
    # resolving a name has no limit of its own
    signal.alarm(math.ceil(task["limit"]) + spare)
    if task.get("mnt"):
        "".encode("idna")  # loads what naming needs, before other files stand below its path
    deadline = time.monotonic() + task["limit"]
    tell(stage="entering")
    try:
        for kind, flag in (("net", _CLONE_NEWNET), ("mnt", _CLONE_NEWNS)):
            if task.get(kind):
                enter(task[kind], kind, flag)
    except OSError as error:
        tell(outcome="elsewhere", why=error.strerror or str(error))
        return
    tell(stage="resolving")
    ask_store(task, deadline)
    if task.get("probe"):
        with contextlib.suppress(OSError):
            probe(socket.gethostbyname(task["host"]))


def ask_store(task: dict[str, Any], deadline: float) -> None:
    """Read the store, or only connect to it, and tell what came of it where that failed."""
    try:
        if task.get("store", True):
            read(task, deadline)
        else:
            connect(task["host"], task["port"], deadline).close()
            tell(outcome="not asked")
    except (OSError, EOFError, NoStoreError) as error:
        outcome = next(name for kind, name in _OUTCOMES if isinstance(error, kind))
        if outcome == "failed" and getattr(error, "errno", None) in _NO_WAY:
            outcome = "unreachable"
        tell(outcome=outcome, why=getattr(error, "strerror", None) or str(error))


if __name__ == "__main__":
    main()
    os._exit(0)  # all is told and flushed; an orderly end would take longer than a store's answer
