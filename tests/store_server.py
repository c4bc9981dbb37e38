"""A TCPStore server in Python that notes what it is asked, and other things that listen."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

NAMES = {0: "validate", 3: "get", 5: "check", 7: "getnumkeys", 13: "ping", 17: "list_keys"}


class FakeStore:
    """Answers like torch's server; ``asked`` holds the names of the queries as they came."""

    def __init__(self, keys: Mapping[str, bytes], *, lists: bool = True) -> None:
        self.keys = dict(keys)
        self.lists = lists
        self.asked: list[str] = []

    def serve(self, connection: socket.socket) -> None:
        """Talk to one client until it leaves or asks for what is not known."""
        stream = connection.makefile("rwb")
        while byte := stream.read(1):
            name = NAMES.get(byte[0], f"byte {byte[0]}")
            self.asked.append(name)
            if name not in NAMES.values() or (name == "list_keys" and not self.lists):
                return
            stream.write(getattr(self, f"_{name}")(stream))
            stream.flush()

    def _validate(self, stream) -> bytes:
        assert stream.read(4) == struct.pack("=I", 0x3C85F7CE)
        return b""

    def _ping(self, stream) -> bytes:
        return stream.read(4)

    def _getnumkeys(self, stream) -> bytes:
        return struct.pack("=q", len(self.keys))

    def _list_keys(self, stream) -> bytes:
        parts = [struct.pack("=Q", len(key)) + key.encode() for key in self.keys]
        return struct.pack("=q", len(self.keys)) + b"".join(parts)

    def _check(self, stream) -> bytes:
        (count,) = struct.unpack("=Q", stream.read(8))
        keys = [self._text(stream) for _ in range(count)]
        return bytes([0 if all(key in self.keys for key in keys) else 1])

    def _get(self, stream) -> bytes:
        value = self.keys[self._text(stream)]
        return struct.pack("=Q", len(value)) + value

    @staticmethod
    def _text(stream) -> str:
        (length,) = struct.unpack("=Q", stream.read(8))
        return stream.read(length).decode()


@contextmanager
def listening(serve: Callable[[socket.socket], object]) -> Iterator[int]:
    """Listen on a port of this machine and hand every connection to ``serve``."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    serve(connection)

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
