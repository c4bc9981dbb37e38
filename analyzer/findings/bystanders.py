"""Reports of an end that is not the cause: of another program's process, or of a rank brought down.

A launcher names who ended first. A rank that gave up waiting, or lost a peer, ended because of
another one, and then its end is nobody's fault.

The kernel kills whoever is large, and lists whoever crashed; on a host that is shared these are
often others. While every rank of a job is seen alive, such a line tells nothing of it, unless a
rank waits for a helper of its own: which numbers its dead children had, nobody knows. Nor does one
tell of a job that came to its planned end.
"""

import posixpath
import re

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import LogTail, ProcessRank, same_host
from whyhang.analyzer.findings.signature import CLEAR, CONTRADICTED, Hit
from whyhang.analyzer.job.inference.kernel_lines import OF_KERNEL
from whyhang.analyzer.rank_state.from_logs.absent_from_lists import WAITS, roll_call
from whyhang.analyzer.rank_state.from_logs.ends import loses_peer, waits_in_vain
from whyhang.analyzer.rank_state.from_logs.log_ends import ended_well
from whyhang.analyzer.rank_state.state import Status
from whyhang.analyzer.stacks import WaitKind

KERNEL_LOG = "kernel.log"  # the name in a bundle of what the kernel of a live job's host has said
_GOT_OVER = re.compile(
    r"(?i)\bfall(?:s|ing)? ?back|to silence this warning|continu(?:es?|ing) without"
    r"|\b(?:is|will be) (?:disabled|skipped|ignored)\b"
)
"""Words by which a program says itself that it goes on in another way."""
_CRASH = re.compile(
    r"(?i)segmentation fault|\bsignal:? \d+|core dumped|Fatal Python error|terminate called"
)
_OF_PROCESSES = frozenset({"rank-oom-killed", "rank-died"})
_ENDS = _OF_PROCESSES | {"not-distributed"}
_FOR_HELPERS = frozenset(
    {WaitKind.QUEUE, WaitKind.FUTURE, WaitKind.SUBPROCESS, WaitKind.DATALOADER, WaitKind.LOCK}
)


def weight_of(case: Case, category: str, hit: Hit) -> float:
    """Return what a hit is worth (0 to 1) that may be about a process of another program."""
    if _brought_down(case, hit) or _of_what_was_given_up(case, hit):
        return 0.0
    if hit.evidence and all(_GOT_OVER.search(piece.quote) for piece in hit.evidence):
        return CONTRADICTED
    explained = (_had_given_up, _though_all_ended, _called_the_roll)
    if category in _ENDS and any(follows(case, hit) for follows in explained):
        return 0.0
    pid = hit.fields.get("pid", "")
    if category in _OF_PROCESSES and _of_another_program(case, hit):
        return CONTRADICTED if category == "rank-oom-killed" else 0.0
    if not hit.members and not hit.ranks and _on_another_host(case, hit):
        return CONTRADICTED
    if category not in _OF_PROCESSES or hit.members or hit.ranks or not hit.evidence:
        return CLEAR
    if any(posixpath.basename(piece.source) != KERNEL_LOG for piece in hit.evidence):
        return CLEAR
    if not _complete(case) or (pid.isdecimal() and int(pid) in _own(case)):
        return CLEAR
    if case.graph.progress:
        return 0.0
    held = [case.states[number].place for number in case.graph.not_waiting]
    waits = any(place is not None and place.kind in _FOR_HELPERS for place in held)
    return CONTRADICTED if waits else 0.0


def _brought_down(case: Case, hit: Hit) -> bool:
    """Return whether a hit rests on reports of ends, all of ranks that others brought down."""
    places = hit.places
    reported = {row.who.rank for row in case.job.exits if row.source in places}
    ends = [case.ends.get(rank) for rank in {*case.ranks(hit.members), *hit.ranks} & reported]
    return bool(ends) and all(end is not None and not end.own for end in ends)


def _called_the_roll(case: Case, hit: Hit) -> bool:
    """Return whether these are the words of who named all others but few, and gave up on those."""
    if not hit.evidence or not all(WAITS.search(piece.quote) for piece in hit.evidence):
        return False
    call = roll_call(case.job.of(LogTail), case.job.world_size)
    if call is None:
        return False
    named = (piece.line or 0 for piece in hit.evidence if piece.source == call.source.file)
    return all(line > call.line.number for line in named)


