"""Users' cards: signatures written in TOML, with what is wrong with them.

``read_cards`` says each mistake of a file, and gives the signatures that no mistake spoils;
``template`` is the card that ``whyhang cards new`` prints, with a word on each field. The
fields are those of ``signature_toml``; the README has a complete example.
"""

import difflib
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from typing import Any

from whyhang.analyzer.cards.trial import Trial
from whyhang.analyzer.facts import Record, replace
from whyhang.analyzer.findings.categories import CATEGORIES
from whyhang.analyzer.findings.signature import LEVELS, WORTH, Kind, Signature
from whyhang.analyzer.findings.signature_toml import FIELDS, HOLDS, REQUIRED, signature_of
from whyhang.analyzer.queries.asked import question_of
from whyhang.analyzer.queries.logs.log import FORMER_WORDS, Blames
from whyhang.analyzer.toml_lines import Mistake, Path, UnreadableError, read

FEW = 5  # words that can all be listed in a sentence

_CATEGORIES = tuple(name for group in CATEGORIES.values() for name in group)
_CHOICES: dict[Path, tuple[str, ...]] = {
    ("category",): _CATEGORIES,
    ("category_if_everywhere",): _CATEGORIES,
    ("role",): tuple(kind.value for kind in Kind),
    ("level",): LEVELS,
    ("blames",): (*(blames.value for blames in Blames), *FORMER_WORDS),
}
_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


class Card(Record):
    """One card as it was read. ``signature`` is None if a mistake spoils it."""

    file: str
    signature: Signature | None
    mistakes: tuple[Mistake, ...] = ()
    override: bool = False
    lines: dict[Path, int] = {}


def read_cards(file: str, data: bytes, *, thorough: bool = False) -> tuple[Card, ...]:
    """Read the cards of a file and say all their mistakes, in the order of lines; never raises.

    ``thorough`` also tries whether patterns take too long, which costs up to a second each.
    """
    try:
        table, lines = read(data)
    except UnreadableError as error:
        return (_spoilt(file, f"{error}{_hint(data, error.line)}", error.line),)
    if not {"id", "patterns", "retries", "signature"} & table.keys():
        return (_spoilt(file, "it is no card: it has neither an id nor patterns", 1),)
    if "signature" not in table:
        return (_read_card(file, table, lines, thorough=thorough),)
    others = [
        _spoilt(file, f'"{name}" must stand in a [[signature]]', lines.get((name,)))
        for name in table
        if name != "signature"
    ]
    tables = table["signature"]
    if not (isinstance(tables, list) and tables and all(isinstance(one, dict) for one in tables)):
        return (_spoilt(file, "signature must be tables: [[signature]]", lines["signature",]),)
    cards = [
        _read_card(file, one, _below(lines, ("signature", number)), thorough=thorough)
        for number, one in enumerate(tables)
    ]
    return (*others, *cards)


def _spoilt(file: str, text: str, line: int | None) -> Card:
    return Card(file=file, signature=None, mistakes=(Mistake(text=text, line=line),))


def _below(lines: Mapping[Path, int], start: Path) -> dict[Path, int]:
    """Return the lines of what stands below a path, by the rest of their paths."""
    depth = len(start)
    return {path[depth:]: line for path, line in lines.items() if path[:depth] == start}


def _read_card(
    file: str, table: Mapping[str, Any], lines: dict[Path, int], *, thorough: bool
) -> Card:
    values = _valid(table)
    asks = ("asks",) in values
    trial = Trial(
        patterns={**_texts(values, "patterns"), **_texts(values, "retries")},
        unless=_texts(values, "unless"),
        must_match=_texts(values, "examples", "must_match"),
        must_not_match=_texts(values, "examples", "must_not_match"),
        words={} if asks else dict(_words(values)),  # what fields an answer has, is its query's
        adds=values.get(("adds",), {}),
    )
    problems = [*_wrong_fields(table)]
    if trial.patterns or not asks:
        problems += trial.findings(thorough=thorough)
    mistakes = [replace(problem, line=_line(lines, problem.at)) for problem in problems]
    usable = not any(mistake.spoils for mistake in mistakes)
    return Card(
        file=file,
        signature=signature_of(table, file) if usable else None,
        mistakes=tuple(sorted(mistakes, key=lambda mistake: mistake.line or 0)),
        override=bool(values.get(("override",), False)),
        lines=lines,
    )


def _hint(data: bytes, line: int | None) -> str:
    """Explain the usual mistake: a pattern in double quotes, where a backslash is special."""
    source = data.splitlines()[line - 1 : line] if line is not None else []
    if source and re.search(rb'"[^"]*\\[^"\\btnfruUe]', source[0]):
        return "; write patterns in single quotes, where a backslash is just a backslash"
    return ""


