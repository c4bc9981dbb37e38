"""How long a pattern may take, and what is said of one that takes longer.

``regex`` gives a search up after a time, which nested repeats such as ``(a+)+$`` need on a
long line. A pattern of whyhang's own is then not used for the rest of that file; one from a
user's card for the rest of the run: it would be as slow in the next ten thousand files.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from whyhang.analyzer.facts import Gap, Source

if TYPE_CHECKING:
    import regex

SECONDS = 0.2  # that one pattern may take for one line
ALL_SECONDS = 2.0  # that one pattern of a card may take for all lines, of the processor's time


class TooSlowError(Exception):
    """A pattern took too long. ``whole``: for all lines together, not for one."""

    def __init__(self, pattern: str, *, whole: bool) -> None:
        super().__init__(pattern)
        self.pattern = pattern
        self.whole = whole


class Patience:
    """Searches lines with patterns, each for a limited time. ``owners``: pattern to card."""

    def __init__(self, owners: Mapping[str, str]) -> None:
        self.ended: set[str] = set()
        self._owners = owners
        self._spent: defaultdict[str, float] = defaultdict(float)
        self._tried: Counter[str] = Counter()

    def search(self, name: str, pattern: regex.Pattern[str], text: str) -> regex.Match[str] | None:
        """Search one text. Raises ``TooSlowError``; a user's pattern has then ended."""
        if name not in self._owners:
            try:
                return pattern.search(text, concurrent=False, timeout=SECONDS)
            except TimeoutError:
                raise TooSlowError(name, whole=False) from None
        if self._spent[name] > ALL_SECONDS:
            self.ended.add(name)
            raise TooSlowError(name, whole=True)
        begun = time.thread_time()
        try:
            return pattern.search(text, concurrent=False, timeout=SECONDS)
        except TimeoutError:
            self.ended.add(name)
            raise TooSlowError(name, whole=False) from None
        finally:
            self._tried[name] += 1
            self._spent[name] += time.thread_time() - begun

    def gap(self, slow: TooSlowError, source: Source) -> Gap:
        """Say which pattern was given up at which line, and what that costs."""
        name = slow.pattern
        card = self._owners.get(name)
        took = f"it took longer than {SECONDS} s for one line"
        if slow.whole:
            took = f"it took {ALL_SECONDS:g} s for {self._tried[name]:,} lines"
        return Gap(
            what=f"Searching {source.file} for the pattern {name!r}"
            + (f" of the card {card}" if card else ""),
            why=f"{took} and was given up" + (f" at line {source.line}" if source.line else ""),
            cost="lines that it describes are not found"
            + (" from there on, in no file" if card else " in that file"),
            remedy=(
                "give it a word that stands in fewer lines"
                if slow.whole
                else "avoid a repeat within a repeat such as (a+)+ in it"
            ),
            source=source,
        )
