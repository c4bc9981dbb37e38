"""Plain data out of pickles of protocols 2 to 5. No code is looked up, none is run.

CPython's own unpickler does the work, on a stream in which every operation has been looked at:

* Only operations that build dicts, lists, texts, bytes, numbers, booleans and None pass.
  Whatever names a class or function, or calls one, is refused; ``find_class`` refuses as well.
* Tuples become lists: behind each that is built stands BINPERSID, and ``persistent_load``
  makes the list. A tuple could be a key of a dict, and hashing tuples that hold one another
  takes exponential time, or the whole C stack. What shares lists and dicts many times over is
  built once; nothing here or in this package walks through it as a tree.
* The size of the pickle, the number of containers and the numbers of the memo are bounded, and
  no operand reaches beyond the pickle.
* MEMOIZE, which counts by itself, becomes a numbered one, so that a piece from the middle of a
  pickle keeps its numbers.

Nearly all operations are looked at in runs of hundreds by one regular expression. It leaves out
those with 0x86 or 0x94 in an operand, so that in a run these bytes are TUPLE2 and MEMOIZE.
"""

import contextlib
import io
import pickle
import pickletools
import re
from collections.abc import Iterator, Mapping
from typing import NoReturn

MAX_BYTES = 64 * 1024 * 1024
MAX_CONTAINERS = 8_000_000
MAX_MEMO = 1 << 22

MEMOIZE = b"\x94"
MEMO = rb"(?:\x94|q.|r.{4})?"
"""The pattern of what may memoise an object behind the operation that builds it."""

STOP = ord(".")
_TUPLE2 = b"\x86"
_TO_LIST = b"Q"
_FRAME = 0x95
_LONG_PUT = ord("r")
_STACK_GLOBAL = 0x93
# Of texts only the short ones in ASCII; each length is an alternative.
_SHORT_TEXTS = b"|".join(
    re.escape(opcode + bytes((size,)) + more) + rb"[\x00-\x7f]{%d}" % size
    for opcode, more in ((b"X", b"\0\0\0"), (b"\x8c", b""))
    for size in range(48)
)
_ORDINARY = re.compile(
    rb"(?:h#|[\]}\(aeusN\x88\x89\x86\x94]+|K#|j##[\x00-\x0f]\x00|q#|M##|J####|\x8a\x08########"
    rb"|r##[\x00-\x0f]\x00|G########|%b){1,1000}".replace(b"#", rb"[^\x86\x94]")
    % _SHORT_TEXTS,
    re.DOTALL,
)
# Operations by the size of their operand, and by the size of what tells how many bytes follow.
_FIXED = {
    **dict.fromkeys(b"N\x88\x89]}()aeust\x85\x86\x87\x94.", 0),
    **dict.fromkeys(b"hqK", 1), **dict.fromkeys(b"M", 2), **dict.fromkeys(b"jrJ", 4),
    **dict.fromkeys(b"G", 8),
}  # fmt: skip
_COUNTED = {
    **dict.fromkeys(b"\x8cC\x8a", 1), **dict.fromkeys(b"XB", 4), **dict.fromkeys(b"\x8d\x8e", 8),
}  # fmt: skip
_TUPLES = b")t\x85\x86\x87"
_TEXTS = b"\x8cX\x8d"
_CODE = b"ciobRPQ\x81\x82\x83\x84\x92\x93"  # what looks up or calls something
_TWO_TEXTS = re.compile(
    rb"([\w.]{1,99})" + MEMO + rb"(?:X.{4}|\x8c.)([\w.]{1,99})" + MEMO + rb"\Z", re.DOTALL
)
_TWO_LINES = re.compile(rb"[ci]([\w.]{1,99})\n([\w.]{1,99})\n")
# What the documentation of pickle says may be raised, and what was seen on damaged dumps.
_FAILURES = (
    *(pickle.UnpicklingError, AttributeError, ImportError, IndexError, KeyError),
    *(MemoryError, OverflowError, TypeError, ValueError),
)


class UnsafePickleError(Exception):
    """The pickle asks for code; the text says which ("os.system")."""


class BadPickleError(Exception):
    """The pickle is truncated, damaged, too large, or uses what no plain data needs."""


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str, /) -> NoReturn:
        """Refuse to look anything up; no operation that asks for it gets here."""
        raise pickle.UnpicklingError(f"{module}.{name}")

    def persistent_load(self, pid: tuple[object, ...], /) -> list[object]:
        """Return the list for a tuple."""
        return list(pid)


class Builder:
    """Builds pieces of one pickle; each may refer to what earlier ones have memoised."""

    def __init__(self) -> None:
        self._machine: _PlainUnpickler | None = None

    def build(self, stream: bytes) -> object:
        """Build what a stream describes that ``checked`` has returned; ``BadPickleError``."""
        # Buffered: it asks a plain BytesIO for each token by itself, at five times the cost.
        machine = _PlainUnpickler(io.BufferedReader(io.BytesIO(stream), max(1, len(stream))))
        if self._machine is not None:
            # Only from one machine to the next: CPython loses what a dict is assigned here.
            machine.memo = self._machine.memo
        try:
            value: object = machine.load()
        except EOFError as error:
            raise BadPickleError("it ends in the middle") from error
        except _FAILURES as error:
            raise BadPickleError("its operations do not fit together") from error
        self._machine = machine
        return value

    def memo(self) -> Mapping[int, object]:
        """Return what has been memoised so far, by number."""
        return self._machine.memo.copy() if self._machine is not None else {}


