r"""A pattern as a small tree over bytes, for finding out what to look for instead of it.

The parser of Python's ``re`` reads the pattern; what only the ``regex`` module knows it refuses.
The tree is looser than the pattern: whatever the pattern matches in a line, the tree does. Groups
are gone, and so are ``^``, ``$`` and ``\b``, since a launcher's prefix or a carriage return may
stand where they want nothing. Blanks and digits are those of ASCII.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterable
from typing import Any

import regex

from whyhang.analyzer.facts import Record

if sys.version_info >= (3, 11):
    from re import _constants as sre  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]
else:
    import sre_constants as sre
    import sre_parse as parser

_REPEATS = {sre.MAX_REPEAT, sre.MIN_REPEAT, getattr(sre, "POSSESSIVE_REPEAT", None)}
_CATEGORIES = {
    sre.CATEGORY_DIGIT: rb"\d",
    sre.CATEGORY_SPACE: rb" \t\r\f\v",
    sre.CATEGORY_WORD: rb"\w",
    sre.CATEGORY_NOT_DIGIT: rb"\D",
    sre.CATEGORY_NOT_SPACE: rb"\S",
    sre.CATEGORY_NOT_WORD: rb"\W",
}
_OF_ASCII = {sre.CATEGORY_DIGIT, sre.CATEGORY_SPACE}
_INLINE_FLAGS = re.compile(r"(?<!\\)\(\?([aimsux]+)\)")
_NAMED_GROUP = re.compile(r"(?<!\\)\(\?<(?=[A-Za-z_])")
_FUZZY = re.compile(r"(?<!\\)\{[\d<=+, ]*[eids][\d<=+, eids]*(?::[^}]*)?\}")


class UnsearchableError(ValueError):
    """Logs cannot be searched for a pattern."""


class Chars(Record):
    """One character out of many. ``code`` matches a byte of it; ``wide``: it may have four."""

    code: bytes
    wide: bool = False


class Repeat(Record):
    """Parts that come at least so often. ``optional``: and at most once."""

    parts: Parts
    least: int
    optional: bool = False


class Either(Record):
    """Alternatives."""

    branches: tuple[Parts, ...]


class LookAround(Record):
    """What must stand before or behind a place (look-around)."""

    parts: Parts


Parts = tuple["str | Chars | Repeat | Either | LookAround", ...]
"""Parts that follow each other; a ``str`` is a character to be found as it is."""

ANY = Chars(code=rb"[^\n]", wide=True)


def parse(pattern: str) -> Parts | None:
    """Return the tree of a pattern; None for one that only ``regex`` understands.

    Raises ``UnsearchableError`` for one that nobody does.
    """
    flags = "".join(_INLINE_FLAGS.findall(pattern))  # ``re`` wants them at the start
    plain = _NAMED_GROUP.sub("(?P<", _INLINE_FLAGS.sub("", pattern))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of brackets that mean something else to ``regex``
            parsed = parser.parse(plain, re.VERBOSE if "x" in flags else 0)
        if _FUZZY.search(pattern) is None:
            return _parts(parsed)
    except (re.error, Warning, RecursionError, OverflowError):
        pass
    try:
        regex.compile(pattern)
    except regex.error as error:
        raise UnsearchableError(f"it is not a valid regular expression: {error}") from None
    return None


def _parts(parsed: Iterable[tuple[Any, Any]]) -> Parts:
    return tuple(part for op, value in parsed for part in _part(op, value))


def _part(op: Any, value: Any) -> Parts:
    """Return what stands for one operation of ``re``'s parser."""
    if op is sre.LITERAL:
        return (chr(value),)
    if op is sre.SUBPATTERN:
        return _parts(value[-1])
    if op is getattr(sre, "ATOMIC_GROUP", None):
        return _parts(value)
    if op is sre.BRANCH:
        return (Either(branches=tuple(map(_parts, value[1]))),)
    if op in _REPEATS:
        least, most, parts = value
        return (Repeat(parts=_parts(parts), least=least, optional=most == 1 and not least),)
    if op is sre.ASSERT:
        return (LookAround(parts=_parts(value[1])),)
    if op in (sre.AT, sre.ASSERT_NOT):
        return ()
    if op in (sre.IN, sre.NOT_LITERAL, sre.ANY):
        return (_chars(op, value),)
    return (Repeat(parts=(ANY,), least=0),)  # a back-reference


def _chars(op: Any, value: Any) -> Chars:
    """Return the bytes that the characters of a class consist of."""
    if op is sre.ANY:
        return ANY
    members = [(sre.NEGATE, None), (sre.LITERAL, value)] if op is sre.NOT_LITERAL else value
    body, wide = b"", False
    for kind, member in members:
        if kind is sre.CATEGORY:
            body += _CATEGORIES[member]
            wide |= member not in _OF_ASCII
        elif kind is not sre.NEGATE:
            low, high = member if kind is sre.RANGE else (member, member)
            wide |= high > 0x7F
            if low <= 0x7F:
                body += b"\\x%02x-\\x%02x" % (low, min(high, 0x7F))
    if members[0][0] is sre.NEGATE:
        loose = re.search(rb"\\[DSW]", body) is not None
        return ANY if loose else Chars(code=b"[^" + body + rb"\n]", wide=True)
    return Chars(code=b"[" + body + (rb"\x80-\xff" if wide else b"") + b"]", wide=wide)
