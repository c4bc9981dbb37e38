"""Failures: which ranks ended by an error of their own, where no line names them.

Up to torch 2.1, and wherever output was not prefixed, a traceback does not say which rank raised
it; the launcher's table of failures says which ranks ended by themselves. The two together do.
"""

import re
import signal
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import CRASHES, Exit, LogLine, RootCause, Speaker, Who
from whyhang.analyzer.job.records import GROUP_RANK
from whyhang.analyzer.rank_state.from_logs.ends import loses_peer, waits_in_vain, who_says

_OF_COLLECTIVES = re.compile(r"nccl\w+Error\b|NCCL [Ee]rror|\bDist(?:Backend|Network|Store)Error\b")
_OF_A_GROUP = re.compile(
    r"Process group watchdog|\[PG (?:ID )?\d|\bDistBackendError\b|\bmpi4py\.MPI\.Exception\b"
)
"""Words of torch.distributed and MPI about groups, which a program of one process hardly has."""
_NOT_FIRST = re.compile(r"[A-Za-z ][1-9]")  # a number that no single process has
SAME_MOMENT = 2.0  # seconds; launchers' tables are rounded to seconds
CLOCKS = 5.0  # seconds by which the clocks of hosts may differ


def failures(case: Case) -> dict[int, Exit]:
    """Return the ranks that ended by themselves with an error, not by a signal."""
    rows = [row for row in case.job.exits if row.signal is None and not row.killed_with_others]
    return {row.who.rank: row for row in rows if row.exitcode and row.who.rank is not None}


def raised_by(case: Case, lines: Sequence[LogLine]) -> tuple[int, ...]:
    """Return which ranks an error belongs to that these lines tell; empty where it cannot be told.

    Lines that name ranks are believed; not where the launcher ended those, and saw others fail by
    themselves before: then the error may be theirs as well, and is where several printed it. Ranks
    that ended in the same way and the same moment had the same error, as long as nothing says that
    one rank's end brought the others down. Where a launcher ended all others, it is of those that
    ended by themselves, unless all have printed it: the launcher reports whom it saw first. More
    have printed it than failed: some of those that it ended had it, too.
    """
    spoken = {line.who.rank for line in lines if line.who.rank is not None}
    ended = failures(case)
    if spoken:
        if ended_behind(case, spoken):
            return tuple(ended) if len(spoken) > 1 == len(ended) else ()
        return tuple(sorted(spoken | _alike(case, spoken, ended)))
    copies = sum(line.count for line in lines)
    told = _with_own_words(case, ended, {line.source.file for line in lines})
    if told and told == set(ended):
        return ()
    ended = {rank: exit_ for rank, exit_ in ended.items() if rank not in told}
    if len(ended) == 1:
        return () if printed_by_every_process(case, lines) else tuple(ended)
    if not ended:
        again = Counter[str]()
        for line in lines:
            again[line.text] += line.count
        return _crashed(case) if max(again.values(), default=0) < 2 else ()
    match = copies == len(ended) or (copies < len(ended) and _others_were_ended(case))
    return tuple(sorted(ended)) if match else ()


def _with_own_words(case: Case, ranks: Iterable[int], files: AbstractSet[str]) -> set[int]:
    """Return which of these ranks print why they ended, and into none of these files."""
    raised: dict[int | None, set[str]] = defaultdict(set)
    for line in case.job.lines:
        if line.raised is not None and not line.raised.thread and not loses_peer(line):
            raised[line.who.rank].add(line.source.file)
    return {rank for rank in ranks if raised[rank] and raised[rank].isdisjoint(files)}


def printed_by_every_process(case: Case, lines: Sequence[LogLine]) -> bool:
    """Return whether a launcher has no more processes than have said so, without a rank.

    Of two, the one that it saw fail may be the first of both.
    """
    spoken = any(line.who.rank is not None for line in lines)
    return not spoken and 2 < len(children_of(case)) <= sum(line.count for line in lines)


def _crashed(case: Case) -> tuple[int, ...]:
    """Return the ranks, but not all, that a signal of their own ended.

    An abort may be a watchdog's.
    """
    gave_up = any(waits_in_vain(line) for line in case.job.lines)
    own = CRASHES if gave_up else CRASHES | {signal.SIGABRT}
    rows = {row.who.rank for row in case.job.exits if row.signal in own}
    ranks = tuple(sorted(rank for rank in rows if rank is not None))
    return ranks if len(ranks) == len(rows) == 1 or len(rows) == len(ranks) < _size(case) else ()


def _others_were_ended(case: Case) -> bool:
    """Return whether a launcher ended all ranks that did not fail, and they are no fewer."""
    ended = failures(case)
    signals = [row.signal for row in case.job.exits if row.who.rank not in ended]
    only_ended = set(signals) <= {signal.SIGTERM, signal.SIGKILL}
    return only_ended and len(signals) >= len(ended) and not _brought_down(case.job.lines)


def first_failures(case: Case) -> tuple[int, ...]:
    """Return which ranks a launcher's table shows to have failed first, or all at once.

    Nobody, where ranks brought each other down: then an exit code proves nothing.
    """
    ended = failures(case)
    if not ended or _brought_down(case.job.lines):
        return ()
    times = [exit_.time for exit_ in ended.values()]
    roots = {rank for fact in case.job.of(RootCause) if (rank := fact.who.rank) in ended}
    if not roots and (len(ended) == 1 or all(_same_moment(time, times[:1]) for time in times)):
        return tuple(sorted(ended))
    known = [time for rank in roots if (time := ended[rank].time) is not None]
    if len(known) == len(roots) > 1:
        # Each host's launcher names its own: the earliest failed first.
        roots = {rank for rank in roots if (ended[rank].time or 0) <= min(known) + CLOCKS}
    return tuple(sorted(roots))


