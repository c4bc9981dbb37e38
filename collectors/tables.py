"""Tables of patterns in TOML.

A pattern is a text or a list of alternatives; ``<name>`` in one stands for any of the part of that
name.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from whyhang.analyzer import toml
from whyhang.collectors import limits

T = TypeVar("T")

_PART = re.compile(r"(?<!\(\?P)<([a-z-]+)>")


def patterns(package: str | None, name: str, of: type[T], flags: int = 0) -> T:
    """Read a table whose values are patterns; its ``words`` are parts of theirs.

    ``of`` says what each is: ``limits.Pattern``, or ``re.Pattern`` where no limit is needed.
    """
    table = toml.table(package, name)
    parts = table.pop("words", {})

    def compiled(kind: Any, alternatives: str | Sequence[str]) -> object:
        several = [alternatives] if isinstance(alternatives, str) else alternatives
        pattern = any_of(several, parts)
        if kind == re.Pattern[bytes]:
            return re.compile(pattern.encode(), flags)
        return (re if kind == re.Pattern[str] else limits).compile(pattern, flags)

    return msgspec.convert(table, of, dec_hook=compiled)


def any_of(alternatives: Sequence[str], parts: Mapping[str, Sequence[str]]) -> str:
    """Return the pattern of any of these, the parts put in."""

    def whole(part: re.Match[str]) -> str:
        words = parts.get(part[1])
        return f"(?:{any_of(words, parts)})" if words else part[0]

    return _PART.sub(whole, "|".join(alternatives))


def by_pattern(meanings: Mapping[T, Sequence[str]]) -> dict[str, T]:
    """Turn a table round: what each pattern means."""
    return {pattern: meaning for meaning, patterns in meanings.items() for pattern in patterns}
