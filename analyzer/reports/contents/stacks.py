"""Fold equal stacks of many ranks into groups."""

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Frame, Thread, grouped
from whyhang.analyzer.facts.stacks import main_thread
from whyhang.analyzer.job.records import Member
from whyhang.analyzer.report import StackGroup
from whyhang.analyzer.stacks.usercode import in_words, normal
from whyhang.analyzer.wording.describe import activity, frames_of


def stack_groups(case: Case) -> tuple[StackGroup, ...]:
    """Group ranks whose main threads stand at the same place, the smallest group first.

    Native frames are left out of the comparison and of the print: they differ between builds
    and say nothing to the reader that ``waits_for`` does not. Workers follow their rank's group.
    """
    seen = [member for member in case.job.members if frames_of(member)]
    groups = grouped(seen, lambda member: tuple(map(normal, frames_of(member))))
    ordered = sorted(groups.values(), key=lambda members: (len(members), members[0].id))
    return (*(_group(case, members) for members in ordered), *_workers(case))


def _group(case: Case, members: list[Member]) -> StackGroup:
    return StackGroup(
        ranks=tuple(sorted(m.rank for m in members if m.rank is not None)),
        names=tuple(m.name for m in members if m.rank is None),
        frames=tuple(map(in_words, frames_of(members[0]))),
        waits_for=activity(case.states[members[0].id]),
    )


def _workers(case: Case) -> tuple[StackGroup, ...]:
    """Show the workers that are busy or stuck; idle ones are left out."""
    workers = [
        (member, child.pid, str(place.says), _above(main_thread(child.dumps[-1]), place.user))
        for state in case.states
        for member in [case.member(state.member)]
        for child, place in zip(member.children, state.children, strict=True)
        if place is not None and place.user is not None and child.dumps
    ]
    alike = grouped(workers, lambda worker: tuple(map(normal, worker[-1])))
    return tuple(
        StackGroup(
            ranks=tuple(sorted({m.rank for m, *_ in own if m.rank is not None})),
            names=tuple(f"worker pid {pid}" for _, pid, *_ in own if pid is not None),
            frames=tuple(map(in_words, own[0][-1])),
            waits_for=own[0][2],
            thread="DataLoader worker",
        )
        for own in sorted(alike.values(), key=len)
    )


def _above(thread: Thread | None, user: Frame) -> tuple[Frame, ...]:
    """Keep a worker's frames down to its loop; below are its parent's, frozen at the fork."""
    if thread is None:
        return (user,)
    own = [frame for frame in thread.frames if not frame.native]
    loops = (n for n, frame in enumerate(own, 1) if frame.function.endswith("_worker_loop"))
    return tuple(own[: next(loops, None)])
