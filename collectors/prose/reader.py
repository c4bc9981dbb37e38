"""The reader of what people write: one text, taken apart once, asked by each who knows a kind."""

import functools
import itertools
from collections.abc import Callable, Iterator

from whyhang.analyzer.facts import Fact
from whyhang.analyzer.reading import Document
from whyhang.collectors import limits
from whyhang.collectors.prose.accounts import accounts
from whyhang.collectors.prose.places import places
from whyhang.collectors.prose.summaries import summaries
from whyhang.collectors.prose.troubles import troubles


class _Prose:
    """Reads where ranks stand, what they do, how far they are, and what a trouble is about."""

    name = "what people write"

    def sniff(self, document: Document) -> bool:
        return bool(_facts(document))

    def read(self, document: Document) -> Iterator[Fact]:
        yield from _facts(document)


READER = _Prose()


@functools.lru_cache(maxsize=4)
def _facts(document: Document) -> tuple[Fact, ...]:
    """Return all that a text says; of what a person has noted by hand, sentences tell no places."""
    noted = tuple(summaries(document))
    kinds = (*(() if noted else (places,)), accounts, troubles)
    return (*noted, *itertools.chain.from_iterable(_read(kind, document) for kind in kinds))


def _read(kind: Callable[[Document], Iterator[Fact]], document: Document) -> list[Fact]:
    try:
        return list(kind(document))
    except limits.TooSlowError:  # no text of a person
        return []
