"""Ranks wait in vain for others, which are silent, left no record, or say what they did instead."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.collectives import CallFinding, Verdict
from whyhang.analyzer.collectives.groups import OVERTAKEN, RECORDER
from whyhang.analyzer.facts import (
    LastLine,
    LogLine,
    LogTail,
    OwnLine,
    ProcessRank,
    ranks_in_words,
    replace,
)
from whyhang.analyzer.findings.signature import CLEAR, GUESSED, INDIRECT, Hit
from whyhang.analyzer.queries.hits import LONGEST, MAX_QUOTES, cite_line, members_of, merged
from whyhang.analyzer.queries.logs.failures import speakers
from whyhang.analyzer.queries.logs.log_ends import ORDERLY_END
from whyhang.analyzer.queries.logs.nccl import setups
from whyhang.analyzer.queries.logs.what_failed import failed_lines
from whyhang.analyzer.queries.registry import query, side
from whyhang.analyzer.queries.waits.recorded import recorded_hit
from whyhang.analyzer.rank_state.from_logs.ends import IN_VAIN, waits_in_vain
from whyhang.analyzer.rank_state.from_logs.gave_up import (
    BROKEN,
    few_beside,
    gave_up,
    is_cut_while_giving_up,
    last_lines,
    lost_peer,
    silent_beside,
)
from whyhang.analyzer.rank_state.from_logs.log_ends import own_line, tails_of_ranks
from whyhang.analyzer.report import cite
from whyhang.analyzer.wording.describe import duration

ALL_BUT = 8

FEWEST = 3
"""With fewer dumps than these, one that is missing tells nothing."""


@side("waits_for_absent", record="silent")
def _silent_in_log(case: Case) -> Iterator[Hit]:
    """Yield one hit per call that waits for few silent ranks whose words would be in these logs.

    Where ranks write to a shared log and all but few of them speak in it, the silent ones are the
    ones to look at. Where each has a log of its own, and NCCL prints how far it is, so are those
    whose log has no word of it. Where nothing tells the world size, a single hole in the ranks
    that speak is as much as is said. Of two, the other one is a possibility in any case.
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
    gave = gave_up(job) | {rank for rank, end in case.ends.items() if end.stood}
    breaks_off = any(end.cut and len(end.text.strip()) < BROKEN for end in job.of(LastLine))
    for finding in case.graph.calls.of(Verdict.WAITS_FOR_ABSENT):
        absent = [rank for rank in finding.absent if rank not in gave]
        starting = finding.call is not None and finding.call.op == "comm_init"
        if starting and breaks_off:
            continue  # who began next may stand behind
        silent = starting and read.keys() - set_up >= set(absent)
        few = few_beside(absent, finding.waiting)
        # who has begun NCCL's set-up is known of all whose output this is
        p2p = finding.call is not None and finding.call.p2p
        of_two = job.world_size == 2 and not (are_shared or silent or p2p)
        if (few or starting) and absent and (are_shared or silent or of_two):
            silent_ones = replace(finding, culprits=tuple(absent), absent=tuple(absent))
            hit = recorded_hit(case, silent_ones)
            strength = hit.strength * (CLEAR if job.world_size else INDIRECT)
            strength *= CLEAR if few and not of_two else GUESSED
            hit = _with_absent(hit, silent_ones)
            fields = {**hit.fields, "silence": _silence(case, absent)}
            yield replace(hit, fields=fields, strength=strength)