def checked(data: bytes, number: int | None = 0) -> bytes:
    """Return operations as they may be given to ``Builder``, up to STOP or the end of the data.

    ``number`` is that of the first MEMOIZE; None: nothing refers to what is memoised here.
    Raises ``UnsafePickleError`` or ``BadPickleError``.
    """
    parts = []
    for start, end, ordinary in operations(data):
        part = data[start:end]
        if ordinary:
            part = part.replace(_TUPLE2, _TUPLE2 + _TO_LIST)
            first, *others = part.split(MEMOIZE)
            parts.append(first)
            for other in others:
                if number is not None:
                    parts.append(put(number))
                    number += 1
                parts.append(other)
        elif data[start] in _TUPLES:
            parts.append(part + _TO_LIST)
        elif data[start] in _TEXTS and not part.isascii():
            parts.append(_decodable(part))
        else:
            parts.append(part)
    return b"".join(parts)


def operations(data: bytes, at: int = 0) -> Iterator[tuple[int, int, bool]]:
    """Yield start and end of operations up to STOP, and whether they are a run of ordinary ones.

    Others come one by one. Raises ``UnsafePickleError`` for one that asks for code and
    ``BadPickleError`` for one that no plain data needs or that reaches beyond the end.
    """
    while at < len(data):
        run = _ORDINARY.match(data, at)
        end = run.end() if run is not None else _end_of_operation(data, at)
        if end > len(data):
            raise BadPickleError("it ends in the middle")
        yield at, end, run is not None
        at = end if data[at] != STOP else len(data)


def _end_of_operation(data: bytes, at: int) -> int:
    code = data[at]
    if code in _FIXED:
        end = at + 1 + _FIXED[code]
        if code == _LONG_PUT and int.from_bytes(data[at + 1 : end], "little") > MAX_MEMO:
            raise BadPickleError(f"it memoises more than {MAX_MEMO:,} objects")
        return end
    if code in _COUNTED:
        start = at + 1 + _COUNTED[code]
        return start + int.from_bytes(data[at + 1 : start], "little")
    if code not in _CODE:
        raise BadPickleError(f"operation 0x{code:02x} has no place in plain data")
    names = _TWO_LINES.match(data, at)
    if code == _STACK_GLOBAL:
        names = _TWO_TEXTS.search(data, max(0, at - 250), at)
    if names is None:
        name = next(one.name for one in pickletools.opcodes if one.code == chr(code))
        raise UnsafePickleError(f"the operation {name}")
    raise UnsafePickleError(b".".join(names.groups()).decode("ascii", "replace"))


def _decodable(text: bytes) -> bytes:
    """Return the operation for a text, with what is no UTF-8 replaced."""
    start = 1 + _COUNTED[text[0]]
    encoded = str(text[start:], "utf-8", "replace").encode()
    return b"X" + len(encoded).to_bytes(4, "little") + encoded


def unframed(data: bytes) -> bytes:
    """Return a pickle of protocol 4 or 5 without its frames, which only tell how much to read."""
    if data[1] < 4:
        return data
    at, parts = 2, [data[:2]]
    while at < len(data):
        code = data[at]
        if code == _FRAME:
            start = at + 9
            at = start + int.from_bytes(data[at + 1 : start], "little")
        elif code in _COUNTED:  # a large text or bytes stand between two frames
            start, at = at, _end_of_operation(data, at)
        else:  # the last few operations may have none
            start, at = at, len(data)
        parts.append(data[start:at])
    return b"".join(parts)


def load(data: bytes) -> object:
    """Build the plain data that a pickle describes.

    Raises ``UnsafePickleError`` where it asks for code, ``BadPickleError`` where it cannot be
    read or goes beyond the limits of this module.
    """
    if len(data) > MAX_BYTES:
        raise BadPickleError(f"it is larger than {MAX_BYTES >> 20} MiB")
    if sum(data.count(opening) for opening in (b"]", b"}", b")", b"t", _TUPLE2)) > MAX_CONTAINERS:
        raise BadPickleError(f"it holds more than {MAX_CONTAINERS:,} lists and dicts")
    return Builder().build(checked(unframed(data)[2:]))


def refuse_old(data: bytes) -> NoReturn:
    """Raise ``UnsafePickleError`` or ``BadPickleError`` for a pickle of protocol 0 or 1."""
    with contextlib.suppress(ValueError):  # where it is damaged
        for operation, argument, _ in pickletools.genops(data[: 1 << 20]):
            if operation.name in {"GLOBAL", "INST"}:
                raise UnsafePickleError(str(argument)[:200].replace(" ", "."))
    raise BadPickleError("it is a pickle of protocol 0 or 1, which no recorder writes")


def put(number: int) -> bytes:
    """Return BINPUT or LONG_BINPUT."""
    return bytes((ord("q"), number)) if number < 256 else b"r" + number.to_bytes(4, "little")


def get(number: int) -> bytes:
    """Return BINGET or LONG_BINGET."""
    return bytes((ord("h"), number)) if number < 256 else b"j" + number.to_bytes(4, "little")
