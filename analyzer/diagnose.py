"""Hold every signature against the case, and put causes before effects."""

from __future__ import annotations

from collections.abc import Iterable

from whyhang import __version__
from whyhang.analyzer import fingerprints
from whyhang.analyzer.bystanders import weight_of
from whyhang.analyzer.case import Case, Stand, Standing
from whyhang.analyzer.describe import ranks_in_words, subject_fields
from whyhang.analyzer.match.exit import EXCEPTION, has_no_ranks_to_blame
from whyhang.analyzer.model import Record, replace
from whyhang.analyzer.report import Evidence, Finding, Report, Verdict
from whyhang.analyzer.reports.gpus import gpu_rows
from whyhang.analyzer.reports.stacks import parting, stack_groups
from whyhang.analyzer.reports.summary import gap_lines, job_facts, rank_rows
from whyhang.analyzer.signature import Hit, Kind, Signature
from whyhang.analyzer.wording import fill, sentence

MAX_EFFECTS = 6
ENOUGH = 0.5  # a mere possibility explains nothing away


class Candidate(Record):
    """A signature that matched, with one of its hits."""

    signature: Signature
    hit: Hit

    @property
    def confidence(self) -> float:
        """Scale what the signature is worth by how clear the hit is."""
        return round(max(0.05, min(0.99, self.signature.confidence * self.hit.strength)), 2)


def diagnose(case: Case, signatures: Iterable[Signature]) -> Report:
    """Turn an aligned job into a report.

    A signature that fails is a note in the report and never its end.
    """
    notes: list[str] = []
    candidates: list[Candidate] = []
    for signature in signatures:
        try:
            hits = _hits(signature, case)
        except Exception as error:  # noqa: BLE001 - one signature must not cost the diagnosis
            notes.append(f"The signature {signature.id} failed and was left out: {error!r}")
            continue
        weighed = [(hit, weight_of(case, signature.category, hit)) for hit in hits]
        candidates += [
            Candidate(signature=signature, hit=replace(hit, strength=hit.strength * weight))
            for hit, weight in weighed
            if weight > 0
        ]
    candidates = _without_last_resorts([c for c in candidates if not _overcome(case, c)])
    findings = _findings(case, candidates)
    verdict = _verdict(case, findings, candidates)
    return Report(
        verdict=verdict,
        headline=_headline(case, findings, verdict),
        job=job_facts(case),
        findings=findings,
        ranks=rank_rows(case),
        stack_groups=stack_groups(case),
        gpus=gpu_rows(case, (n for c in candidates for n in c.hit.gpus)),
        gaps=(*gap_lines(case), *(() if findings or not case.job.members else UNDECIDED)),
        notes=(*notes, *fingerprints.notes(case, _told(findings))),
        tool_version=__version__,
    )


def _overcome(case: Case, candidate: Candidate) -> bool:
    """Tell trouble at the start that a job got over: it is seen at work further down."""
    if not candidate.signature.category.startswith("init-"):
        return False
    alive = {
        claim.source.file: claim.source.line or 0
        for claim in case.job.claims
        if claim.about == "life-to"
    }
    pieces = candidate.hit.evidence
    return bool(pieces) and all(alive.get(p.source, 0) > (p.line or 0) > 0 for p in pieces)


def _told(findings: Iterable[Finding]) -> str:
    """Join what the findings say, so that notes need not say it again."""
    quotes = (piece.quote for finding in findings for piece in finding.evidence)
    return "\n".join((*(finding.explanation for finding in findings), *quotes))


def _without_last_resorts(candidates: list[Candidate]) -> list[Candidate]:
    """Drop what only counts where nothing else was found, if something was."""
    telling = [
        c for c in candidates if not c.signature.last_resort and c.signature.kind is not Kind.NOISE
    ]
    return telling or candidates


def _hits(signature: Signature, case: Case) -> tuple[Hit, ...]:
    hits = signature.when(case)
    if signature.unless is None or not hits:
        return hits
    vetoes = signature.unless(case)
    return tuple(hit for hit in hits if not any(_about_same(hit, veto) for veto in vetoes))


def _about_same(a: Hit, b: Hit) -> bool:
    return not a.members or not b.members or bool(set(a.members) & set(b.members))