@side("waits_for_absent", record="gave-up")
def _silent_beside_who_gave_up(case: Case) -> Iterator[Hit]:
    """Yield one hit for few ranks without a word, where all others gave up in one call in one log.

    This is what tracebacks tell, where no record of calls does.
    """
    operations = case.graph.operations
    waited = {line.who.rank: line for line in case.job.lines if waits_in_vain(line)}
    ranks = {rank for rank in waited if rank is not None}
    files = {line.source.file for line in waited.values()}
    if len(operations) != 1 or len(files) != 1 or len(ranks) < FEWEST or None in waited:
        return
    if case.graph.calls.positions or lost_peer(case.job) or is_cut_while_giving_up(case.job):
        return
    everyone = range(case.job.world_size or max(ranks) + 1)
    absent = sorted({*everyone} - ranks)
    if ranks != gave_up(case.job) or not few_beside(absent, ranks) or speakers(case) & {*absent}:
        return
    lines = [waited[rank] for rank in sorted(ranks)]
    yield Hit(
        ranks=tuple(absent),
        affected=members_of(case, sorted(ranks)),
        evidence=tuple(map(cite_line, lines[:MAX_QUOTES])),
        fields={
            "others": ranks_in_words(ranks),
            "call": operations[0].op,
            "absent": ranks_in_words(absent),
            "silence": _silence(case, absent),
        },
        strength=CLEAR if case.job.world_size else INDIRECT,
    )


@side("waits_for_absent", record="no-dump")
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


def _silence(case: Case, absent: Sequence[int]) -> str:
    """Say what is not known of ranks without a word of a call: who speaks otherwise is there."""
    job = case.job
    spoken = speakers(case) | {end.who.rank for end in (*job.of(LastLine), *job.of(LogTail))}
    spoken |= {fact.rank for fact in job.of(ProcessRank)}
    told = [rank for rank in absent if rank in spoken]
    others = [rank for rank in absent if rank not in spoken]
    says = []
    if told:
        printed = f"what {ranks_in_words(told)} printed"
        says.append(f"{printed} has no word of it: not there yet, or gone")
    if others:
        silent = ranks_in_words(others)
        says.append(f"{silent} did not say anything: not there yet, dead, or not collected")
    return ". ".join(text[:1].upper() + text[1:] for text in says)


def _with_absent(hit: Hit, finding: CallFinding) -> Hit:
    words = ranks_in_words(finding.absent) if finding.absent else "the other members of the group"
    return replace(hit, fields={**hit.fields, "absent": words})


LEAST = 10.0  # seconds of a limit
_SECONDS = re.compile(r"(?<![\w.:-])(?P<s>\d{2,7}(?:\.\d+)?) ?(?:s|secs?|seconds)\b(?!/)")
_BAR = re.compile(r"\[(?:(?P<h>\d+):)?(?P<m>\d\d):(?P<s>\d\d)<")
_LEAVES = re.compile(r"(?i)destroy(?:ing|_process_group|ed)|tear(?:ing)? ?down|shutting down")


_LIMIT = re.compile(r"\b(?P<ms>\d{3,9}) ?ms\b")
"""The limit of gloo, as it says it."""


@side("instead_of_waiting", ranks="worked")
def _worked(case: Case) -> Iterator[Hit]:
    """Yield one hit for ranks whose work took longer than the limit of those who waited."""
    limits = [
        call.limit
        for track in case.job.tracks
        for call in track.calls
        if track.kind == "watchdog" and call.limit is not None
    ]
    said = (_LIMIT.search(line.text) for line in case.job.lines if waits_in_vain(line))
    limits += [float(match["ms"]) / 1000 for match in said if match is not None]
    waited = gave_up(case.job)
    if not waited or not limits or min(limits) < LEAST:
        return
    lines: dict[int, OwnLine] = {}
    longest = 0.0
    for tail in case.job.of(LogTail):
        for line in tail.lines if tail.who.rank not in waited else ():
            took = _took(line.text)
            if took > min(limits) and tail.who.rank is not None:
                lines.setdefault(tail.who.rank, line)
                longest = max(longest, took)
    if lines:
        yield _hit(case, lines, took=duration(longest), limit=duration(min(limits)))


