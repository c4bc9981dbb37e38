"""The process groups of a dump, and how far ``pg_status`` says the rank came on each.

``pg_config`` names the groups as all ranks do and lists their members; ``pg_status``, and before
torch 2.4 the entries too, count the groups within the process.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence

from whyhang.analyzer.facts import Group, Record
from whyhang.collectors.flight_recorder.entries import Row
from whyhang.collectors.flight_recorder.values import number, text

_DIGITS = re.compile(r"\d{1,9}")


MAX_RANK = 1 << 20
"""No job has as many ranks."""


class Status(Record):
    """What ``pg_status`` says of one group: the last calls enqueued, started and completed.

    On a group with sends and receives the numbers may be of those. -1 means none, or for
    ``started`` that timing is off.
    """

    enqueued: int | None
    started: int | None
    completed: int | None


def groups_of(top: Mapping[object, object], known: Sequence[Row]) -> dict[str, Group]:
    """Collect the groups by name: from ``pg_config``, and those that only entries name."""
    found: dict[str, Group] = {}
    unnamed: tuple[int, ...] | None = None
    config = top.get("pg_config")
    for name, about in config.items() if isinstance(config, dict) else ():
        if not isinstance(about, dict):
            continue
        ranks = _ranks(_listed(about.get("ranks")))
        if not text(name):
            unnamed = ranks  # gloo: one nameless group, with no ranks once there is a second
            continue
        found[text(name)] = _group(text(name), text(about.get("desc")), ranks)
    named = dict.fromkeys(row.group for row in known)
    for name, description in named:
        if name not in found:
            alone = len(named) == 1 and not found
            found[name] = _group(name, description, unnamed if alone else None)
    return found


def default_group_size(top: Mapping[object, object]) -> int | None:
    """Tell how many ranks the default group has, where the header lists them."""
    for group in groups_of(top, ()).values():
        if group.description == "default_pg" and group.ranks is not None:
            return len(group.ranks)
    return None


@functools.lru_cache(maxsize=65536)
def _group(name: str, description: str, ranks: tuple[int, ...] | None) -> Group:
    """Make a group, once for all dumps that name it."""
    said = description if description not in {"", "undefined"} else None
    return Group(name=name, ranks=ranks, description=said)


def _listed(ranks: object) -> str:
    """Give the list of ranks as torch writes it, as text; a tool may have made it a list."""
    return ranks if isinstance(ranks, str) else str(ranks) if isinstance(ranks, list) else ""


@functools.lru_cache(maxsize=4096)
def _ranks(listed: str) -> tuple[int, ...] | None:
    """Read "[0, 1, 2]"; an empty list means not known, as does one with an impossible rank."""
    ranks = tuple(int(digits) for digits in _DIGITS.findall(listed))
    return ranks if ranks and max(ranks) < MAX_RANK else None


def statuses_of(
    top: Mapping[object, object], known: Sequence[Row], groups: Mapping[str, Group]
) -> dict[str, Status]:
    """Read ``pg_status``, whose keys are numbers within the process, by the groups' names."""
    status = top.get("pg_status")
    if not isinstance(status, dict):
        return {}
    shown = {row.pg_id: row.group[0] for row in known if row.pg_id is not None}
    ids = sorted(key for key in map(number, status) if key is not None)
    names = _by_order(ids, list(groups), shown)
    found: dict[str, Status] = {}
    for key, about in status.items():
        own_number = number(key)
        name = names.get(own_number) if own_number is not None else None
        if name is not None and isinstance(about, dict):
            found[name] = Status(
                enqueued=count(about.get("last_enqueued_collective"), none=0),
                started=count(about.get("last_started_collective"), none=None),
                completed=count(about.get("last_completed_collective"), none=0),
            )
    return found


def _by_order(ids: Sequence[int], names: Sequence[str], known: Mapping[int, str]) -> dict[int, str]:
    """Match numbers with names for groups without an entry.

    Both count the groups in the order of their creation, so if there are as many of the one
    as of the other, they match in order. What entries say must agree with that.
    """
    if len(ids) != len(names) or not all(name.isdecimal() for name in names):
        return dict(known)
    matched = dict(zip(ids, sorted(names, key=int), strict=True))
    if any(matched.get(key) != name for key, name in known.items()):
        return dict(known)
    return {**matched, **known}


def numbered(entries: Sequence[object]) -> bool:
    """Tell whether entries name their group by its number within the process (torch 2.3)."""
    return any(isinstance(entry, dict) and "process_group" not in entry for entry in entries[:1])


def by_number(
    top: Mapping[object, object], known: Sequence[Row]
) -> dict[int | None, tuple[str, str]]:
    """Match those numbers with the groups of ``pg_config``, whose names all ranks share."""
    config = top.get("pg_config")
    groups = list(groups_of(top, ()).values()) if isinstance(config, dict) else []
    ids = sorted({row.pg_id for row in known if row.pg_id is not None})
    names = _by_order(ids, [group.name for group in groups], {})
    said = {group.name: group.description or "" for group in groups}
    return {number_: (name, said[name]) for number_, name in names.items()}


def count(value: object, *, none: int | None) -> int | None:
    """Read a number of calls; ``none`` where there is none."""
    counted = number(value)
    return none if counted is None or counted < 0 else counted
