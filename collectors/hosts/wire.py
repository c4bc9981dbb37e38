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
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

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


class Answer:
    """A message from a host: fields that it set, and bytes. Nothing in it is trusted."""

    def __init__(self, name: str, fields: Mapping[str, Any], blob: bytes) -> None:
        self.name = name
        self.fields = fields
        self.blob = blob

    @property
    def say(self) -> str:
        """What kind of message it is."""
        return self.text("say")

    def text(self, key: str) -> str:
        """Return a field that is a text, cut to a sane length; else ""."""
        value = self.fields.get(key)
        return value[:2000] if isinstance(value, str) else ""

    def number(self, key: str) -> float:
        """Return a field that is a number; else 0."""
        value = self.fields.get(key)
        return float(value) if isinstance(value, int | float) else 0.0

    def items(self, key: str, most: int = 10_000) -> list[Any]:
        """Return a field that is a list; else an empty one."""
        value = self.fields.get(key)
        return value[:most] if isinstance(value, list) else []


class Assembler:
    """Puts the lines of one channel together to messages; several hosts may share it."""

    def __init__(self) -> None:
        self._parts: dict[str, list[bytes]] = {}
        self._sizes: dict[str, int] = {}

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
            return Answer(name, {"say": words[3].decode(errors="replace")[:256].strip()}, b"")
        try:
            piece = base64.b64decode(words[3].strip(), validate=True)
        except (binascii.Error, ValueError) as error:
            raise WireError("a line of the far side was damaged on its way") from error
        self._sizes[name] = self._sizes.get(name, 0) + len(piece)
        if self._sizes[name] > MOST:
            raise WireError(f"it sent more than {MOST >> 20} MiB")
        self._parts.setdefault(name, []).append(piece)
        if words[2] != b".":
            return None
        del self._sizes[name]
        return _decoded(name, b"".join(self._parts.pop(name)))


def _decoded(name: str, whole: bytes) -> Answer:
    head, _, blob = whole.partition(b"\n")
    try:
        fields = json.loads(head)
    except (ValueError, RecursionError) as error:
        raise WireError("what the far side sent is no message") from error
    if not isinstance(fields, dict):
        raise WireError("what the far side sent is no message")
    return Answer(name, fields, blob)
