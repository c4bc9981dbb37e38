"""Hold the patterns of a card against its examples, its own words and ordinary lines."""

import functools
import string
from collections.abc import Iterable, Iterator, Mapping

import regex

from whyhang.analyzer.facts import Record
from whyhang.analyzer.toml import table
from whyhang.analyzer.toml_lines import Mistake, Path
from whyhang.collectors.logs.engine.needle import cannot_search
from whyhang.collectors.logs.text.line import Voice, take_apart

FROM_THE_HIT = ("who", "times")
"""Fields that every report has: whom it is about, and how many lines were found."""

SECONDS = 0.2  # that a pattern may take for one line
MOST_ORDINARY = 4  # of the ordinary lines, more of which a pattern must not find
_LONG, _RUN, _SHORT = 2000, 200, 300  # characters of the lines that slow patterns are tried on
_STRANGE = "\N{REPLACEMENT CHARACTER}"


class Trial(Record):
    """What of a card can be tried: patterns, examples, and the words of a report.

    All are texts by their place in the card.
    """

    patterns: Mapping[Path, str]
    unless: Mapping[Path, str]
    must_match: Mapping[Path, str]
    must_not_match: Mapping[Path, str]
    words: Mapping[Path, str]
    adds: Mapping[str, Mapping[str, Mapping[str, str]]]

    def findings(self, *, thorough: bool) -> Iterator[Mistake]:
        """Yield everything that is wrong, at its place in the card."""
        compiled: dict[Path, regex.Pattern[str]] = {}
        for path, pattern in {**self.patterns, **self.unless}.items():
            if wrong := _wrong_pattern(pattern):
                yield Mistake(at=path, text=wrong)
            else:
                compiled[path] = regex.compile(pattern)
        for path, expression in compiled.items():
            yield from _too_wide(path, expression)
            if thorough:
                yield from self._too_slow(path, expression)
        own = {path: expression for path, expression in compiled.items() if path in self.patterns}
        yield from self._wrong_examples(own, complete=len(own) == len(self.patterns))
        yield from self._wrong_words()

    def _wrong_examples(
        self, compiled: Mapping[Path, regex.Pattern[str]], *, complete: bool
    ) -> Iterator[Mistake]:
        lacks = [] if self.must_match else ["must_match = ['a line that it describes']"]
        if not self.must_not_match:
            lacks.append("must_not_match = ['a line that looks alike and is something else']")
        if lacks:
            text = f"it has no examples: add {' and '.join(lacks)} under [examples]"
            yield Mistake(at=("examples",), text=text, spoils=False)
        used: set[Path] = set()
        for path, line in self.must_match.items():
            if "\n" in line.strip("\n"):
                yield Mistake(at=path, text=_ONE_LINE.format("an example"))
                continue
            matching = {p for p, pattern in compiled.items() if finds(pattern, line)}
            used |= matching
            if complete and not matching:
                yield Mistake(at=path, text=f"no pattern matches this example: {_cut(line)}")
        for path, line in self.must_not_match.items():
            for number, pattern in enumerate(compiled.values(), start=1):
                if finds(pattern, line):
                    text = f"pattern {number} matches this line, which it must not: {_cut(line)}"
                    yield Mistake(at=path, text=text)
        text = "no example of must_match is matched by this pattern"
        for path in compiled.keys() - used if self.must_match else ():
            yield Mistake(at=path, text=text, spoils=False)

    def _wrong_words(self) -> Iterator[Mistake]:
        groups = {name for pattern in self.patterns.values() for name in _GROUP.findall(pattern)}
        for name in self.adds.keys() - groups:
            text = f"adds.{name}: no pattern has a group of that name"
            yield Mistake(at=("adds", name), text=text)
        added = {field for words in self.adds.values() for row in words.values() for field in row}
        given = groups | added
        for path, text in self.words.items():
            try:
                parts = list(string.Formatter().parse(text))
            except ValueError as error:
                yield Mistake(at=path, text=f"{error}; write {{{{ and }}}} for braces")
                continue
            for _, field, spec, conversion in parts:
                plain = field is None or (field.isidentifier() and not spec and not conversion)
                if field is None or (plain and field in {*given, *FROM_THE_HIT}):
                    continue
                names = ", ".join([*sorted(given), *FROM_THE_HIT])
                why = (
                    f"no pattern has a group of that name (there are {names})"
                    if plain
                    else "it is no plain name; write {{ and }} for braces"
                )
                yield Mistake(at=path, text=f"{{{field}}} cannot be filled in: {why}")

    def _too_slow(self, path: Path, pattern: regex.Pattern[str]) -> Iterator[Mistake]:
        """Try lines that make a pattern go back and forth: its own examples, stretched."""
        own = [line for line in self.must_match.values() if finds(pattern, line)]
        for line in _stretched(own or self.must_match.values()):
            if _times_out(pattern, line):
                yield Mistake(
                    at=path,
                    text=f"this pattern takes longer than {SECONDS} s for {_cut(line, 48)} "
                    f"({len(line)} characters); avoid a repeat within a repeat such as (a+)+",
                )
                return


