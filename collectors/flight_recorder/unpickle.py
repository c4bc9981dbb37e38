"""Plain data out of a pickle, and nothing else: no code is looked up, none is run.

A small machine for the opcodes that dicts, lists, tuples, text, bytes, numbers, booleans and
None need, in the binary protocols 2 to 5. Whatever names a class or function, or calls one, is
refused by name before anything is built. Everything is bounded: the size of the input, the
number of operations, the depth of the result, memo indexes, and what may be a key of a dict
(hashing a tuple of tuples can take exponential time).

This is the slow and sure way, about 0.3 µs an operation; ``torch_dump.py`` has the fast one for
the layout that torch writes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeAlias

MAX_BYTES = 256 * 1024 * 1024
MAX_OPERATIONS = 6_000_000
MAX_DEPTH = 32

Plain: TypeAlias = object  # dict, list, tuple, str, bytes, int, float, bool, None


class UnsafePickleError(Exception):
    """The pickle asks for code; the text says which ("os.system")."""


class BadPickleError(Exception):
    """The pickle is truncated, damaged, too large, or uses what no plain data needs."""


class _Mark:
    """What MARK leaves on the stack."""


_MARK = _Mark()
_END = object()
_NEVER = {
    b"c": "GLOBAL", b"i": "INST", b"o": "OBJ", b"R": "REDUCE", b"b": "BUILD", b"P": "PERSID",
    b"Q": "BINPERSID", b"\x81": "NEWOBJ", b"\x82": "EXT1", b"\x83": "EXT2", b"\x84": "EXT4",
    b"\x92": "NEWOBJ_EX", b"\x93": "STACK_GLOBAL",
}  # fmt: skip
_KEY_TYPES = (str, int, float, bool, bytes, type(None))


class _Machine:
    """Runs one pickle. The opcodes are those of ``pickletools``."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.stack: list[object] = []
        self.memo: dict[int, object] = {}

    def run(self) -> Plain:
        """Execute up to STOP and give what is on top then."""
        table, data, end = _TABLE, self.data, len(self.data)
        for _ in range(MAX_OPERATIONS):
            if self.at >= end:
                raise BadPickleError("it ends in the middle")
            code = data[self.at]
            self.at += 1
            action = table[code]
            if action is None:
                self._refuse(code)
            elif action(self) is _END:
                return self.pop()
        raise BadPickleError(f"it takes more than {MAX_OPERATIONS:,} operations")

    def take(self, count: int) -> bytes:
        """Read the argument of an opcode."""
        start = self.at
        self.at += count
        if self.at > len(self.data):
            raise BadPickleError("it ends in the middle")
        return self.data[start : self.at]

    def number(self, count: int) -> int:
        """Read an unsigned little-endian argument."""
        return int.from_bytes(self.take(count), "little")

    def pop(self) -> object:
        """Take the top of the stack."""
        if not self.stack or self.stack[-1] is _MARK:
            raise BadPickleError("its operations do not fit together")
        return self.stack.pop()

    def top(self) -> object:
        """Look at the top of the stack."""
        if not self.stack:
            raise BadPickleError("its operations do not fit together")
        return self.stack[-1]

    def above_mark(self) -> list[object]:
        """Take everything above the last MARK, and the MARK."""
        stack = self.stack
        for place in range(len(stack) - 1, -1, -1):
            if stack[place] is _MARK:
                items = stack[place + 1 :]
                del stack[place:]
                return items
        raise BadPickleError("its operations do not fit together")

    def put(self, index: int) -> None:
        """Remember the top of the stack."""
        if index > len(self.data):  # every entry takes bytes of its own
            raise BadPickleError("its memo is larger than itself")
        self.memo[index] = self.top()

    def get(self, index: int) -> None:
        """Push something remembered."""
        if index not in self.memo:
            raise BadPickleError("it refers to what it does not hold")
        self.stack.append(self.memo[index])

    def set_items(self, items: list[object]) -> None:
        """Fill the dict on top with keys and values in turn."""
        target = self.top()
        if not isinstance(target, dict) or len(items) % 2:
            raise BadPickleError("its operations do not fit together")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, _KEY_TYPES):
                raise BadPickleError("a key of a dict is neither text nor a number")
            target[key] = value

    def extend(self, items: list[object]) -> None:
        """Append to the list on top."""
        target = self.top()
        if not isinstance(target, list):
            raise BadPickleError("its operations do not fit together")
        target.extend(items)

    def text(self, size: int) -> None:
        """Push text."""
        self.stack.append(str(self.take(size), "utf-8", "replace"))

    def tuple_of(self, count: int) -> None:
        """Push a tuple of the topmost items."""
        items = [self.pop() for _ in range(count)]
        self.stack.append(tuple(reversed(items)))

    def _refuse(self, code: int) -> None:
        opcode = bytes([code])
        name = _NEVER.get(opcode)
        if name is None:
            raise BadPickleError(f"operation 0x{code:02x} has no place in plain data")
        wanted = ""
        if opcode in b"ci":
            words = self.data[self.at : self.at + 200].split(b"\n", 2)[:2]
            wanted = ".".join(word.decode("utf-8", "replace") for word in words)
        elif name == "STACK_GLOBAL":
            wanted = ".".join(str(item)[:80] for item in self.stack[-2:])
        raise UnsafePickleError(wanted or f"the operation {name}")


