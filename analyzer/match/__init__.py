"""The closed set of questions a signature may ask of the aligned job.

A matcher is a frozen value; calling it with a case gives hits, each with its evidence. A new
*kind* of relation between ranks becomes a new matcher, in a module of this package, named,
documented and tested once. Combining: ``a | b`` holds where either does (hits on the same
members become one, surer), ``a & b`` where both do on the same members.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from whyhang.analyzer.case import Case
from whyhang.analyzer.collectives import Verdict
from whyhang.analyzer.facts import Record, replace
from whyhang.analyzer.findings.signature import Hit, Kind, Matcher, Signature
from whyhang.analyzer.match.absent import absent
from whyhang.analyzer.match.agents import agents_differ, agents_meet
from whyhang.analyzer.match.company import went_on
from whyhang.analyzer.match.environ import differs, generations, same_rank
from whyhang.analyzer.match.exit import (
    failed_rows,
    garbled_objects,
    quiet_logs,
    raised,
    went_silent,
)
from whyhang.analyzer.match.file_store import file_apart, file_missing, file_stale
from whyhang.analyzer.match.gpu import (
    Fault,
    driver_hangs,
    faulty,
    held_by_nobody,
    shared_by_ranks,
    slowed_down,
    taken_exclusively,
)
from whyhang.analyzer.match.gpu_links import link_down, link_errors_grow
from whyhang.analyzer.match.gpu_load import all_idle, all_spin, alone_at_work, never_launched
from whyhang.analyzer.match.groups import different_groups
from whyhang.analyzer.match.helpers import helper_stopped
from whyhang.analyzer.match.joins import joins_differ, joins_too_many
from whyhang.analyzer.match.late import blocked_in, late
from whyhang.analyzer.match.launcher import launcher_stopped
from whyhang.analyzer.match.ledger import (
    awaits_unrecorded,
    ledger,
    only_set_up,
    set_up,
    silent_in_log,
)
from whyhang.analyzer.match.locks import (
    Holder,
    file_lock,
    waits_for_lock_of_its_own,
    wants_shared_lock,
)
from whyhang.analyzer.match.log import Blames, Log, log
from whyhang.analyzer.match.loop import left_loop
from whyhang.analyzer.match.meeting import cut_off, large_lost, meets_elsewhere, resolves_apart
from whyhang.analyzer.match.merging import merge, merged
from whyhang.analyzer.match.moving import at_ease, moving
from whyhang.analyzer.match.nccl_start import nccl_start
from whyhang.analyzer.match.port import leftover, port_held
from whyhang.analyzer.match.ras import ras
from whyhang.analyzer.match.roots import roots_differ
from whyhang.analyzer.match.serving import serves
from whyhang.analyzer.match.sockets import not_connected
from whyhang.analyzer.match.steps import in_another_step
from whyhang.analyzer.match.together import all_arrived, creates_group, mismatch, unpaired
from whyhang.analyzer.match.unlike import unlike
from whyhang.analyzer.match.unsafe_dump import asks_for_code
from whyhang.analyzer.rank_state.motion import Moved
from whyhang.analyzer.rank_state.state import Status
from whyhang.analyzer.stacks import WaitKind

KNOWN_LOCAL_CAUSES = (
    WaitKind.DATALOADER,
    WaitKind.DATASET,
    WaitKind.LOCK,
    WaitKind.GIL,
    WaitKind.FILE,
    WaitKind.NETWORK,
    WaitKind.INPUT,
    WaitKind.DEBUGGER,
    WaitKind.CHECKPOINT,
    WaitKind.STORE,
)
"""What a late rank may be doing that has a signature of its own."""

RESTING = (Moved.STILL, Moved.STIRRED, Moved.UNKNOWN)
"""Not seen to run between the looks."""

__all__ = [
    "KNOWN_LOCAL_CAUSES",
    "RESTING",
    "Blames",
    "Either",
    "Fault",
    "Hit",
    "Holder",
    "Kind",
    "Log",
    "Moved",
    "Signature",
    "Status",
    "Verdict",
    "WaitKind",
    "absent",
    "agents_differ",
    "agents_meet",
    "all_arrived",
    "all_idle",
    "all_spin",
    "alone_at_work",
    "asks_for_code",
    "at_ease",
    "awaits_unrecorded",
    "blocked_in",
    "both",
    "creates_group",
    "cut_off",
    "different_groups",
    "differs",
    "driver_hangs",
    "either",
    "failed_rows",
    "faulty",
    "file_apart",
    "file_lock",
    "file_missing",
    "file_stale",
    "garbled_objects",
    "generations",
    "held_by_nobody",
    "helper_stopped",
    "in_another_step",
    "joins_differ",
    "joins_too_many",
    "large_lost",
    "late",
    "launcher_stopped",
    "ledger",
    "left_loop",
    "leftover",
    "link_down",
    "link_errors_grow",
    "log",
    "meets_elsewhere",
    "mismatch",
    "moving",
    "nccl_start",
    "never_launched",
    "not_connected",
    "only_set_up",
    "port_held",
    "quiet_logs",
    "raised",
    "ras",
    "resolves_apart",
    "roots_differ",
    "same_rank",
    "serves",
    "set_up",
    "shared_by_ranks",
    "silent_in_log",
    "slowed_down",
    "taken_exclusively",
    "unlike",
    "unpaired",
    "waits_for_lock_of_its_own",
    "wants_shared_lock",
    "went_on",
    "went_silent",
]


class Either(Record):
    """One of several matchers holds; hits about the same members are merged."""

    parts: tuple[Matcher, ...]

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Ask all, merge by members."""
        return merged(part(case) for part in self.parts)


class Both(Record):
    """All matchers hold on at least one common member."""

    parts: tuple[Matcher, ...]

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Ask the first, keep its hits that all the others share a member with."""
        first, *rest = self.parts
        kept = []
        for hit in first(case):
            partners = [_partner(hit, part(case)) for part in rest]
            if None not in partners:
                joined = hit
                for partner in cast("list[Hit]", partners):
                    joined = merge(joined, partner)
                kept.append(replace(joined, members=hit.members))
        return tuple(kept)


def either(*parts: Matcher) -> Either:
    """Hold where any of the matchers does."""
    return Either(parts=parts)


def both(*parts: Matcher) -> Both:
    """Hold where all of the matchers do, on the members of the first."""
    return Both(parts=parts)


def _partner(hit: Hit, others: Iterable[Hit]) -> Hit | None:
    for other in others:
        if set(hit.members) & set(other.members) or not hit.members or not other.members:
            return other
    return None
