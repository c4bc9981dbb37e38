"""Findings that other evidence contradicts: dropped or doubted, and the report says why."""

import re

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Capacity, OpenPort, same_host
from whyhang.analyzer.findings.levels import Candidate

ENOUGH_FREE = 0.5  # share of /dev/shm that is free where nothing can have failed for want of it
ROOMY = 1 << 30  # bytes below which a segment may not fit though much is free
ANY = {"0.0.0.0", "*", "::"}  # noqa: S104 - what ss prints for all addresses
NOT_FULL = {"shm-too-small"}
MISMATCH = {"mpi-mismatch", "collective-mismatch"}
_FULL = re.compile(r"[Nn]o space left|out of shared memory|shared memory|/dev/shm|shm")
_REFUSED = re.compile(r"(?:Connection|connection) refused|ECONNREFUSED|errno: 111|Errno 111")
_TARGET = re.compile(r"(?P<host>\d{1,3}(?:\.\d{1,3}){3}|[\w.-]+)\]?[:<|, ]+(?P<port>\d{4,5})\b")


def refuted(case: Case, candidate: Candidate) -> str:
    """Return what contradicts a finding; nothing where nothing does.

    A row of df that shows room in /dev/shm counts that is from before the job ended and left it.
    """
    row = _roomy(case, candidate)
    return (
        (_room_in(row) if row is not None and _from_then(case, candidate, row) else "")
        or _listens(case, candidate)
        or _same_barrier(case, candidate)
        or _all_asleep(case, candidate)
    )


def doubted(case: Case, candidate: Candidate) -> str:
    """Return what may contradict a finding, if it was printed when that happened."""
    row = _roomy(case, candidate)
    if row is None or _from_then(case, candidate, row):
        return ""
    return f"{_room_in(row)}, which counts for little if it was printed after the job had ended"


def _room_in(row: Capacity) -> str:
    return f"{row.source} shows /dev/shm {row.free:.0%} free ({row.quote})"


def _from_then(case: Case, candidate: Candidate, row: Capacity) -> bool:
    """Return whether the job was there when a row was printed, which carries no time."""
    job = case.job
    ended = job.exits or case.ends or any(line.raised is not None for line in job.lines)
    return not ended or any(
        piece.source == row.source.file and (piece.line or 0) > (row.source.line or 0)
        for piece in candidate.hit.evidence
    )


def _roomy(case: Case, candidate: Candidate) -> Capacity | None:
    """Return the row of df that shows room in /dev/shm, if all rows of the hosts in question do."""
    quotes = " ".join(piece.quote for piece in candidate.hit.evidence)
    if candidate.signature.category not in NOT_FULL or not _FULL.search(quotes):
        return None
    hosts = {case.member(number).host for number in candidate.hit.members} or {None}
    mounts = (m for m in case.job.of(Capacity) if m.mount == "/dev/shm")  # noqa: S108 - its name
    rows = [row for row in mounts if any(same_host(row.who.host, host) for host in hosts)]
    has_room = all(row.free >= ENOUGH_FREE and row.size >= ROOMY for row in rows)
    return rows[0] if rows and has_room else None


def _listens(case: Case, candidate: Candidate) -> str:
    """Return the row that shows something listening where all connections were refused."""
    lines = [piece.quote for piece in candidate.hit.evidence]
    if candidate.signature.category != "init-master-unreachable" or not lines:
        return ""
    targets = {(m["host"], int(m["port"])) for line in lines for m in _TARGET.finditer(line)}
    if not any(_REFUSED.search(line) for line in lines):
        return ""
    rows = [
        row
        for row in case.job.of(OpenPort)
        for host, port in targets
        if row.port == port and row.address in {*ANY, host}
    ]
    return f"{rows[0].source} shows who listens there ({rows[0].quote})" if rows else ""


def _all_asleep(case: Case, candidate: Candidate) -> str:
    """Say that no rank runs or stalls in the kernel, where a finding about no rank says it does."""
    last = [member.processes[-1] for member in case.job.members if member.processes]
    seen = len(last) == len(case.states) > 0 and not case.job.absent
    if candidate.signature.category != "rank-spinning" or candidate.hit.members or not seen:
        return ""
    rest = all(process.state in {"S", "T", "t", "Z"} for process in last)
    return "all ranks sleep, and wait for something else than a CPU" if rest else ""


def _same_barrier(case: Case, candidate: Candidate) -> str:
    """Say that all ranks are seen in one barrier, which has no counts, roots or types to differ."""
    meetings, call = case.graph.operations, candidate.hit.collective
    if candidate.signature.category not in MISMATCH or len(meetings) != 1 or call is None:
        return ""
    (meeting,) = meetings
    everyone = len(meeting.members) == len(case.states) > 1
    if not everyone or meeting.op != call.op or len(meeting.sites) > 1 or "barrier" not in call.op:
        return ""
    return f"all {len(case.states)} ranks stand in the same {call.op}"
