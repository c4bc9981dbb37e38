"""Groups, shapes and lists of ranks as c10d's C++ log lines write them."""

import re

from whyhang.analyzer.facts import Group

# Two or three shapes of one prefix: torch 2.3 ("[PG 0 Rank 1]"), 2.4 (with a description), 2.5+.
_GROUP = re.compile(
    r"\[PG (?:ID \d+ )?(?:PG )?(?:GUID )?(?P<name>[^\s(\]]+) ?(?:\((?P<desc>[^)]*)\))?"
    r"(?: Rank (?P<rank>\d+))?\]"
)
DEFAULT_GROUP = Group(name="0", description="default_pg", inferred=True)
_MINUS_ONE = 2**64 - 1  # what c10d prints for "unknown" sizes


def group_of(text: str) -> tuple[Group | None, int | None]:
    """Return the group a line speaks of, and the speaker's rank within it."""
    groups = list(_GROUP.finditer(text))
    if not groups:
        return None, None
    group = next((group for group in groups if group["rank"] is not None), groups[-1])
    description = None if group["desc"] in ("", "undefined") else group["desc"]
    if group["name"] == "0" and description is None:
        description = "default_pg"
    rank = int(group["rank"]) if group["rank"] else None
    return Group(name=group["name"], description=description), rank


def shape(text: str | None) -> tuple[tuple[int, ...], ...] | None:
    """Return the shape that a list of sizes gives; None where nothing is told."""
    return None if text is None else (tuple(map(int, re.findall(r"\d+", text))),)


def numel(text: str | None) -> tuple[tuple[int, ...], ...] | None:
    """Read a number of elements as a flat shape; -1 as an unsigned number means unknown."""
    if text is None or int(text) == _MINUS_ONE:
        return None
    return ((int(text),),)