@side("instead_of_waiting", ranks="left")
def _left(case: Case) -> Iterator[Hit]:
    """Yield one hit for the few ranks whose last words are of an end, while all others waited.

    What those print as well is no end of the work.
    """
    waited = gave_up(case.job)
    timed_out = any(track.kind == "watchdog" for track in case.job.tracks)
    tails = tails_of_ranks(case.job)
    others = sorted(tails.keys() - waited - lost_peer(case.job))
    everyone = len(waited) + len(others) >= (case.job.world_size or 0)
    if not timed_out or not everyone or not few_beside(others, waited):
        return
    last = {rank: tails[rank].lines[-1] for rank in others}
    usual = {line.template for rank in tails.keys() & waited for line in tails[rank].lines}
    if is_cut_while_giving_up(case.job) or usual & {line.template for line in last.values()}:
        return
    if all(_LEAVES.search(x.text) or ORDERLY_END.search(x.text) for x in last.values()):
        yield _hit(case, last)


def _took(text: str) -> float:
    """Return the longest time in seconds that a line tells, 0 where it tells none."""
    times = [float(match["s"]) for match in _SECONDS.finditer(text)]
    times += [
        3600 * int(bar["h"] or 0) + 60 * int(bar["m"]) + int(bar["s"])
        for bar in _BAR.finditer(text)
    ]
    return max(times, default=0.0)


def _hit(case: Case, lines: dict[int, OwnLine], **fields: str) -> Hit:
    tails = tails_of_ranks(case.job)
    first = min(lines)
    return Hit(
        ranks=tuple(sorted(lines)),
        affected=members_of(case, sorted(gave_up(case.job))),
        evidence=tuple(
            cite(tails[rank].source, line.text, rank)
            for rank, line in sorted(lines.items())[:4]
            if rank in tails
        ),
        fields={"line": lines[first].text[:LONGEST], **fields},
    )


_NOTIFY = ("The wait execution of the Notify register times out",)  # of hccl-notify-timeout


@query
def ranks_not_waiting(
    case: Case, lines: Sequence[LogLine], *, own_logs: bool = False
) -> Iterable[Hit]:
    """Return one hit for ranks that speak in the logs and not of waiting, as these lines do.

    What programs say in words of their own counts as these lines do. ``own_logs``: only ranks with
    a log of their own count, whose silence is no cut in an excerpt; and what watchdogs and NPUs say
    of waiting counts, too.
    """
    if not own_logs:
        return _not_among(case, [*lines, *failed_lines(case, IN_VAIN)], own_logs=False)
    kinds = (_timed_out(case), lines, case.job.lines_with(_NOTIFY))
    return merged(*(_not_among(case, each, own_logs=True) for each in kinds))


def _not_among(case: Case, lines: Sequence[LogLine], *, own_logs: bool) -> Iterator[Hit]:
    """Yield one hit for ranks that speak in the logs and not of waiting, as ``lines`` do.

    Only few may be missing among those who waited: the only other rank of two, or half as many.
    """
    last = silent_beside(case.job, own_logs=own_logs)
    if not lines or not last:
        return
    waited, others = gave_up(case.job), sorted(last)
    calls = {str(each.call) for each in case.graph.calls.of(Verdict.WAITS_FOR_ABSENT) if each.call}
    line = own_line(case.job, last[others[0]])[:LONGEST]
    place = f"{last[others[0]].source.file}:{last[others[0]].source.line}"
    last_words = [cite(last[rank].source, last[rank].text, rank) for rank in others[:MAX_QUOTES]]
    yield Hit(
        ranks=tuple(others),
        affected=tuple(sorted({m.id for line in lines if (m := case.job.member_of(line.who))})),
        evidence=(*(cite_line(line) for line in lines[:2]), *last_words),
        fields={
            "others": ranks_in_words(waited),
            "call": calls.pop() if len(calls) == 1 else "the call",
            "line": f"'{line}' ({place})",
            "watchdogs": "NPUs" if "Notify register" in lines[0].text else "NCCL watchdogs",
            "its": "its" if len(others) == 1 else f"of rank {others[0]} the",
        },
        at=min((line.time for line in lines if line.time is not None), default=None),
    )


def _timed_out(case: Case) -> list[LogLine]:
    """Return the lines in which a watchdog names the call it gave up."""
    places = {
        (track.source.file, track.source.line)
        for track in case.job.tracks
        if track.kind == "watchdog" and track.calls
    }
    return [line for line in case.job.lines if (line.source.file, line.source.line) in places]
