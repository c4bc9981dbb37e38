"""A file that people write in TOML: its values, the line of each, and what is wrong with it.

The parsers of the standard library and of tomli tell no positions, nor do the others that
ship wheels. This walks over a text that one of them has accepted: it need not judge it, only
skip strings, brackets and comments rightly. Format: TOML 1.0, https://toml.io/en/v1.0.0.
"""

import re
from typing import Any

from whyhang.analyzer.facts import Record
from whyhang.analyzer.toml import tomllib

Path = tuple[str | int, ...]
"""The keys and indices that lead to a value: ("examples", "must_match", 0)."""

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:""?(?!"))?'
    r"|'''.*?'''(?:''?(?!'))?"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_KEY = re.compile(r"""[ \t]*(?:[A-Za-z0-9_-]+|"(?:\\.|[^"\\\n])*"|'[^'\n]*')[ \t]*""")
_PLAIN = re.compile(r"[^,\]}#\n]+")
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
    walker = _Walker(text)
    walker.document()
    return walker.lines


class _Walker:
    """Goes over a text once and notes where each value begins."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[Path, int] = {}
        self._arrays: dict[Path, int] = {}  # of tables: the index of the last one
        self._line = 1
        self._counted = 0

    def document(self) -> None:
        table: Path = ()
        while self.skip():
            if self.text.startswith("[[", self.at):
                table = self.header(2)
            elif self.text[self.at] == "[":
                table = self.header(1)
            else:
                self.pair(table)

    def skip(self) -> bool:
        """Go over blanks, line breaks and comments; return whether anything follows."""
        blank = _BLANK.match(self.text, self.at)
        assert blank is not None
        self.at = blank.end()
        return self.at < len(self.text)

    def header(self, brackets: int) -> Path:
        start = self.at
        self.at += brackets
        names = self.key()
        self.at += brackets
        path = self.within(names[:-1]) + names[-1:]
        if brackets == 2:
            index = self._arrays.get(path, -1) + 1
            self._arrays[path] = index
            self.note(path, start)
            path = (*path, index)
        elif path in self._arrays:
            path = (*path, self._arrays[path])
        self.note(path, start)
        return path

    def within(self, names: Path) -> Path:
        """Lead through arrays of tables: a name there means the last table of that array."""
        path: Path = ()
        for name in names:
            path = (*path, name)
            self.note(path, self.at)
            if path in self._arrays:
                path = (*path, self._arrays[path])
        return path

    def key(self) -> Path:
        names: list[str] = []
        while True:
            match = _KEY.match(self.text, self.at)
            if match is None:
                raise ValueError(f"no key at {self.at}")
            self.at = match.end()
            word = match[0].strip()
            names.append(next(iter(tomllib.loads(f"{word} = 0"))) if word[0] in "\"'" else word)
            if self.text[self.at : self.at + 1] != ".":
                return tuple(names)
            self.at += 1

    def pair(self, table: Path) -> None:
        start = self.at
        path = table
        for name in self.key():
            path = (*path, name)
            self.note(path, start)
        self.at += 1  # the equals sign
        self.value(path)

    def value(self, path: Path) -> None:
        self.skip()
        sign = self.text[self.at]
        if sign == "[":
            self.array(path)
        elif sign == "{":
            self.inline_table(path)
        else:
            match = (_STRING if sign in "\"'" else _PLAIN).match(self.text, self.at)
            if match is None:
                raise ValueError(f"no value at {self.at}")
            self.at = match.end()

    def array(self, path: Path) -> None:
        self.at += 1
        index = 0
        while self.skip() and self.text[self.at] != "]":
            if self.text[self.at] == ",":
                self.at += 1
                continue
            self.note((*path, index), self.at)
            self.value((*path, index))
            index += 1
        self.at += 1

    def inline_table(self, path: Path) -> None:
        self.at += 1
        while self.skip() and self.text[self.at] != "}":
            if self.text[self.at] == ",":
                self.at += 1
                continue
            self.pair(path)
        self.at += 1

    def note(self, path: Path, at: int) -> None:
        self._line += self.text.count("\n", self._counted, at)
        self._counted = at
        self.lines.setdefault(path, self._line)
