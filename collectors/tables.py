"""Tables of patterns: TOML beside the code that reads with them.

A pattern is a list of alternatives; ``<name>`` in one stands for any of the part of that name.
"""

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, TypeVar

import msgspec

from whyhang.analyzer.toml import tomllib
from whyhang.collectors import limits

T = TypeVar("T")

_PART = re.compile(r"(?<!\(\?P)<([a-z-]+)>")


def read(package: str, name: str, of: type[T]) -> T:
    """Read a table that stands in ``collectors``, or in a package of it."""
    return msgspec.convert(_table(package, name), of)


def patterns(package: str, name: str, of: type[T]) -> T:
    """Read a table whose values are patterns; its ``words`` are parts of theirs."""
    table = _table(package, name)
    parts = table.pop("words")

    def compiled(_: type, alternatives: Sequence[str]) -> limits.Pattern[str]:
        return limits.compile(any_of(alternatives, parts), re.IGNORECASE)

    return msgspec.convert(table, of, dec_hook=compiled)


def _table(package: str, name: str) -> dict[str, Any]:
    folder = files("whyhang.collectors").joinpath(*package.split("."))
    return tomllib.loads(folder.joinpath(name).read_text(encoding="utf-8"))


def any_of(alternatives: Sequence[str], parts: Mapping[str, Sequence[str]]) -> str:
    """Return the pattern of any of these, the parts put in."""

    def whole(part: re.Match[str]) -> str:
        words = parts.get(part[1])
        return f"(?:{any_of(words, parts)})" if words else part[0]

    return _PART.sub(whole, "|".join(alternatives))


def by_pattern(meanings: Mapping[T, Sequence[str]]) -> dict[str, T]:
    """Turn a table round: what each pattern means."""
    return {pattern: meaning for meaning, patterns in meanings.items() for pattern in patterns}