def _findings(case: Case, candidates: list[Candidate]) -> tuple[Finding, ...]:
    """Put the causes first, surest first; behind them what only follows from them."""
    causes = sorted((c for c in candidates if c.signature.kind is Kind.CAUSE), key=_cause_order)
    restarts = _restarts(candidates)
    above = [_outranked_by(candidate, causes, restarts) for candidate in causes]
    roots = [c for c, other in zip(causes, above, strict=True) if other is None]
    found = [_finding(case, candidate) for candidate in roots]
    for candidate, other in zip(causes, above, strict=True):
        if other is not None:
            cause = roots.index(other) if other in roots else 0
            finding = _finding(case, candidate)
            found.append(replace(finding, caused_by=cause if roots else None))
            if roots and found[cause].culprit_ranks is None and other.hit.names_culprit:
                # The line that says why may not say who; the one that it explains does.
                found[cause] = replace(found[cause], culprit_ranks=finding.culprit_ranks)
    order = _order if roots else _effect_order
    effects = sorted((c for c in candidates if c.signature.kind is Kind.CONSEQUENCE), key=order)
    cause_of_all = 0 if roots else None
    found += [replace(_finding(case, c), caused_by=cause_of_all) for c in effects[:MAX_EFFECTS]]
    if found and not roots and effects and not found[0].remedies:
        found[0] = replace(found[0], remedies=CAUSE_UNSEEN)
    return tuple(found)


UNDECIDED = (
    (
        "What would tell: more looks (--looks 6 --interval 5), C frames (--native always), the "
        "ranks of other hosts, the job's logs, recorder dumps (start it with "
        "TORCH_FR_BUFFER_SIZE=2000)."
    ),
)
"""How to get on where ranks were seen and nothing was found."""

CAUSE_UNSEEN = (
    (
        "What caused this is not in the evidence: add the output of every rank and the launcher, "
        "the scheduler's and the kernel's log, recorder dumps."
    ),
    "Look for the first error of any rank before this, and for the rank that says nothing.",
)
"""What to do where only a consequence is known, and its signature does not know better."""


def _cause_order(candidate: Candidate) -> tuple[float, float, int, str]:
    """Order causes: surer first, then the earlier, then the one on fewer ranks."""
    hit = candidate.hit
    return (
        -candidate.confidence,
        hit.at if hit.at is not None else float("inf"),
        len(hit.members) or 10**6,
        candidate.signature.id,
    )


def _effect_order(candidate: Candidate) -> tuple[bool, tuple[float, float, int, str]]:
    """Let the surest effect lead where no cause is known; how a launcher ended it tells least."""
    return (candidate.signature.gives_way, _cause_order(candidate))


def _order(candidate: Candidate) -> tuple[float, str]:
    at = candidate.hit.at
    return (at if at is not None else float("inf"), candidate.signature.id)


def _outranked_by(
    candidate: Candidate, causes: list[Candidate], restarts: list[tuple[str, int]]
) -> Candidate | None:
    """Find a cause about the same ranks that explains this one."""
    for other in causes:
        if other is candidate or other.confidence < ENOUGH:
            continue
        named = candidate.signature.id in other.signature.outranks
        if named and _about_same(candidate.hit, other.hit):
            return other
        if _starts_anew(candidate) and any(
            _before(other, restart) and not _before(candidate, restart) for restart in restarts
        ):
            return other
        dies = candidate.signature.category == "rank-died" and not candidate.signature.gives_way
        if dies and other.signature.gives_way and _came_first(other, candidate):
            return other  # a rank that was left behind may well crash
        if not candidate.signature.gives_way or other.signature.gives_way:
            continue
        no_answer = other.signature.category == "unknown"
        if (
            not no_answer
            and not _came_first(candidate, other)
            and not _starts_anew(other, restarts)
        ):
            return other
    return None


def _restarts(candidates: list[Candidate]) -> list[tuple[str, int]]:
    """List the lines at which an attempt of the job ended and another began."""
    return [
        (piece.source, piece.line)
        for candidate in candidates
        if candidate.signature.restarts
        for piece in candidate.hit.evidence
        if piece.line is not None
    ]


def _starts_anew(candidate: Candidate, restarts: list[tuple[str, int]] | None = None) -> bool:
    """Tell a failure to start; with ``restarts``, one that comes after an attempt has failed."""
    starting = candidate.signature.category.startswith(("init-", "store-key"))
    if restarts is None:
        return starting
    return starting and any(not _before(candidate, restart) for restart in restarts)


