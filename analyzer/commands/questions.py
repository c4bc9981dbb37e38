"""What is taken of a live job to settle what its first snapshots leave open.

A question names the members that leave a case open (``left_open.py``). It takes from the job only
what its answer needs, and is asked at most once.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from whyhang.analyzer.case import Case
from whyhang.analyzer.commands import left_open
from whyhang.analyzer.facts import Record
from whyhang.analyzer.rank_state.state import busy_worker
from whyhang.collectors.files.bundle import Bundle
from whyhang.collectors.live.capture import More, Named

MORE_SNAPSHOTS = 3
WATCHES = 8  # parts in which they are watched, as long as it is open
ENDINGS = 2  # further snapshots of a job of which some ranks have ended
SURE_SNAPSHOTS = 5  # more, before a rank of a job that moves is called slow, or all asleep


class Observed(Protocol):
    """A job that is looked at: on this host (``Capture``), or on many (``Conversation``)."""

    def bundle(self) -> Bundle:
        """Return everything taken so far."""

    def look_more(self, count: int, *, spacing: float = 1.0) -> None:
        """Take further snapshots."""

    def take_more(self, what: More, processes: Iterable[Named]) -> None:
        """Take more of some processes."""


def themselves(case: Case, members: Sequence[int]) -> list[Named]:
    """Name the processes of these members."""
    chosen = [case.member(number) for number in members]
    return [Named(m.host, m.pid) for m in chosen if m.pid is not None]


def their_workers(case: Case, members: Sequence[int]) -> list[Named]:
    """Name the worker of each member that stands in the dataset or in a task."""
    busy = [(case.member(n), busy_worker(case.states[n])) for n in members]
    found = [(m.host, m.children[worker[0]].pid) for m, worker in busy if worker is not None]
    return [Named(host, pid) for host, pid in found if pid is not None]


class Question(Record):
    """What may be open in a case: of which members, what to take, and of which processes."""

    open_for: Callable[[Case], Sequence[int]]
    take: Callable[[Observed, list[Named]], None]
    whom: Callable[[Case, Sequence[int]], list[Named]] = themselves


def questions(*, several_snapshots: bool, native: bool) -> list[Question]:
    """List the questions, in the order in which they are asked.

    ``several_snapshots``: the stacks may be taken again; ``native``: native stacks may be.
    """
    count = _take("counters")
    apart = _look_and_count if several_snapshots else count
    over_time = [
        *[Question(open_for=left_open.some_have_ended, take=_look(1, spacing=2.0))] * ENDINGS,
        *[Question(open_for=left_open.until_a_sleep_ends, take=_look(1, spacing=4.0))] * WATCHES,
        Question(open_for=left_open.come_to_rest, take=_look(MORE_SNAPSHOTS)),
        Question(open_for=left_open.asleep_by_turns, take=_count_twice),
        Question(open_for=left_open.between_steps, take=_look(MORE_SNAPSHOTS)),
        Question(open_for=left_open.at_work_or_asleep, take=_count_twice),
        Question(open_for=left_open.still_beside_others, take=_count_twice),
        Question(open_for=left_open.all_asleep, take=_count_over_sleeps),
        Question(open_for=left_open.with_uncounted_steps, take=count),
        *[Question(open_for=left_open.with_a_long_step, take=_watch)] * WATCHES,
        *[Question(open_for=left_open.within_its_pauses, take=_look(1, spacing=4.0))] * WATCHES,
        *[Question(open_for=left_open.in_an_endless_step, take=count)] * 2,
        Question(open_for=left_open.awaiting_a_worker_at_work, take=_watch),
    ]
    calls = [
        Question(open_for=left_open.with_a_peer, take=_take("peers")),
        Question(open_for=left_open.all_in_collectives, take=count),
        Question(open_for=left_open.in_different_steps, take=apart),
    ]
    stacks = _take("native_stacks")
    in_native_code = [
        Question(open_for=left_open.with_open_stacks, take=stacks),
        Question(open_for=left_open.with_a_stuck_worker, take=stacks, whom=their_workers),
    ]
    slow = Question(open_for=left_open.with_a_slow_rank, take=_look(SURE_SNAPSHOTS))
    return [
        *(over_time if several_snapshots else ()),
        *calls,
        *(in_native_code if native else ()),
        *([slow] if several_snapshots else ()),
    ]


def _take(what: More) -> Callable[[Observed, list[Named]], None]:
    return lambda job, processes: job.take_more(what, processes)


def _look(count: int, *, spacing: float = 1.0) -> Callable[[Observed, list[Named]], None]:
    return lambda job, _: job.look_more(count, spacing=spacing)


def _count_twice(job: Observed, processes: list[Named]) -> None:
    """Ask for the steps of these ranks, and again after further snapshots."""
    job.take_more("counters", processes)
    job.look_more(MORE_SNAPSHOTS)
    job.take_more("counters", processes)


def _look_and_count(job: Observed, processes: list[Named]) -> None:
    """Take two further snapshots, and ask for the steps again."""
    job.look_more(2)
    job.take_more("counters", processes)


def _count_over_sleeps(job: Observed, processes: list[Named]) -> None:
    """Ask for the variables of ranks that sleep by turns, and again when they have run."""
    job.take_more("counters", processes)
    job.look_more(SURE_SNAPSHOTS)
    job.look_more(1, spacing=4.0)
    job.take_more("counters", processes)


def _watch(job: Observed, processes: list[Named]) -> None:
    """Watch for a while; then ask ranks that wait whether their variables are the same as before.

    Those that spin while they wait do not show otherwise that they had an answer.
    """
    job.look_more(1, spacing=4.0)
    job.take_more("counters", processes)
