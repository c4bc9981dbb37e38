"""Which phrase of a person means what: ``phrases.toml``, made into patterns."""

import functools
import re
from collections.abc import Mapping
from typing import TypeAlias, TypeVar

from whyhang.analyzer.facts import Deed, Record, Subject
from whyhang.collectors import limits, tables

M = TypeVar("M")
Pattern: TypeAlias = limits.Pattern[str]
Alternatives: TypeAlias = tuple[str, ...]


class _Table(Record):
    """The parts of the table, as its comments have it."""

    words: dict[str, Alternatives]
    doubt: dict[str, Alternatives]
    signs: dict[str, Alternatives]
    deeds: dict[Deed, Alternatives]
    beside_others: dict[Deed, Alternatives]
    numbers: dict[str, Alternatives]
    places: dict[str, Alternatives]
    functions: dict[str, Alternatives]
    reasons: dict[Subject, Alternatives]
    topics: dict[Subject, Alternatives]


class Phrases:
    """The patterns of each part, by what they mean."""

    def __init__(self, table: _Table) -> None:
        def compiled(meanings: Mapping[M, Alternatives]) -> dict[M, Pattern]:
            return {
                meaning: limits.compile(tables.any_of(words, table.words), re.IGNORECASE)
                for meaning, words in meanings.items()
            }

        self.doubt = compiled(table.doubt)
        self.signs = compiled(table.signs)
        self.deeds = compiled(table.deeds)
        self.beside_others = compiled(table.beside_others)
        self.numbers = compiled(table.numbers)
        self.places = compiled(table.places)
        self.functions = compiled(table.functions)
        self.reasons = compiled(table.reasons)
        self.topics = compiled(table.topics)


@functools.cache
def phrases() -> Phrases:
    """Read the table, once."""
    return Phrases(tables.read("prose", "phrases.toml", _Table))