def _before(candidate: Candidate, place: tuple[str, int]) -> bool:
    """Tell whether something of a finding stands above a line of a file, or in another file."""
    file, line = place
    lines = [p.line for p in candidate.hit.evidence if p.source == file and p.line is not None]
    return not lines or min(lines) < line


def _came_first(candidate: Candidate, other: Candidate) -> bool:
    """Tell whether a finding on some rank stands above one on another rank, in one file."""
    mine, theirs = set(candidate.hit.members), set(other.hit.members)
    if not mine or not theirs or mine & theirs:
        return False
    places = [(p.source, p.line) for p in candidate.hit.evidence if p.line is not None]
    return any(
        not _before(other, place)
        for place in places
        if any(p.source == place[0] for p in other.hit.evidence)
    )


def _finding(case: Case, candidate: Candidate) -> Finding:
    signature, hit = candidate.signature, candidate.hit
    ranks = tuple(sorted({*case.ranks(hit.members), *hit.ranks}))
    everyone = all(case.member(number).rank is not None for number in hit.members)
    known = hit.names_culprit and bool(ranks) and everyone
    category = signature.category
    if signature.everywhere and has_no_ranks_to_blame(case, ranks):
        category, known = signature.everywhere, False
    words = dict(hit.fields)
    if "who" not in words:
        names = case.names(hit.members) if hit.members else ""
        words["who"] = names or (ranks_in_words(hit.ranks) if hit.ranks else "the job")
    explanation = sentence(fill(signature.means, words))
    where = parting(case, hit.members, hit.affected) if hit.members else None
    if where is not None:
        explanation += f" The paths part in {where}."
    pressing = pressure_of(case, hit) if category in HELD_BACK and known else []
    if pressing:
        explanation += f" Also, {'; '.join(dict.fromkeys(piece.quote for piece in pressing))}."
    return Finding(
        signature=signature.id,
        category=category,
        confidence=candidate.confidence,
        title=sentence(fill(signature.title, words)),
        explanation=explanation,
        culprit_ranks=ranks if known else None,
        affected_ranks=case.ranks(hit.affected),
        collective=hit.collective,
        location=hit.location,
        evidence=(*hit.evidence, *pressing),
        remedies=tuple(fill(text, words) for text in signature.remedies),
        next_steps=tuple(fill(text, words) for text in _next_steps(case, signature, ranks)),
        runbook_url=signature.runbook,
        kind=signature.kind.value,
        subjects=tuple(case.member(number).name for number in hit.members),
    )


def _next_steps(case: Case, signature: Signature, ranks: tuple[int, ...]) -> tuple[str, ...]:
    """Give what to run next; of a rank without a process, nothing that needs its pid."""
    gone = {gone.rank for gone in case.job.gone}
    if not ranks or not gone.issuperset(ranks):
        return signature.next_steps
    steps = tuple(step for step in signature.next_steps if "{pid}" not in step)
    return steps or ("pgrep -af python  # on its host: was {who} started?",)


HELD_BACK = {"init-missing-rank", "missing-rank-in-collective", "slow-not-hung", "rank-spinning"}
"""Categories that say a rank is late, which a shortage of CPU or memory may explain."""


def pressure_of(case: Case, hit: Hit) -> list[Evidence]:
    """Quote what was near its limit for the ranks of a hit, or for their host."""
    members = [case.member(number) for number in hit.members]
    return [
        Evidence(source=claim.source.file, line=claim.source.line, quote=claim.value)
        for claim in case.job.claims
        if claim.about == "pressure"
        and any(
            claim.who.host == member.host and claim.who.pid in {None, member.pid}
            for member in members
        )
    ][:MAX_EFFECTS]


SETTLED: dict[str, Verdict] = {"healthy": "healthy", "slow-not-hung": "slow"}


def _verdict(case: Case, findings: tuple[Finding, ...], candidates: list[Candidate]) -> Verdict:
    """Say in one word how the job is."""
    if not findings:
        return "inconclusive"
    first = findings[0]
    if _no_job(case) and case.job.gpus.devices:
        return _of_gpus_alone(first)
    if first.category in SETTLED:
        return SETTLED[first.category]
    timed_out = any(c.signature.kind is Kind.CONSEQUENCE for c in candidates)
    waits = bool(case.picture.waiting or case.picture.maybe or case.ledger.waits)
    seen_live = _seen_alive(case) or any(
        claim.about == "ras-report"
        for claim in case.job.claims  # only a living job answers
    )
    if first.category == "unknown":
        return (
            "hung"
            if waits and not case.picture.progress and first.confidence >= 0.5
            else "inconclusive"
        )
    if first.category == "init-missing-rank" and _all_move(case, first):
        return "slow"
    if case.stands and all(stand.standing is Standing.GONE for stand in case.stands):
        return "failed"
    if seen_live or not case.job.lines:
        return "hung"
    ended = bool(case.job.exits) or any(EXCEPTION in line.matched for line in case.job.lines)
    inside = any(spot.inside for spot in case.ledger.spots.values())
    if inside and not ended and not _errors(case, candidates):
        return "hung"  # calls stand open, and no line says that anything failed
    return "hung" if first.category in HANGS and (timed_out or not ended) else "failed"


