"""The lines that go to and come from a far side: one message on one or a few lines.

To a far side: a line of JSON, behind it as many bytes as its ``size`` says. From it: lines that
begin with ``MARK`` and the name that the far side has for itself; a message is cut into pieces
of base64, the last of which is marked "."; a plain word that a shell can print is marked "!".
Everything else on its standard output (what a shell
prints at login) is no message.
"""

import base64
import binascii
import json
from collections.abc import Iterator, Sequence

import msgspec

from whyhang.analyzer.facts import Record, replace

MARK = "@whyhang1"
PIECE = 24 << 10
MOST = 64 << 20
"""Bytes of one message from a host; what sends more is no far side of ours."""


class WireError(Exception):
    """What came is no message."""


def question(
    do: str, to: Sequence[str] | None = None, blob: bytes = b"", **fields: object
) -> bytes:
    """Write a message to far sides: to all that read it, or to those named."""
    head = {"do": do, "to": to, "size": len(blob), **fields}
    return json.dumps(head).encode() + b"\n" + blob


def answer(name: str, say: str, blob: bytes = b"", **fields: object) -> Iterator[str]:
    """Yield the lines of a message from the far side that calls itself ``name``."""
    data = json.dumps({"say": say, **fields}).encode() + b"\n" + blob
    for start in range(0, len(data), PIECE):
        last = start + PIECE >= len(data)
        piece = base64.b64encode(data[start : start + PIECE]).decode()
        yield f"{MARK} {name} {'.' if last else '+'} {piece}\n"


class JobThere(Record):
    """A job that was found on a host."""

    name: str
    ranks: int


class Answer(Record):
    """A message from a host: bytes, and the fields of its kind. What they say is not trusted.

    ``name`` is what the host calls itself, ``say`` the kind. Those of "hello" tell of the host and
    its Pythons, of "clock" what time it was, of "trouble" what went wrong; of "found" the jobs,
    their logs (with whether a rank there alone writes it), addresses of the host and hosts that it
    knows of; ``number`` says of which job a part is.
    """

    say: str
    name: str = ""
    blob: bytes = b""
    node: str = ""
    python: str = ""
    pythons: dict[str, str] = {}
    machine: str = ""
    system: str = ""
    libc: str = ""
    has: bool = False
    sent: float = 0.0
    now: float = 0.0
    why: str = ""
    remedy: str = ""
    jobs: tuple[JobThere, ...] = ()
    logs: dict[str, bool] = {}
    own: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    number: int = 0


class Assembler:
    """Puts the lines of one channel together to messages; several hosts may share it."""

    def __init__(self) -> None:
        self._parts: dict[str, bytearray] = {}

    def line(self, data: bytes) -> Answer | None:
        """Take a line; return the message that it completes. Raises ``WireError``."""
        mark = data.find(MARK.encode())
        if mark < 0 or mark > 64:  # srun and others put a label in front
            return None
        words = data[mark:].split(None, 3)
        if len(words) != 4:
            raise WireError("a line of the far side was cut off")
        name = words[1].decode(errors="replace")[:256]
        if words[2] == b"!":
            return Answer(say=words[3].decode(errors="replace")[:256].strip(), name=name)
        try:
            piece = base64.b64decode(words[3].strip(), validate=True)
        except (binascii.Error, ValueError) as error:
            raise WireError("a line of the far side was damaged on its way") from error
        whole = self._parts.setdefault(name, bytearray())
        whole += piece
        if len(whole) > MOST:
            raise WireError(f"it sent more than {MOST >> 20} MiB")
        if words[2] != b".":
            return None
        head, _, blob = bytes(self._parts.pop(name)).partition(b"\n")
        try:
            return replace(msgspec.json.decode(head, type=Answer), name=name, blob=blob)
        except (ValueError, RecursionError) as error:
            raise WireError("what the far side sent is no message") from error