def _had_given_up(case: Case, hit: Hit) -> bool:
    """Return whether all that a hit rests on stands below where its ranks gave up waiting.

    What a process crashes of as it leaves is no cause, nor where it leaves for a peer that is gone.
    """
    crashes = all(_CRASH.search(piece.quote) for piece in hit.evidence)
    spoken = {piece.rank for piece in hit.evidence if piece.rank is not None}
    ranks = {*case.ranks(hit.members), *hit.ranks} or spoken
    if not ranks or not hit.evidence:
        return False
    since: dict[tuple[str, int], int] = {}
    for line in case.job.lines:
        leaves = waits_in_vain(line) or (crashes and loses_peer(line))
        if line.who.rank in ranks and line.source.line is not None and leaves:
            since.setdefault((line.source.file, line.who.rank), line.source.line)
    return all(
        (piece.line or 0) > since.get((piece.source, rank), piece.line or 0)
        for piece in hit.evidence
        for rank in (ranks & {piece.rank} or ranks)
    )


def _of_what_was_given_up(case: Case, hit: Hit) -> bool:
    """Return whether a hit is the error that a collective raised which others had given up before.

    What comes out of it then is garbage: sizes of objects that were never received ask for more
    memory than there is.
    """
    ranks = {*case.ranks(hit.members), *hit.ranks}
    gave_up = (line.source for line in reversed(case.job.lines) if waits_in_vain(line))
    since = {source.file: source.line for source in gave_up if source.line is not None}
    raised = {
        line.who.rank
        for line in case.job.lines
        if line.raised is not None
        and (line.raised.op or "").endswith(("_object", "_object_list"))
        and (line.source.line or 0) > since.get(line.source.file, line.source.line or 0)
        and line.text in {piece.quote for piece in hit.evidence}
    }
    return bool(ranks) and ranks <= raised


def _though_all_ended(case: Case, hit: Hit) -> bool:
    """Return whether a kernel speaks of a process, and the job came to its planned end."""
    by_kernel = all(OF_KERNEL.search(piece.quote) for piece in hit.evidence)
    return bool(hit.evidence) and by_kernel and ended_well(case.job)


_PROGRAMS = re.compile(r"(?i)python|pt_|torch|train|ray|mpi|rank|deepspeed|accelerate|vllm|sglang")
"""Names of processes that a job of ranks has, or its threads."""


_XID_NAME = re.compile(r"NVRM: Xid .{0,80}\bname='?([\w.+:/-]+)")


def _of_another_program(case: Case, hit: Hit) -> bool:
    """Return whether a kernel tells of something whose name and number none of the job has.

    Where it was killed the memory had run out for the job's own processes as well; what crashed
    did nothing to them.
    """
    pid, task = hit.fields.get("pid", ""), hit.fields.get("task", "") or _name_in_xid(hit)
    if not pid.isdecimal() or not task or _PROGRAMS.match(task) or hit.members or hit.ranks:
        return False
    known = {fact.who.pid for fact in case.job.of(ProcessRank)} | _own(case)
    return len(known - {None}) > 1 and int(pid) not in known


def _name_in_xid(hit: Hit) -> str:
    """Return what the NVIDIA driver calls the process of a fault, "" where it does not."""
    names = (_XID_NAME.search(piece.quote) for piece in hit.evidence)
    return next((name[1] for name in names if name is not None), "")


def _on_another_host(case: Case, hit: Hit) -> bool:
    """Return whether all that a hit rests on is of hosts on which no rank of the job ran.

    Only where the hosts of all ranks are known.
    """
    places = hit.places
    hosts = {line.who.host for line in case.job.lines if line.source in places}
    ours = {fact.rank: fact.who.host for fact in case.job.of(ProcessRank) if fact.who.host}
    ours |= {m.rank: m.host for m in case.job.members if m.host and m.rank is not None}
    everyone = 1 < (case.job.world_size or 0) <= len(ours)
    if not everyone or not hosts or None in hosts:
        return False
    return not any(same_host(host, own) for host in hosts for own in set(ours.values()))


def _complete(case: Case) -> bool:
    job = case.job
    alive = all(state.status is not Status.GONE for state in case.states)
    processes = all(member.processes for member in job.members)
    return bool(case.states) and alive and processes and not job.missing and not job.absent


def _own(case: Case) -> set[int]:
    job = case.job
    children = [child for member in job.members for child in member.children]
    pids = {member.pid for member in job.members}
    pids |= {child.pid for child in (*children, *job.launchers)}
    return {pid for pid in pids if pid is not None}