def _times_out(pattern: regex.Pattern[str], line: str) -> bool:
    try:
        pattern.search(line, timeout=SECONDS)
    except TimeoutError:
        return True
    return False


def _stretched(examples: Iterable[str]) -> Iterator[str]:
    """Write one character again and again, everywhere in the examples; then spoil the end."""
    for seed in ("a", "0", " ", "a ", "0.0 ", "x=1, ", "/a"):
        yield seed * (_LONG // len(seed)) + _STRANGE
    for example in examples:
        line = example[:_SHORT]
        for at, char in enumerate(line):
            if line[at - 1 : at] == char:
                continue  # as at the one before
            yield line[:at] + char * _RUN + _STRANGE
            yield line[:at] + char * _RUN + line[at:] + _STRANGE


_GROUP = regex.compile(r"\(\?P?<(\w+)>")  # also in a pattern that does not compile
_ONE_LINE = "{} is one line of a log; it cannot hold a line break"


def finds(pattern: regex.Pattern[str], line: str) -> bool:
    """Search a line as the log reader does: without what launchers put in front, then whole."""
    try:
        return any(pattern.search(text, timeout=SECONDS) for text in _texts_of(line))
    except TimeoutError:
        return False


@functools.lru_cache(maxsize=256)
def _texts_of(line: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*(part.text for part in take_apart(line, Voice())), line)))


def _wrong_pattern(pattern: str) -> str:
    """Say why logs cannot be searched for a pattern; empty where they can."""
    try:
        compiled = regex.compile(pattern)
    except regex.error as error:
        at: int | None = getattr(error, "pos", None)
        place = ""
        if at is not None:
            marked = f"{pattern[max(0, at - 30) : at]} >>> {pattern[at : at + 20]}"
            place = f" at position {at + 1}: {marked}"
        return f"not a regular expression: {getattr(error, 'msg', str(error))}{place}"
    except (RecursionError, OverflowError, MemoryError):
        return "not a regular expression: it is too large"
    if "\n" in pattern and not compiled.flags & regex.VERBOSE:
        return _ONE_LINE.format("what a pattern finds")
    if compiled.search("", timeout=SECONDS):
        return "this pattern matches the empty text, so every line"
    why = cannot_search(pattern)
    return f"logs cannot be searched for this pattern: {why}; add a plain word" if why else ""


_ORDINARY: list[str] = table(__package__, "ordinary.toml")["lines"]


def _too_wide(path: Path, pattern: regex.Pattern[str]) -> Iterator[Mistake]:
    matching = [line for line in _ORDINARY if finds(pattern, line)]
    if len(matching) > MOST_ORDINARY:
        many = f"{len(matching)} of {len(_ORDINARY)} ordinary lines"
        yield Mistake(at=path, text=f"this pattern matches {many}, such as {_cut(matching[0])}")


def _cut(line: str, length: int = 60) -> str:
    line = line.strip()
    return repr(line if len(line) <= length else line[: length - 1] + "…")