def _wrong_fields(table: Mapping[str, Any]) -> Iterator[Mistake]:
    """Yield what is missing, unknown, of the wrong type, or none of the known words."""
    for name in (*REQUIRED, *(() if {"asks", "retries"} & table.keys() else ("patterns",))):
        if name not in table:
            yield Mistake(at=(), text=f'the field "{name}" is missing')
    for path, value in _flat(table):
        expected = FIELDS.get(path)
        name = ".".join(map(str, path))
        if expected is None:
            known = [".".join(map(str, p)) for p in FIELDS]
            yield Mistake(at=path, text=f'unknown field "{name}"{meant(name, known)}')
        elif not _FITS[expected](value):
            yield Mistake(at=path, text=f"{name} must be {HOLDS[expected]}")
        elif expected == "texts":
            yield from _wrong_texts(path, value)
        elif expected == "questions":
            for question in value:
                yield from _wrong_question(path, question)
        elif (wrong := _wrong_word(path, value)) is not None:
            yield Mistake(at=path, text=wrong)


def _wrong_texts(path: Path, value: list[Any]) -> Iterator[Mistake]:
    name = ".".join(map(str, path))
    for number, item in enumerate(value):
        if not isinstance(item, str) or not item.strip():
            text = f"{name} must be {HOLDS['texts']}, none of them empty"
            yield Mistake(at=(*path, number), text=text)
    if path in {("patterns",), ("retries",)} and not value:
        yield Mistake(at=path, text=f"there is no pattern in {name}")


def _wrong_question(path: Path, question: dict[str, Any]) -> Iterator[Mistake]:
    try:
        question_of(question)
    except ValueError as error:
        yield Mistake(at=path, text=f"{path[0]}: {error}")


def _wrong_word(path: Path, value: Any) -> str | None:
    """Return what is wrong with a text that must be one of some, or of a form."""
    choices = _CHOICES.get(path, (value,))
    if value not in choices:
        hint = f"; it is one of {', '.join(choices)}"
        if len(choices) >= FEW:
            hint = meant(value, choices) or "; `whyhang cards new` lists them"
        return f'unknown {".".join(map(str, path))} "{value}"{hint}'
    if path == ("id",) and not _ID.fullmatch(value):
        return f'the id "{value}" must be words of a-z and 0-9 joined by "-"'
    return None


def _flat(table: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    for name, value in table.items():
        yield (name,), value
        if name == "examples" and isinstance(value, dict):
            for key, inner in value.items():
                yield (name, key), inner


def _are_words(value: Any, depth: int) -> bool:
    """Return whether texts stand in tables that are so many deep: group, value, field."""
    if depth == 0:
        return isinstance(value, str)
    return isinstance(value, dict) and all(_are_words(v, depth - 1) for v in value.values())


_FITS: dict[str, Callable[[Any], bool]] = {
    "text": lambda value: isinstance(value, str) and bool(value.strip()),
    "texts": lambda value: isinstance(value, list),
    "flag": lambda value: isinstance(value, bool),
    "table": lambda value: isinstance(value, dict),
    "count": lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 1,
    "questions": lambda value: isinstance(value, list) and all(isinstance(v, dict) for v in value),
    "words": lambda value: _are_words(value, depth=3),
    "worth": lambda value: (
        value in WORTH
        if isinstance(value, str)
        else isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
    ),
}
"""Whether a value is what a field must hold."""


def meant(word: str, known: tuple[str, ...] | list[str]) -> str:
    """Suggest the known word that a person may have meant, if one is near."""
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f'; did you mean "{near[0]}"?' if near else ""


def _line(lines: Mapping[Path, int], path: Path) -> int | None:
    """Find the line of a value, or of what it stands in."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


def _valid(table: Mapping[str, Any]) -> dict[Path, Any]:
    """Keep what is of the right type, so that the rest can be tried all the same."""
    return {
        path: value
        for path, value in _flat(table)
        if (expected := FIELDS.get(path)) is not None and _FITS[expected](value)
    }


def _texts(values: Mapping[Path, Any], *path: str) -> dict[Path, str]:
    """Return the texts of a list by their places."""
    return {
        (*path, number): item
        for number, item in enumerate(values.get(path, ()))
        if isinstance(item, str) and item.strip()
    }


def _words(values: Mapping[Path, Any]) -> Iterator[tuple[Path, str]]:
    """Yield the texts of a report, which may hold {fields}."""
    for name in ("title", "explanation"):
        if (name,) in values:
            yield (name,), values[name,]
    for name in ("remedies", "next_steps"):
        yield from _texts(values, name).items()


def template(home: str) -> str:
    """Return the text of a complete card; ``home`` is the user's configuration folder."""
    text = files(__package__).joinpath("template.toml").read_text(encoding="utf-8")
    fold = textwrap.TextWrapper(80, subsequent_indent="#     ", break_on_hyphens=False).fill
    topics = [fold(f"#   {topic}: {', '.join(names)}") for topic, names in CATEGORIES.items()]
    return text.replace("HOME", home, 1).replace("CATEGORIES", "\n".join(topics), 1)
