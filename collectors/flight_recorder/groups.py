"""The process groups of a dump, and how far ``pg_status`` says the rank came on each.

``pg_config`` names the groups as all ranks do and lists their members; ``pg_status``, and before
torch 2.4 the entries too, count the groups within the process.
"""

import functools
import re
from collections.abc import Mapping, Sequence

from whyhang.analyzer.facts import Group, Record
from whyhang.collectors.flight_recorder.entries import Row, number, text

MAX_RANK = 1 << 20
"""No job has as many ranks."""

MAX_GROUPS = 4096
MAX_MEMBERS = 1 << 22
"""How many ranks all groups of a dump may have together; those of further ones are not read."""

_DIGITS = re.compile(r"\d{1,9}")


class GroupStatus(Record):
    """What ``pg_status`` says of one group: the last calls enqueued and completed.

    On a group with sends and receives the numbers may be of those. -1 means none.
    """

    enqueued: int | None
    completed: int | None


def groups_of(top: Mapping[object, object], rows: Sequence[Row]) -> dict[str, Group]:
    """Return the groups by name: from ``pg_config``, and those that only entries name."""
    groups: dict[str, Group] = {}
    unnamed: tuple[int, ...] | None = None
    members = 0
    for name, config in _dicts(top.get("pg_config")).items():
        listed = config.get("ranks") if members < MAX_MEMBERS else None
        ranks = _ranks(listed) if isinstance(listed, str) else _ranks_of_list(listed)
        members += len(ranks or ())
        if not text(name):
            unnamed = ranks  # gloo: one nameless group, with no ranks once there is a second
        elif len(groups) < MAX_GROUPS:
            groups[text(name)] = _group(text(name), text(config.get("desc")), ranks)
    named = dict.fromkeys(row.group for row in rows)
    alone = len(named) == 1 and not groups
    for name, description in named:
        if name not in groups and len(groups) < MAX_GROUPS:
            groups[name] = _group(name, description, unnamed if alone else None)
    return groups


def _dicts(value: object) -> dict[object, dict[object, object]]:
    """Return those items of a dict that are dicts."""
    items = value.items() if isinstance(value, dict) else ()
    return {key: item for key, item in items if isinstance(item, dict)}


@functools.lru_cache(maxsize=65536)
def _group(name: str, description: str, ranks: tuple[int, ...] | None) -> Group:
    """Make a group, once for all dumps that name it."""
    given = description if description not in {"", "undefined"} else None
    return Group(name=name, ranks=ranks, description=given)


@functools.lru_cache(maxsize=4096)
def _ranks(listed: str) -> tuple[int, ...] | None:
    """Read "[0, 1, 2]"; an empty list means not known, as does one with an impossible rank."""
    ranks = tuple(int(digits) for digits in _DIGITS.findall(listed[: 12 * MAX_RANK]))
    return ranks if ranks and max(ranks) < MAX_RANK else None


def _ranks_of_list(listed: object) -> tuple[int, ...] | None:
    """Read what a tool has made a list."""
    items = listed if isinstance(listed, list) and len(listed) < MAX_RANK else []
    ranks = tuple(rank for rank in map(number, items) if rank is not None)
    return ranks if ranks and 0 <= min(ranks) <= max(ranks) < MAX_RANK else None


def statuses_of(
    top: Mapping[object, object], rows: Sequence[Row], groups: Mapping[str, Group]
) -> dict[str, GroupStatus]:
    """Return the status of groups by their names."""
    by_id = status_by_id(top)
    shown = {row.pg_id: row.group[0] for row in rows if row.pg_id is not None}
    names = _by_order(sorted(by_id), list(groups), shown)
    return {names[key]: status for key, status in by_id.items() if key in names}


def status_by_id(top: Mapping[object, object]) -> dict[int, GroupStatus]:
    """Read ``pg_status``, whose keys are numbers within the process."""
    return {
        own_number: GroupStatus(
            enqueued=_count(counts.get("last_enqueued_collective"), none=0),
            completed=_count(counts.get("last_completed_collective"), none=0),
        )
        for key, counts in _dicts(top.get("pg_status")).items()
        if (own_number := number(key)) is not None
    }


def _count(value: object, *, none: int | None) -> int | None:
    count = number(value)
    return none if count is None or count < 0 else count


def _by_order(ids: Sequence[int], names: Sequence[str], shown: Mapping[int, str]) -> dict[int, str]:
    """Match numbers with names for groups without an entry.

    Both count the groups in the order of their creation, so if there are as many of the one
    as of the other, they match in order. What entries show must agree with that.
    """
    if len(ids) != len(names) or not all(name.isdecimal() for name in names):
        return dict(shown)
    matched = dict(zip(ids, sorted(names, key=int), strict=True))
    if any(matched.get(key) != name for key, name in shown.items()):
        return dict(shown)
    return {**matched, **shown}


def by_number(
    top: Mapping[object, object], rows: Sequence[Row]
) -> dict[int | None, tuple[str, str]]:
    """Match those numbers with the groups of ``pg_config``, whose names all ranks share."""
    groups = groups_of(top, ())
    ids = sorted({row.pg_id for row in rows if row.pg_id is not None})
    names = _by_order(ids, list(groups), {})
    return {key: (name, groups[name].description or "") for key, name in names.items()}
