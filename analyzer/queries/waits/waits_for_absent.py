"""Ranks wait in a collective for others of which there is no record."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Literal

from whyhang.analyzer.case import Case
from whyhang.analyzer.collectives import CallFinding, Verdict
from whyhang.analyzer.collectives.groups import OVERTAKEN, RECORDER
from whyhang.analyzer.facts import LastLine, ranks_in_words, replace
from whyhang.analyzer.findings.signature import CLEAR, GUESSED, INDIRECT, Hit
from whyhang.analyzer.queries.logs.nccl import setups
from whyhang.analyzer.queries.waits.recorded import recorded_hit
from whyhang.analyzer.rank_state.from_logs.gave_up import (
    BROKEN,
    few_beside,
    gave_up,
    is_cut_while_giving_up,
    last_lines,
)

ALL_BUT = 8

FEWEST = 3
"""With fewer dumps than these, one that is missing tells nothing."""


def _silent_in_log(case: Case) -> Iterator[Hit]:
    """Yield one hit per call that waits for few silent ranks whose words would be in these logs.

    Where ranks write to a shared log and all but few of them speak in it, the silent ones are the
    ones to look at. Where each has a log of its own, and NCCL prints how far it is, so are those
    whose log has no word of it. Where nothing tells the world size, a single hole in the ranks
    that speak is as much as is said.
    """
    job = case.job
    if any(track.kind in {RECORDER, OVERTAKEN} for track in job.tracks):
        return  # every rank has a file of its own
    if is_cut_while_giving_up(job):
        return
    ranks_in: dict[str, set[int | None]] = defaultdict(set)
    for track in job.tracks:
        ranks_in[track.source.file].add(track.who.rank)
    for end in job.of(LastLine):
        if end.source.file in ranks_in and end.who.rank is not None:
            ranks_in[end.source.file].add(end.who.rank)
    are_shared = all(len(ranks) > 1 for ranks in ranks_in.values())
    read, set_up = last_lines(job), {rank for rank, _ in setups(case)}
    gave = gave_up(job)
    breaks_off = any(end.cut and len(end.text.strip()) < BROKEN for end in job.of(LastLine))
    for finding in case.graph.calls.of(Verdict.WAITS_FOR_ABSENT):
        absent = [rank for rank in finding.absent if rank not in gave]
        starting = finding.call is not None and finding.call.op == "comm_init"
        if starting and breaks_off:
            continue  # who began next may stand behind
        silent = starting and read.keys() - set_up >= set(absent)
        few = few_beside(absent, finding.waiting)
        # who has begun NCCL's set-up is known of all whose output this is
        if (few or starting) and absent and (are_shared or silent):
            hit = recorded_hit(case, replace(finding, culprits=tuple(absent)))
            strength = hit.strength * (CLEAR if job.world_size else INDIRECT)
            strength *= CLEAR if few else GUESSED
            yield replace(_with_absent(hit, finding), strength=strength)


def _unrecorded(case: Case) -> Iterator[Hit]:
    """Yield one hit per call in which ranks wait for such as left no dump, or an old one.

    Where all but very few ranks left a dump, those few are a possibility: a rank that died or
    was stopped writes none. Not so where a dump is there and cannot be read.
    """
    recorders = {t.source.file for t in case.job.tracks if t.kind == RECORDER}
    findings = case.graph.calls.of(Verdict.WAITS_FOR_ABSENT)
    few = _very_few(case, {rank for finding in findings for rank in finding.absent})
    for finding in findings:
        if any(source.file in recorders for source in finding.sources):
            blamed = replace(finding, culprits=finding.absent) if few else finding
            yield _with_absent(recorded_hit(case, blamed), finding)


def _very_few(case: Case, absent: set[int]) -> bool:
    """Return whether these are almost the only ranks of which there is no dump."""
    ranks = {track.who.rank for track in case.job.tracks if track.kind in {RECORDER, OVERTAKEN}}
    known = ranks | {gap.who.rank for gap in case.job.gaps}
    few = 0 < len(absent) <= max(1, len(ranks) // ALL_BUT)
    return few and len(ranks) >= FEWEST and not known & absent


def _with_absent(hit: Hit, finding: CallFinding) -> Hit:
    words = ranks_in_words(finding.absent) if finding.absent else "the other members of the group"
    return replace(hit, fields={**hit.fields, "absent": words})


def waits_for_absent(case: Case, record: Literal["silent", "no-dump"]) -> Iterator[Hit]:
    """Yield one hit per call that waits for ranks of which logs say nothing, or no dump exists."""
    return _silent_in_log(case) if record == "silent" else _unrecorded(case)