def left_others(case: Case) -> tuple[int, ...]:
    """Return the one rank that failed, where others lost a peer and it says nothing of one."""
    lost, waited = who_says(case.job, loses_peer), who_says(case.job, waits_in_vain)
    own = tuple(rank for rank in failures(case) if rank not in lost | waited)
    return own if lost and len(own) == 1 and None not in lost | waited else ()


def _alike(case: Case, spoken: set[int], ended: dict[int, Exit]) -> set[int]:
    """Return the ranks of a launcher's table that failed as these did, and with them."""
    if not spoken <= ended.keys() or _brought_down(case.job.lines):
        return set()
    raised = {line.who.rank for line in case.job.lines if line.raised is not None} - spoken
    codes = {ended[rank].exitcode for rank in spoken}
    times = [ended[rank].time for rank in spoken]
    return {
        rank
        for rank, exit_ in ended.items()
        if exit_.exitcode in codes and rank not in raised and _same_moment(exit_.time, times)
    } - spoken


def ended_behind(case: Case, spoken: set[int]) -> bool:
    """Return whether a launcher ended these ranks because others had failed by themselves."""
    ended = failures(case)
    if not ended or spoken & ended.keys() or _brought_down(case.job.lines):
        return False
    by_launcher = [row.who.rank for row in case.job.exits if row.signal == signal.SIGTERM]
    # launchers mostly tell the pids alone of whom they end
    return spoken <= set(by_launcher) or by_launcher.count(None) >= len(spoken) > 0


def _brought_down(lines: Iterable[LogLine]) -> bool:
    return any(
        loses_peer(line) or waits_in_vain(line) or _OF_COLLECTIVES.search(line.text)
        for line in lines
    )


def _same_moment(time: float | None, others: Iterable[float | None]) -> bool:
    return time is not None and any(
        other is not None and abs(time - other) <= SAME_MOMENT for other in others
    )


def speakers(case: Case) -> set[int]:
    """Return the ranks of which some log line speaks, as far as its prefix or file tells."""
    return {line.who.rank for line in case.job.lines if line.who.rank is not None}


def has_no_ranks_to_blame(case: Case, ranks: tuple[int, ...]) -> bool:
    """Return whether an error is the program's: all ranks had it, or there is only one."""
    size = max(len(_everyone(case)), case.job.world_size or 0)
    return not has_ranks(case) or 1 < len(ranks) >= size


def are_most(case: Case, ranks: Sequence[int]) -> bool:
    """Return whether these are several ranks, and more than the others: none of them is the odd."""
    return len(ranks) > 2 and 2 * len(ranks) > _size(case)


def _size(case: Case) -> int:
    """Return how many ranks the job has at least; where there is a rank 3, there are four."""
    known = _everyone(case)
    return max(len(known), case.job.world_size or 0, *(rank + 1 for rank in known if rank))


def _everyone(case: Case) -> set[int | None]:
    exits = {row.who.rank for row in case.job.exits}
    print_too = {fact.who.rank for fact in case.job.of(Speaker)}
    return (speakers(case) | exits | print_too) - {None}


def has_ranks(case: Case) -> bool:
    """Return whether the job is known to have more than one rank."""
    job, size = case.job, case.job.world_size or 0
    if size > 1 or len(job.members) > 1 or job.tracks or len(children_of(case)) > 1:
        return True
    of_group = job.world_size is None and any(_OF_A_GROUP.search(line.text) for line in job.lines)
    if of_group or any(loses_peer(line) or waits_in_vain(line) for line in job.lines):
        return True
    speak = {fact.who for fact in job.of(Speaker)} | {line.who for line in job.lines}
    names = {name for who in speak if (name := _name(who))}
    processes = {(line.who.host, line.who.pid) for line in job.lines if line.who.pid is not None}
    if len(processes) > 1 or len(names) > 1 or any(_NOT_FIRST.search(name) for name, _ in names):
        return True
    ranks = {member.rank for member in job.members} | {row.who.rank for row in job.exits}
    return any(ranks - {None, 0}) or any(map(_names_a_rank, job.lines))


def children_of(case: Case) -> set[int]:
    """Return the processes that a launcher saw fail or ended, if it ended any."""
    pids = {row.who.pid: row.signal for row in case.job.exits if row.who.pid is not None}
    return set(pids) if signal.SIGTERM in pids.values() else set()


def _name(who: Who) -> tuple[str, str | None] | None:
    """Return what tells a process that is labelled as a rank from others."""
    if who.rank is not None or who.local_rank is not None:
        return f"rank {who.rank or who.local_rank or 0}", who.host
    label = who.label
    return (label, None) if label is not None and GROUP_RANK.match(label) else None


def _names_a_rank(line: LogLine) -> bool:
    """Return whether a line speaks of a rank other than 0: a single process has none."""
    words = f"{line.fields.get('rank', '')} {line.fields.get('ranks', '')}"
    return any(word.isdecimal() and int(word) > 0 for word in words.replace(",", " ").split())
