"""Which phrase of a person means what: ``phrases.toml``, made into patterns."""

import functools
from typing import TypeAlias

from whyhang.analyzer.facts import Deed, Record, Subject
from whyhang.collectors import limits, tables

Pattern: TypeAlias = limits.Pattern[str]


class Phrases(Record):
    """The patterns of each part of the table, by what they mean; its comments say more."""

    doubt: dict[str, Pattern]
    signs: dict[str, Pattern]
    deeds: dict[Deed, Pattern]
    beside_others: dict[Deed, Pattern]
    numbers: dict[str, Pattern]
    contrasts: dict[str, Pattern]
    places: dict[str, Pattern]
    functions: dict[str, Pattern]
    reasons: dict[Subject, Pattern]
    topics: dict[Subject, Pattern]


@functools.cache
def phrases() -> Phrases:
    """Read the table, once."""
    return tables.patterns("prose", "phrases.toml", Phrases)