def _seen_alive(case: Case) -> bool:
    """Tell whether a process was looked at. What Python prints as it dies is no such look."""
    dying = {line.source.file for line in case.job.lines if "Fatal Python error" in line.text}
    return any(
        member.processes
        or any(d.tool != "faulthandler" or d.source.file not in dying for d in member.dumps)
        for member in case.job.members
    )


def _errors(case: Case, candidates: list[Candidate]) -> bool:
    """Tell whether a line of a log was taken for a cause or a consequence."""
    places = {(line.source.file, line.source.line) for line in case.job.lines}
    return any(
        (piece.source, piece.line) in places
        for candidate in candidates
        if candidate.signature.kind is not Kind.NOISE
        for piece in candidate.hit.evidence
    )


def _all_move(case: Case, finding: Finding) -> bool:
    """Tell whether every rank that is waited for was seen to go on."""
    stands = {case.member(s.member).rank: s.standing for s in case.stands}
    culprits = finding.culprit_ranks or ()
    return bool(culprits) and all(stands.get(rank) is Standing.MOVING for rank in culprits)


def _no_job(case: Case) -> bool:
    """Tell whether nothing speaks of a job."""
    job = case.job
    return not (job.members or job.lines or job.exits or job.tracks)


def _of_gpus_alone(first: Finding) -> Verdict:
    """Judge the state of GPUs of which no job is known: only what is broken is sure."""
    if first.confidence < ENOUGH or first.category in {*SETTLED, "unknown"}:
        return "inconclusive"
    return "hung" if first.category in HANGS else "failed"


HANGS = {
    "collective-mismatch",
    "missing-rank-in-collective",
    "uneven-inputs",
    "cross-group-deadlock",
    "p2p-mismatch",
    "group-creation-mismatch",
    "dataloader-blocked",
    "init-missing-rank",
    "store-key-never-set",
}
"""Categories that are hangs by nature, also when a watchdog ended the job in the end."""

MAX_PLACES = 3
"""Places that a headline without a finding names."""


def _headline(case: Case, findings: tuple[Finding, ...], verdict: Verdict) -> str:
    devices = len(case.job.gpus.devices)
    if not findings and _no_job(case) and devices:
        return (
            f"The state of {devices} GPU{'s' if devices > 1 else ''} was read and shows no fault; "
            "nothing was found that tells of a job."
        )
    if not findings and not case.job.members and not case.job.lines:
        return (
            "Nothing was found that tells of a job: no stacks, no recorder dumps, no telling lines."
        )
    if not findings:
        return f"The evidence does not say what the job waits for{_standing_words(case)}."
    first = findings[0]
    text = first.title if first.title.endswith(".") else f"{first.title}."
    unsure = {"hung", "failed", "inconclusive"} if _no_job(case) else {"hung", "failed"}
    if verdict in unsure and first.confidence < 0.5:
        return f"Possibly: {text}"
    return text


def _standing_words(case: Case) -> str:
    """Say where everybody stands, where few words do, and who has no process."""
    places: dict[str, list[Stand]] = {}
    for stand in case.stands:
        if stand.place is not None:
            fields = subject_fields(case, [stand], ())
            places.setdefault(fields["does"] + fields["at"], []).append(stand)
    if not 0 < len(places) <= MAX_PLACES:
        return ""
    words = [f"{case.names(s.member for s in stands)} {at}" for at, stands in places.items()]
    unseen = [s.member for s in case.stands if s.standing is Standing.UNSEEN]
    if unseen:
        words.append(f"{case.names(unseen)} could not be looked at")
    lost = [gone.rank for gone in case.job.gone]
    if lost:
        words.append(f"{ranks_in_words(lost)} {'have' if len(lost) > 1 else 'has'} no process")
    return ": " + "; ".join(words)
