"""The entries of a dump that matter, mostly without building the others.

A recorder holds thousands of entries per rank, and all but the last few are of calls that every
rank has completed. Of a pickle in the usual layout (see ``layout.py``) only the last entries are
built, unfinished ones before them, and the last one of each group; of others all.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice

from whyhang.analyzer.facts import Record
from whyhang.collectors.flight_recorder.entries import GLOO, number
from whyhang.collectors.flight_recorder.groups import status_by_id
from whyhang.collectors.flight_recorder.layout import Layout, UnusualError
from whyhang.collectors.flight_recorder.pickles import (
    BadPickleError,
    UnsafePickleError,
    get,
    load,
    unframed,
)

WINDOWS = (16, 64, 256)
"""How many of the last entries are built; the next where those do not account for all work."""

MAX_SCATTERED = 256
"""How many entries before the window are built one by one; with more, all are."""

MAX_ENTRIES = 1 << 18
"""No recorder is made as large."""

_BATCH_END = re.compile(rb":[A-Za-z_]*coalesced(?=[qr\x94])")


class DumpExcerpt(Record):
    """What was built of one dump.

    ``top`` holds everything but the entries, ``entries`` those that were built, in the order of
    the file; ``first`` is the file's first entry. ``whole``: none was left out. ``cut``: the
    file ends in the middle.
    """

    top: dict[object, object]
    entries: list[object]
    first: object = None
    whole: bool = True
    cut: bool = False


def read(data: bytes, *, everything: bool = False) -> DumpExcerpt:
    """Build the entries of a pickle that matter, or all.

    All of them cost about 4 µs an entry and 2 kB of memory. Raises ``UnsafePickleError`` or
    ``BadPickleError``.
    """
    data, cut = unframed(data), False
    try:
        layout = Layout(data)
        data, cut = layout.data, layout.cut
        if not everything:
            return _latest(layout)
    except (UnusualError, BadPickleError, UnsafePickleError, IndexError):
        pass  # what is wrong with it shows when all of it is built
    return shaped(load(data), cut=cut)


def shaped(value: object, *, cut: bool = False) -> DumpExcerpt:
    """Find the entries in plain data: under ``entries``, or as the whole (torch 2.2).

    Raises ``BadPickleError`` where there are none.
    """
    top: dict[object, object] = {}
    entries = value
    if isinstance(value, dict):
        top = {key: part for key, part in value.items() if key != "entries"}
        entries = value.get("entries", [])
    if not isinstance(entries, list):
        raise BadPickleError("it has no list of entries")
    if len(entries) > MAX_ENTRIES:
        raise BadPickleError(f"it has more than {MAX_ENTRIES:,} entries")
    return DumpExcerpt(top=top, entries=entries, first=entries[0] if entries else None, cut=cut)


def _latest(layout: Layout) -> DumpExcerpt:
    """Build the last entries, unfinished ones before them, the last one of each group."""
    entry = layout.first_entry
    if not isinstance(entry, dict) or next(reversed(entry), None) != "is_p2p":
        raise UnusualError  # what is looked for here would not be found
    # Over gloo, pg_status does not count what entries count.
    if _over_gloo(entry) or not isinstance(layout.top.get("pg_status"), dict):
        return _searched(layout, _window(layout, WINDOWS[1]))
    layout.reference("completed")  # without it only active calls were asked for
    for size in WINDOWS:
        window = _window(layout, size)
        dump = _built(layout, window, _last_of_groups(layout, window))
        if _accounted(dump):
            return dump
    return _searched(layout, _window(layout, WINDOWS[0]))


def _searched(layout: Layout, window: int) -> DumpExcerpt:
    """Look for unfinished entries in the whole file, at twice the cost."""
    unfinished = islice(_unfinished(layout, window), MAX_SCATTERED)
    return _built(layout, window, (*unfinished, *_last_of_groups(layout, window)))


def _built(layout: Layout, window: int, places: Iterable[int]) -> DumpExcerpt:
    """Build the entries that some places are in and all from the window on."""
    places = tuple(islice(places, MAX_SCATTERED))
    if window <= layout.first or len(places) == MAX_SCATTERED:
        raise UnusualError
    return DumpExcerpt(
        top=layout.top,
        entries=layout.entries(set(map(layout.start_of, places)), window),
        first=layout.first_entry,
        whole=False,
        cut=layout.cut,
    )


def _window(layout: Layout, size: int) -> int:
    """Find where the last entries begin, not within a batch of sends and receives."""
    start = layout.end
    for _ in range(size):
        start = layout.start_of(start)
    in_batch = layout.reference("is_p2p") + b"\x88u"
    for _ in range(MAX_SCATTERED):
        if not layout.data.endswith(in_batch, layout.first, start):
            break
        start = layout.start_of(start)
    return start


def _unfinished(layout: Layout, window: int) -> Iterator[int]:
    """Find places within unfinished entries before the window.

    gloo never leaves ``scheduled`` and tells by ``retired``. Elsewhere, members of a
    coalesced batch stay ``scheduled`` for ever; the entry that ends the batch tells.
    """
    if _over_gloo(layout.first_entry):
        yield from layout.places(_pattern(layout, "retired") + rb"\x89", window)
        return
    state, p2p = _pattern(layout, "state"), b".{0,64}?" + _pattern(layout, "is_p2p")
    unfinished = state + b"(?!" + _pattern(layout, "completed") + b")"
    yield from layout.places(unfinished + p2p + rb"\x89u", window)
    ends = {layout.number_at(end.end()) for end in _BATCH_END.finditer(layout.data)}
    if len(ends) >= MAX_SCATTERED:
        raise UnusualError
    if not ends:
        yield from layout.places(unfinished + p2p + rb"\x88u", window)
        return
    names = b"|".join(re.escape(get(end)) for end in ends)
    batch = _pattern(layout, "profiling_name") + b"(?:" + names + b")(?:(?!" + state + b").){0,160}"
    if any(layout.places(batch + unfinished, window)):
        raise UnusualError  # a batch far back is unfinished; its members are needed as well


def _last_of_groups(layout: Layout, window: int) -> Iterator[int]:
    """Find the last entry of each group that has none within the window."""
    key = layout.reference("process_group")
    config = layout.top.get("pg_config")
    names = [name for name in config if name] if isinstance(config, dict) else []
    if names and layout.by_torch:
        groups = {key + layout.reference(name) for name in names if isinstance(name, str)}
    else:  # those that entries name; the groups of gloo stand nowhere else
        yield from layout.places(re.escape(key) + rb"[X\x8c]", window)
        pair = rb"(?:h.|j....)(?=h.\x86|j....\x86|[X\x8c])"
        references = re.compile(re.escape(key) + pair, re.DOTALL)
        groups = set(references.findall(layout.data, layout.first, window))
    for group in groups:
        if layout.last_place(group, window, layout.end) < 0:
            place = layout.last_place(group, layout.first, window)
            if place >= 0:
                yield place


def _pattern(layout: Layout, text: str) -> bytes:
    return re.escape(layout.reference(text))


def _over_gloo(entry: object) -> bool:
    name = entry.get("profiling_name") if isinstance(entry, dict) else None
    return not isinstance(name, str) or name.startswith(f"{GLOO}:")


def _accounted(dump: DumpExcerpt) -> bool:
    """Return whether the built entries show all unfinished work that pg_status counts."""
    unfinished: dict[int | None, set[tuple[bool, int | None]]] = defaultdict(set)
    for entry in dump.entries:
        if not isinstance(entry, dict):
            continue
        p2p = entry.get("is_p2p") is True
        launch = (p2p, number(entry.get("p2p_seq_id" if p2p else "collective_seq_id")))
        own = unfinished[number(entry.get("pg_id"))]
        if entry.get("state") == "completed":
            own.discard(launch)  # the end of a batch, whose members never leave "scheduled"
        else:
            own.add(launch)
    return all(
        (status.enqueued or 0) - (status.completed or 0) <= len(unfinished[group])
        for group, status in status_by_id(dump.top).items()
    )
