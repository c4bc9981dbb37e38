"""Dumps of active calls only: batches of sends and receives whose end was left out.

Asked for what is active, torch leaves out every entry whose end it has seen. The members of a
coalesced batch have none of their own, so those of finished batches stay in the dump as if they
were under way, without the entry that ended them. What follows them tells: records are numbered
without a gap, so where the one behind a batch is not there, it was the batch's end, and finished.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from whyhang.analyzer.facts import CallState, replace
from whyhang.collectors.flight_recorder.entries import Row

Launch = tuple[str, int]  # the group's name, the number of the send, receive or batch


def only_active(entries: Sequence[object]) -> bool:
    """Tell whether no entry is completed, as where torch was asked for active calls."""
    return not any(isinstance(e, dict) and e.get("state") == "completed" for e in entries)


def with_ends(known: Sequence[Row], closed: Mapping[str, int | None]) -> list[Row]:
    """Mark members of batches that have ended as completed.

    ``known`` are all rows of a dump, ``closed`` is the number of the last call on each group
    that was launched as a whole.
    """
    if any(row.state is CallState.COMPLETED for row in known):
        return list(known)
    launches: dict[Launch, list[Row]] = defaultdict(list)
    orders = {row.order for row in known if row.order is not None}
    for row in known:
        if row.p2p and row.p2p_seq is not None and row.order is not None:
            launches[row.group[0], row.p2p_seq].append(row)
    batched = {name for (name, _), rows in launches.items() if len(rows) > 1}
    ended: set[Launch] = set()
    for (name, number), rows in launches.items():
        if name not in batched or rows[-1].name.ends_batch:
            continue
        end = (rows[-1].order or 0) + 1
        if end in orders:
            continue
        last = end > max(orders)
        if not last or (closed.get(name) or 0) >= number:
            ended.add((name, number))
    return [
        replace(row, state=CallState.COMPLETED)
        if row.p2p and (row.group[0], row.p2p_seq) in ended
        else row
        for row in known
    ]
