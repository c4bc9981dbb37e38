"""A file that people write in TOML: its values, the line of each, and what is wrong with it.

The parsers of the standard library and of tomli tell no positions, nor do the others that
ship wheels. This walks over a text that one of them has accepted: it need not judge it, only
find where each key and each value ends. Format: TOML 1.0, https://toml.io/en/v1.0.0.
"""

import bisect
import re
from typing import Any

import tomli

from whyhang.analyzer.facts import Record

Path = tuple[str | int, ...]
"""The keys and indices that lead to a value: ("examples", "must_match", 0)."""

_WORD = r'(?:"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|[\w-]+)'
_KEY = rf"(?P<key>{_WORD}(?:[ \t]*\.[ \t]*{_WORD})*)[ \t]*"
_BETWEEN = re.compile(r"(?:[\s,]|#[^\n]*)*")
_HEADER = re.compile(rf"\[(?P<array>\[?)[ \t]*{_KEY}\]+")
_PAIR = re.compile(rf"{_KEY}=[ \t]*")
_SCALAR = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:""?(?!"))?'
    r"|'''.*?'''(?:''?(?!'))?"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|[^,\]}#\n]+",
    re.DOTALL,
)
_AT_LINE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


MAX_BYTES = 1 << 20


class Mistake(Record):
    """What is wrong in a file that people write, and where; what stands at these keys is not used.

    ``spoils``: nor is the card that it stands in.
    """

    text: str
    line: int | None = None
    path: str = ""
    at: Path = ()
    spoils: bool = True

    def __str__(self) -> str:
        return f"{self.path}:{self.line or 1}: {self.text}"


class UnreadableError(ValueError):
    """What is wrong with a file as a whole, and the line that says so."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def read(data: bytes) -> tuple[dict[str, Any], dict[Path, int]]:
    """Return the values of a file, and on which line each stands. Raises ``UnreadableError``."""
    if len(data) > MAX_BYTES:
        raise UnreadableError(f"it is larger than {MAX_BYTES >> 20} MiB")
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise UnreadableError("this is no UTF-8", data.count(b"\n", 0, error.start) + 1) from None
    try:
        return tomli.loads(text), line_numbers(text)
    except RecursionError:
        raise UnreadableError("this is no TOML: it is nested too deeply", 1) from None
    except ValueError as error:  # TOMLDecodeError is one
        at = _AT_LINE.search(str(error))
        line = int(at[1]) if at and at[1] else len(text.rstrip().splitlines()) or 1
        raise UnreadableError(f"this is no TOML: {_AT_LINE.sub('', str(error))}", line) from None


def line_numbers(text: str) -> dict[Path, int]:
    """Map each key, table and element of an array to its 1-based line; ``text`` is valid TOML."""
    return _Walker(text).lines


class _Walker:
    """Goes over a text once and notes on which line each value begins."""

    def __init__(self, text: str) -> None:
        self.lines: dict[Path, int] = {}
        self._text = text
        self._ends = [match.start() for match in re.finditer("\n", text)]
        self._arrays: dict[Path, int] = {}  # of tables: the index of the last one
        table: Path = ()
        at = self._behind(0)
        while at < len(text):
            if header := _HEADER.match(text, at):
                table, end = self._table(header), header.end()
            else:
                end = self._pair(table, at)
            at = self._behind(end)

    def _behind(self, at: int) -> int:
        """Go over blanks, commas and comments."""
        return _found(_BETWEEN, self._text, at).end()

    def _note(self, path: Path, at: int) -> None:
        self.lines.setdefault(path, bisect.bisect_left(self._ends, at) + 1)

    def _table(self, header: re.Match[str]) -> Path:
        """Note a table and those above it; of an array of tables the last one is meant."""
        path: Path = ()
        names = _names(header["key"])
        for left, name in enumerate(names, 1 - len(names)):
            path = (*path, name)
            self._note(path, header.start())
            if header["array"] and left == 0:
                self._arrays[path] = self._arrays.get(path, -1) + 1
            if path in self._arrays:
                path = (*path, self._arrays[path])
                self._note(path, header.start())
        return path

    def _pair(self, path: Path, at: int) -> int:
        """Note a key and its value; return where that ends."""
        key = _found(_PAIR, self._text, at)
        for name in _names(key["key"]):
            path = (*path, name)
            self._note(path, at)
        return self._value(path, key.end())

    def _value(self, path: Path, at: int) -> int:
        bracket = self._text[at]
        if bracket not in "[{":
            return _found(_SCALAR, self._text, at).end()
        index = 0
        while self._text[at := self._behind(at + (index == 0))] not in "]}":
            if bracket == "{":
                at = self._pair(path, at)
            else:
                self._note((*path, index), at)
                at = self._value((*path, index), at)
            index += 1
        return at + 1


def _found(pattern: re.Pattern[str], text: str, at: int) -> re.Match[str]:
    match = pattern.match(text, at)
    assert match is not None  # for the text is valid TOML
    return match


def _names(key: str) -> list[str]:
    """Take a dotted key apart."""
    names = []
    inner: Any = tomli.loads(f"{key} = 0")
    while isinstance(inner, dict):
        ((name, inner),) = inner.items()
        names.append(name)
    return names