Action: TypeAlias = Callable[[_Machine], object]


def _push(value: Callable[[_Machine], object]) -> Action:
    return lambda m: m.stack.append(value(m))


def _long(size: int) -> Action:
    def action(m: _Machine) -> None:
        count = m.number(size)
        if count > 64:
            raise BadPickleError("a number in it has more than 64 bytes")
        m.stack.append(int.from_bytes(m.take(count), "little", signed=True))

    return action


def _append(m: _Machine) -> None:
    item = m.pop()
    m.extend([item])


def _set_item(m: _Machine) -> None:
    value, key = m.pop(), m.pop()
    m.set_items([key, value])


def _tuple(m: _Machine) -> None:
    m.stack.append(tuple(m.above_mark()))


_ACTIONS: dict[bytes, Action] = {
    b"\x80": lambda m: m.take(1),  # PROTO
    b"\x95": lambda m: m.take(8),  # FRAME
    b".": lambda _: _END,
    b"(": _push(lambda _: _MARK),
    b"}": _push(lambda _: {}),
    b"]": _push(lambda _: []),
    b")": _push(lambda _: ()),
    b"N": _push(lambda _: None),
    b"\x88": _push(lambda _: True),
    b"\x89": _push(lambda _: False),
    b"K": _push(lambda m: m.number(1)),
    b"M": _push(lambda m: m.number(2)),
    b"J": _push(lambda m: int.from_bytes(m.take(4), "little", signed=True)),
    b"G": _push(lambda m: struct.unpack(">d", m.take(8))[0]),
    b"\x8a": _long(1),
    b"\x8b": _long(4),
    b"X": lambda m: m.text(m.number(4)),
    b"\x8c": lambda m: m.text(m.number(1)),
    b"\x8d": lambda m: m.text(m.number(8)),
    b"B": _push(lambda m: m.take(m.number(4))),
    b"C": _push(lambda m: m.take(m.number(1))),
    b"q": lambda m: m.put(m.number(1)),
    b"r": lambda m: m.put(m.number(4)),
    b"\x94": lambda m: m.put(len(m.memo)),  # MEMOIZE
    b"h": lambda m: m.get(m.number(1)),
    b"j": lambda m: m.get(m.number(4)),
    b"a": _append,
    b"e": lambda m: m.extend(m.above_mark()),
    b"s": _set_item,
    b"u": lambda m: m.set_items(m.above_mark()),
    b"t": _tuple,
    b"\x85": lambda m: m.tuple_of(1),
    b"\x86": lambda m: m.tuple_of(2),
    b"\x87": lambda m: m.tuple_of(3),
}
_TABLE: list[Action | None] = [_ACTIONS.get(bytes([code])) for code in range(256)]


def load(data: bytes) -> Plain:
    """Build the plain data that ``data`` describes.

    Raises ``UnsafePickleError`` where it asks for code, ``BadPickleError`` where it cannot be
    read or goes beyond the limits of this module.
    """
    if len(data) > MAX_BYTES:
        raise BadPickleError(f"it is larger than {MAX_BYTES >> 20} MiB")
    value = _Machine(data).run()
    if _deeper_than(value, MAX_DEPTH):
        raise BadPickleError(f"it is nested more than {MAX_DEPTH} deep, or in itself")
    return value


def _deeper_than(value: Plain, limit: int) -> bool:
    """Measure level by level; what is met again on the same level counts once."""
    level: list[object] = [value]
    for _ in range(limit):
        inner: dict[int, object] = {}
        for item in level:
            parts = item.values() if isinstance(item, dict) else item
            if isinstance(item, dict | list | tuple):
                for part in parts:  # type: ignore[attr-defined]
                    if isinstance(part, dict | list | tuple):
                        inner[id(part)] = part
        if not inner:
            return False
        level = list(inner.values())
    return True
