"""The base of all facts, whom one is about, where it was read; evidence that was not had."""

from __future__ import annotations

import enum
import functools
import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform

    # Type checkers take every subclass of a frozen Struct for mutable unless it says
    # ``frozen`` again. They see this plain base instead; at run time options are inherited.
    @dataclass_transform(frozen_default=True, kw_only_default=True)
    class Record:
        """The base of all facts: frozen, compared by value, built by keyword."""

        def __init_subclass__(cls, *, kw_only: bool = True) -> None: ...
else:

    class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
        """The base of all facts: frozen, compared by value, built by keyword."""

        # What is frozen and built by keyword is in no cycle, so that the garbage collector has
        # nothing to find in the millions that a large job has.


R = TypeVar("R", bound=Record)
Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


def replace(record: R, **changes: object) -> R:
    """Copy a record with some fields changed."""
    copy: R = msgspec.structs.replace(record, **changes)  # type: ignore[type-var]
    return copy


class Source(Record):
    """Where a fact was read: a path as the user knows it (or inside the bundle) and a line."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


class Trust(enum.IntEnum):
    """How a rank number was learnt, most trusted last. Disagreement is itself a finding."""

    NONE = 0
    INFERRED = 1  # order of children, elimination
    FILE_NAME = 2  # rank3.txt, attempt_0/3/stderr.log
    PREFIX = 3  # [rank3]: in front of the line
    CONTENT = 4  # the dump itself says so
    NCCL_INIT = 5  # "comm 0x… rank 3 nranks 8" of this pid
    FLIGHT_RECORDER = 6
    ENVIRONMENT = 7  # RANK, SLURM_PROCID, OMPI_COMM_WORLD_RANK of the process


class Who(Record):
    """Whom a fact is about, as far as its source tells.

    ``label`` is what a person would call it when neither rank nor pid is known
    ("node48", "DP0"). ``local_rank`` is the rank within the host.
    """

    rank: int | None = None
    trust: Trust = Trust.NONE
    host: str | None = None
    pid: int | None = None
    local_rank: int | None = None
    label: str | None = None


NOBODY = Who()


class Sourced(Record):
    """The base of what is about somebody, as far as is known, and was read somewhere."""

    who: Who
    source: Source


class Excerpt(Record):
    """Source lines of the user's code around a place, so that a report can show them."""

    file: str
    first_line: int
    lines: tuple[str, ...]


class Gap(Record):
    """Evidence that was looked for and not had.

    ``what`` was tried, ``why`` it failed, ``cost`` is what the diagnosis loses by it,
    ``remedy`` what a person can do. Each is a clause or sentence without full stop.
    """

    what: str
    why: str
    cost: str = ""
    remedy: str = ""
    who: Who = NOBODY
    source: Source | None = None

    def __str__(self) -> str:
        text = f"{self.what}: {self.why}{f'; {self.cost}' if self.cost else ''}"
        if not self.remedy:
            return f"{text}."
        is_command = self.remedy.startswith(("pip ", "whyhang "))
        first = self.remedy[:1] if is_command else self.remedy[:1].upper()
        return f"{text}. {first}{self.remedy[1:]}."


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Sort items by what ``key`` gives for each, in the order in which they come."""
    groups: dict[Key, list[Item]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return dict(groups)


def same_host(one: str | None, other: str | None) -> bool:
    """Return whether two names may be of one host: unknown, equal, or equal but for the domain."""
    if one is None or other is None or one == other:
        return True
    return short_host(one) == short_host(other)


@functools.lru_cache(maxsize=1 << 16)
def short_host(host: str) -> str:
    """Cut the domain off the name of a host; addresses stay."""
    return host if host.replace(".", "").isdecimal() else host.partition(".")[0].lower()


MAX_RANKS = 1 << 18
"""No job has as many ranks: a larger number is a damaged line's or file's, or a lie."""
LONGEST_RUN = 100_000
_RUN = re.compile(r"(?<![\d-])(\d{1,6})(?!\d)(?:\s*(?:-|\.{2,3}|to|through)\s*(\d{1,6})(?!\d))?")


def fold(ranks: Iterable[int]) -> str:
    """Print ranks the way people say them: ``0-3,7``."""
    runs: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def unfold(text: str) -> tuple[int, ...]:
    """Read ranks as ``fold`` prints them, and as people and logs list them: "0-2, 5 and 7".

    What runs backwards or without end is left out.
    """
    ranks: dict[int, None] = {}
    for first, last in _RUN.findall(text):
        run = range(int(first), int(last or first) + 1)
        ranks |= dict.fromkeys(run if len(run) <= LONGEST_RUN else ())
    return tuple(ranks)


def whole(text: str | None, digits: int = 18) -> int | None:
    """Read a whole number; None for other texts, and for one of more digits.

    Python itself refuses to read thousands of them.
    """
    text = (text or "").strip()
    return int(text) if text.isdecimal() and len(text) <= digits else None


def ranks_in_words(ranks: Iterable[int], most: int = 12) -> str:
    """Return ranks with their noun: "rank 2" or "ranks 0-1,3"; ``most`` as of ``few``."""
    chosen = set(ranks)
    return f"rank{'' if len(chosen) == 1 else 's'} {few(chosen, most)}"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, which is given in the singular: "1 log", "2,000 processes"."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith(("s", "x", "ch", "sh")):
        return f"{count:,} {noun}es"
    consonant = noun.endswith("y") and noun[-2:-1] not in "aeiou"
    return f"{count:,} {noun[:-1]}ies" if consonant else f"{count:,} {noun}s"


def listed(names: Sequence[str], most: int = 3) -> str:
    """Print names for a sentence: of more than ``most`` the first, and that there are more."""
    return ", ".join((*names[:most], "…")[: len(names)])


def spaced(ranks: Iterable[int], most: int = 6) -> str:
    """Print the ranks of a group: ``0-3``, and ``1,9,…,393`` where they are evenly apart.

    Of more than ``most`` runs that are not, the first and how many there are.
    """
    chosen = sorted(set(ranks))
    steps = {after - before for before, after in itertools.pairwise(chosen)}
    if len(chosen) > most and len(steps) == 1 and steps != {1}:
        return f"{chosen[0]},{chosen[1]},…,{chosen[-1]}"
    return few(chosen, most)


def few(ranks: Iterable[int], most: int = 12) -> str:
    """Print ranks for a sentence: of more than ``most`` runs, the first and how many there are."""
    chosen = set(ranks)
    runs = fold(chosen).split(",")
    if len(runs) <= most:
        return ",".join(runs)
    return f"{','.join(runs[: most - 2])},… ({len(chosen)} in all)"
