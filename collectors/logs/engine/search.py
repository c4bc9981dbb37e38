"""Where in a block of bytes any of many patterns may match: the fast part of reading logs.

A ``Searcher`` reports, for each pattern, the places at which a match may end. It may report too
much, never too little: each line found is searched again with the pattern itself. Hyperscan does
it in one pass over the block whatever the number of patterns; without it the standard library
looks for the words that each match must contain, with the same result at a hundredth of the
speed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from whyhang.analyzer.facts import Gap
from whyhang.collectors.logs.engine.block import Block, Hit
from whyhang.collectors.logs.engine.word_search import WordSearcher


class Searcher(Protocol):
    """Finds many patterns at once.

    ``threaded``: several blocks can be searched side by side. ``unsearchable`` names the patterns
    that are never found, and why.
    """

    threaded: bool
    unsearchable: list[tuple[str, str]]

    def search(self, block: Block) -> list[Hit]:
        """Return the hits in the lines of a block, in no order."""

    def search_some(self, block: Block, most: int) -> list[Hit] | None:
        """Search a block, but give up (None) at more than ``most`` hits."""

    def exact(self, block: Block, number: int) -> list[Hit] | None:
        """Search for one pattern more exactly, if that can be done (else None)."""

    def forget(self, number: int) -> None:
        """Look for one pattern no longer."""


def searcher(
    patterns: Sequence[str], *, once: Collection[str] = (), engine: str = "auto"
) -> tuple[Searcher, tuple[Gap, ...]]:
    """Return a searcher for patterns, and what it cannot do.

    Of the patterns in ``once``, which may stand in a third of all lines, one hit is reported per
    block. ``engine`` is "auto", or "words" to do without Hyperscan.
    """
    made, slow = _made(patterns, once, engine)
    return made, (*slow, *(_never_found(pattern, why) for pattern, why in made.unsearchable))


def _made(
    patterns: Sequence[str], once: Collection[str], engine: str
) -> tuple[Searcher, tuple[Gap, ...]]:
    if engine == "words":
        return WordSearcher(patterns, once), ()
    try:
        from whyhang.collectors.logs.engine.hyperscan_search import (  # noqa: PLC0415 - may be missing
            HyperscanSearcher,
        )
    except ImportError:
        return WordSearcher(patterns, once), (_SLOW,)
    return HyperscanSearcher(patterns, once), ()


_SLOW = Gap(
    what="Searching logs with Hyperscan",
    why="the package hyperscan is not installed or does not load here",
    cost="big logs take up to a hundred times as long, with the same result",
    remedy="pip install hyperscan",
)


def _never_found(pattern: str, why: str) -> Gap:
    return Gap(
        what=f"Searching logs for the pattern {pattern!r}",
        why=why,
        cost="lines that it describes are not found",
        remedy="give it a literal word of three or more letters",
    )
