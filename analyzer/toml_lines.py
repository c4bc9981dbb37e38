"""A file that people write in TOML: its values, the line of each, and what is wrong with it.

The parsers of the standard library and of tomli tell no positions, nor do the others that
ship wheels. This walks over a text that one of them has accepted: it need not judge it, only
tell strings, brackets and comments apart. Format: TOML 1.0, https://toml.io/en/v1.0.0.
"""

import re
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from whyhang.analyzer.facts import Record
from whyhang.analyzer.toml import tomllib

Path = tuple[str | int, ...]
"""The keys and indices that lead to a value: ("examples", "must_match", 0)."""

_TOKEN = re.compile(
    r"(?P<blank>[ \t\r\n]+|#[^\n]*)"
    r'|"""(?:\\.|[^\\])*?"""(?:""?(?!"))?'
    r"|'''.*?'''(?:''?(?!'))?"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|[\[\]{}=,.]"
    r"|[^\s\[\]{}=,.#\"']+",
    re.DOTALL,
)
_ENDS = {",", "]", "}"}
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
        return tomllib.loads(text), line_numbers(text)
    except RecursionError:
        raise UnreadableError("this is no TOML: it is nested too deeply", 1) from None
    except ValueError as error:  # TOMLDecodeError is one
        at = _AT_LINE.search(str(error))
        line = int(at[1]) if at and at[1] else len(text.rstrip().splitlines()) or 1
        raise UnreadableError(f"this is no TOML: {_AT_LINE.sub('', str(error))}", line) from None


def line_numbers(text: str) -> dict[Path, int]:
    """Map each key, table and element of an array to its 1-based line; ``text`` is valid TOML."""
    return _Walker(text).lines


class _Token(NamedTuple):
    """A word, a string or a sign, and the line on which it begins."""

    text: str
    line: int


def _tokens(text: str) -> Iterator[_Token]:
    line = 1
    for match in _TOKEN.finditer(text):
        if match.lastgroup != "blank":
            yield _Token(match[0], line)
        line += match[0].count("\n")


class _Walker:
    """Goes over the tokens of a text once and notes on which line each value begins."""

    def __init__(self, text: str) -> None:
        self.lines: dict[Path, int] = {}
        self._arrays: dict[Path, int] = {}  # of tables: the index of the last one
        self._tokens = deque(_tokens(text))
        table: Path = ()
        while self._tokens:
            if self._tokens[0].text == "[":
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> Path:
        line = self._tokens.popleft().line
        is_array = self._skip("[")
        *above, last = self._key()
        path: Path = ()
        for name in above:
            path = self._into((*path, name), line)
        path = (*path, last)
        if is_array:
            self._arrays[path] = self._arrays.get(path, -1) + 1
            self._skip("]")
        self._skip("]")
        return self._into(path, line)

    def _into(self, path: Path, line: int) -> Path:
        """Note a table; of an array of tables the last one is meant."""
        self.lines.setdefault(path, line)
        if path in self._arrays:
            path = (*path, self._arrays[path])
            self.lines.setdefault(path, line)
        return path

    def _key(self) -> list[str]:
        names: list[str] = []
        while not names or self._skip("."):
            word = self._tokens.popleft().text
            names.append(next(iter(tomllib.loads(f"{word} = 0"))) if word[0] in "\"'" else word)
        return names

    def _pair(self, path: Path) -> None:
        line = self._tokens[0].line
        for name in self._key():
            path = (*path, name)
            self.lines.setdefault(path, line)
        self._skip("=")
        self._value(path)

    def _value(self, path: Path) -> None:
        first = self._tokens.popleft()
        index = 0
        if first.text == "[":
            while not self._skip("]"):
                self.lines.setdefault((*path, index), self._tokens[0].line)
                self._value((*path, index))
                self._skip(",")
                index += 1
        elif first.text == "{":
            while not self._skip("}"):
                self._pair(path)
                self._skip(",")
        # A number or a date may be of several tokens.
        while (
            self._tokens
            and self._tokens[0].line == first.line
            and self._tokens[0].text not in _ENDS
        ):
            self._tokens.popleft()

    def _skip(self, sign: str) -> bool:
        """Go over a sign; return whether it is there."""
        found = bool(self._tokens) and self._tokens[0].text == sign
        if found:
            self._tokens.popleft()
        return found
