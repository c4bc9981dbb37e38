"""Hold every signature against the case, and put causes before effects."""

from collections.abc import Iterable

from whyhang import __version__
from whyhang.analyzer import fingerprints
from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import ranks_in_words, replace
from whyhang.analyzer.findings.bystanders import weight_of
from whyhang.analyzer.findings.categories import CAUSE_UNSEEN, KINDS, TEXTS
from whyhang.analyzer.findings.levels import (
    POSSIBLE,
    Candidate,
    causes_above,
    effect_order,
    order,
    overcome,
    restarts_of,
    root_order,
    without_fallbacks,
)
from whyhang.analyzer.findings.open_question import open_question, what_would_tell
from whyhang.analyzer.findings.pressure import pressure_in_words, pressure_of
from whyhang.analyzer.findings.refuted import doubted, refuted
from whyhang.analyzer.findings.signature import CONTRADICTED, Hit, Kind, Signature
from whyhang.analyzer.findings.steps import NETWORK, fitting, not_yet
from whyhang.analyzer.findings.verdict import headline_of, still_tried, verdict_of
from whyhang.analyzer.queries.hits import with_members
from whyhang.analyzer.queries.logs.failures import has_no_ranks_to_blame, has_ranks
from whyhang.analyzer.queries.machines.cluster import slurm_job
from whyhang.analyzer.queries.waits.named_groups import in_its_group
from whyhang.analyzer.report import Evidence, Finding, Report, cite
from whyhang.analyzer.reports.contents.stacks import stack_groups
from whyhang.analyzer.reports.contents.story import story
from whyhang.analyzer.reports.contents.summary import (
    captured,
    clocks,
    gap_lines,
    gpu_rows,
    job_facts,
    pauses,
    rank_rows,
    time_between_hosts,
)
from whyhang.analyzer.reports.contents.timeline import process_groups, timeline
from whyhang.analyzer.reports.contents.waits import waits
from whyhang.analyzer.wording.describe import path_of
from whyhang.analyzer.wording.fill_texts import fill, fill_advice, sentence
from whyhang.analyzer.wording.said_alone import said_alone
from whyhang.analyzer.wording.subjects import (
    file_of,
    hosts_of,
    on_host,
    to_look_at,
    whereabouts,
    with_host_of_pid,
    with_job,
    with_names,
    with_path,
)
from whyhang.analyzer.wording.ways_past import (
    branch_in_words,
    divergence,
    ended_past_in_words,
    passed_in_words,
)
from whyhang.analyzer.wording.who_fills import children_in_words, fillers_in_words

MAX_EFFECTS = 6
SOUND = {"healthy"}
OF_THE_PROGRAM = ("program", "wait", "fallback")
"""Levels at which the reason is in the program, of which its own lines tell."""
STACK_OF_ERROR = 16  # lines that the error of a library has, as MPI prints it call by call


def diagnose(case: Case, signatures: Iterable[Signature]) -> Report:
    """Turn an aligned job into a report.

    A signature that fails is a note in the report and never its end.
    """
    notes: list[str] = []
    candidates: list[Candidate] = []
    for signature in signatures:
        try:
            hits = [with_members(case, hit) for hit in signature.when(case)]
        except Exception as error:  # noqa: BLE001 - one signature must not cost the diagnosis
            notes.append(f"The signature {signature.id} failed and was left out: {error!r}")
            continue
        for hit in hits:
            if (weight := weight_of(case, signature.category, hit)) > 0:
                weighed = replace(hit, strength=hit.strength * weight)
                candidates.append(Candidate(signature=signature, hit=weighed))
    kept = [c for each in candidates if (c := _unless_refuted(case, each, notes)) is not None]
    candidates = without_fallbacks([c for c in kept if not overcome(case, c)])
    findings = _findings(case, candidates)
    verdict = verdict_of(case, findings, candidates)
    if findings and verdict == "hung" and still_tried(case, findings[0], candidates):
        words = f"{findings[0].explanation} {TEXTS['tried-again']}"
        findings = (replace(findings[0], explanation=words), *findings[1:])
    events, start = story(case, findings)
    rows = rank_rows(case, (rank for f in findings for rank in f.culprit_ranks or ()))
    culprits = findings[0].culprit_ranks or () if findings else ()
    said = [f.explanation for f in findings]  # which notes need not say again
    said += [piece.quote for f in findings for piece in f.evidence]
    return Report(
        verdict=verdict,
        headline=headline_of(case, findings, verdict),
        job=job_facts(case),
        findings=findings,
        story=events,
        ranks=rows,
        stack_groups=stack_groups(case),
        gpus=gpu_rows(case, (n for c in candidates for n in c.hit.gpus)),
        gaps=(*gap_lines(case), *what_would_tell(case, any_finding=bool(findings))),
        notes=(
            *notes,
            *time_between_hosts(case),
            *clocks(case),
            *open_question(case, findings),
            *pauses(case),
            *fingerprints.notes(case, "\n".join(said)),
        ),
        timeline=timeline(case, rows, events, start, culprits),
        waits=waits(case, rows, culprits),
        groups=process_groups(case),
        devices=gpu_rows(case, range(len(case.job.gpus.devices))),
        captured=captured(case),
        tool_version=__version__,
    )


def _unless_refuted(case: Case, candidate: Candidate, notes: list[str]) -> Candidate | None:
    """Return a candidate as sure as other evidence leaves it, with a note; None if refuted."""
    words = sentence(fill(candidate.signature.title, candidate.hit.fields))
    if why := refuted(case, candidate):
        notes.append(f"Left out: “{words}”: {why}.")
        return None
    if why := doubted(case, candidate):
        notes.append(f"In doubt: “{words}”: {why}.")
        return replace(
            candidate, hit=replace(candidate.hit, strength=candidate.hit.strength * CONTRADICTED)
        )
    return candidate


def _findings(case: Case, candidates: list[Candidate]) -> tuple[Finding, ...]:
    """Put the causes first, deepest first; behind them what only follows from them."""
    causes = sorted((c for c in candidates if c.signature.kind is Kind.CAUSE), key=root_order)
    above = causes_above(causes, restarts_of(candidates))
    roots = [c for c, other in zip(causes, above, strict=True) if other is None]
    findings = [_finding(case, candidate) for candidate in roots]
    for candidate, other in zip(causes, above, strict=True):
        if other is not None and other.signature.category in SOUND:
            continue  # what looks bad in a job that is well is not said of it
        if other is not None and not candidate.only_sums_up:
            cause = roots.index(other) if other in roots else 0
            finding = _finding(case, candidate)
            if roots and _repeats(finding, findings[cause]):
                continue
            findings.append(replace(finding, caused_by=cause if roots else None))
            findings[cause] = _with_place_of(finding, findings[cause])
            own = roots[cause].hit.category or roots[cause].signature.category
            every_rank_had_it = findings[cause].category != own
            if not roots or every_rank_had_it or findings[cause].culprit_ranks is not None:
                continue
            if _tells_whom(other, candidate):
                # The line that says why may not say who; the one that it explains does.
                ranks = finding.culprit_ranks
                title = to_look_at(findings[cause].title, ranks or ())
                findings[cause] = replace(findings[cause], title=title, culprit_ranks=ranks)
    effects = sorted(
        (c for c in candidates if c.signature.kind is Kind.CONSEQUENCE),
        key=effect_order if roots else order,
    )
    cause_of_all = 0 if roots else None
    findings += [replace(_finding(case, c), caused_by=cause_of_all) for c in effects[:MAX_EFFECTS]]
    if findings and not roots and effects and not findings[0].remedies:
        findings[0] = replace(findings[0], remedies=CAUSE_UNSEEN)
    return tuple(findings)


def _repeats(effect: Finding, cause: Finding) -> bool:
    """Return whether a finding says the same of the same ranks, by no other evidence."""
    same = (effect.category, effect.culprit_ranks) == (cause.category, cause.culprit_ranks)
    shown = {piece.place for piece in cause.evidence}
    named = effect.culprit_ranks is not None and effect.location is None
    return same and named and all(piece.place in shown for piece in effect.evidence)


def _with_place_of(effect: Finding, cause: Finding) -> Finding:
    """Add where the culprits stand and in which call, if an effect on the same ranks tells that."""
    if cause.culprit_ranks is None or cause.culprit_ranks != effect.culprit_ranks:
        return cause
    return replace(
        cause,
        location=cause.location or effect.location,
        collective=cause.collective or effect.collective,
    )


def _tells_whom(cause: Candidate, effect: Candidate) -> bool:
    """Return whether a finding names the ranks for one that explains it and names nobody.

    Trouble of which no rank is known, or that of a host, is of the rank that is seen to be in
    trouble of that very kind, or whose error goes on with it. A mismatch is of two, and where it
    was found between some ranks it is not of another.
    """
    if cause.hit.names_culprit:
        return True
    ranks_known = cause.signature.level != "machine" and (cause.hit.members or cause.hit.ranks)
    same_kind = effect.signature.category == cause.signature.category
    one_sided = not cause.signature.category.endswith("mismatch")
    compared = set() if one_sided else set(cause.hit.affected)
    if compared and compared.isdisjoint(effect.hit.members):
        return False
    is_its = same_kind or (one_sided and _goes_on_with(effect.hit, cause.hit))
    return is_its and not ranks_known and effect.confidence >= POSSIBLE


def _goes_on_with(error: Hit, trouble: Hit) -> bool:
    """Return whether the lines of a trouble stand a few lines below the head of an error."""
    heads = {(piece.source, piece.line) for piece in error.evidence if piece.line is not None}
    return bool(trouble.evidence) and all(
        any((piece.source, (piece.line or 0) - back) in heads for back in range(STACK_OF_ERROR))
        for piece in trouble.evidence
    )


def _apart(case: Case, hit: Hit) -> tuple[int, ...]:
    """List the affected members but those whose main thread is where that of the hit's first is.

    Another thread of theirs waits, as one that serves calls while the program is at its end.
    """
    if not hit.members:
        return hit.affected
    path = path_of(case, case.states[hit.members[0]])
    apart = (n for n in hit.affected if not path or path_of(case, case.states[n]) != path)
    return tuple(apart) or hit.affected


def _said_alone(case: Case, signature: Signature, ranks: tuple[int, ...]) -> tuple[Evidence, ...]:
    """Return the line that only the culprit has printed, where others wait for it, as evidence."""
    asks = case.graph.waiting and signature.kind is Kind.CAUSE
    line = said_alone(case, ranks) if asks and signature.level in OF_THE_PROGRAM else None
    return () if line is None else (line,)


def _finding(case: Case, candidate: Candidate) -> Finding:
    signature, hit = candidate.signature, candidate.hit
    category = hit.category or signature.category
    ranks = tuple(sorted({*case.ranks(hit.members), *hit.ranks}))
    of_one = case.job.world_size == 1 and signature.kind is Kind.CAUSE
    alone = of_one and not ranks and category in KINDS["of-a-rank"]
    ranks = (0,) if alone else ranks
    everyone = all(case.member(number).rank is not None for number in hit.members)
    known = (hit.names_culprit or alone) and bool(ranks) and everyone
    if signature.everywhere and has_no_ranks_to_blame(case, ranks):
        category, known = signature.everywhere, known and ranks == (0,) and not has_ranks(case)
    words = dict(hit.fields)
    if "who" not in words:
        names = ranks_in_words(ranks) if everyone and ranks else case.names(hit.members)
        pid = words.get("pid", "")
        words["who"] = names or (f"process {pid}" if pid.isdecimal() else "the job")
    explanation = sentence(fill(signature.means, words))
    others = _apart(case, hit)
    where = divergence(case, hit.members, others) if hit.members else None
    named = hit.members if hit.names_culprit else ()
    if where is not None:
        under = branch_in_words(case, named, others, explanation) if named else ""
        past = "" if under or not named else passed_in_words(case, named, others, explanation)
        explanation += f" The ranks part in {where}{'; ' * bool(under)}{under}{past}."
    elif named and others:
        explanation += ended_past_in_words(case, named, others)
    pressing = pressure_of(case, hit) if category in KINDS["held-back"] and known else []
    if pressing:
        explanation += f" Also, {'; '.join(pressure_in_words(pressing))}."
    if named:
        explanation += children_in_words(case, named) + fillers_in_words(case, named)
    hosts = hosts_of(case, hit)
    steps = _next_steps(case, signature, ranks)
    uses_job = any("JOB" in step for step in (*steps, *signature.remedies))
    job = slurm_job(case) if uses_job else None
    path = file_of(case, hit) if any("PATH" in step for step in steps) else None

    def placed(text: str) -> str:
        filled = on_host(with_job(fill_advice(text, words), job), hosts)
        return with_host_of_pid(filled, text, words, case, hit)

    culprits = ranks if known else None
    title = with_names(
        sentence(fill(signature.title, words)),
        culprits,
        hosts if signature.level == "machine" else (),
    )
    if known and signature.kind is Kind.CAUSE:
        explanation += whereabouts(f"{title} {explanation}", case, hit)
    own_line = _said_alone(case, signature, ranks) if known else ()
    explanation += "".join(f" Only rank {x.rank} has printed '{x.quote}'." for x in own_line)
    return Finding(
        signature=signature.id,
        category=category,
        confidence=candidate.confidence,
        title=title,
        explanation=explanation,
        culprit_ranks=culprits,
        affected_ranks=case.ranks(hit.affected),
        collective=in_its_group(case, hit.collective),
        location=hit.location,
        evidence=(
            *hit.evidence,
            *(cite(fact.source, fact.says) for fact in pressing),
            *own_line,
        ),
        remedies=fitting(case, filter(None, map(placed, signature.remedies)), NETWORK[0]),
        next_steps=fitting(
            case, not_yet(case, (with_path(placed(text), path) for text in steps)), NETWORK[1]
        ),
        runbook_url=signature.runbook,
        owner=signature.owner,
        kind=signature.kind.value,
        subjects=tuple(case.member(number).name for number in hit.members),
    )


def _next_steps(case: Case, signature: Signature, ranks: tuple[int, ...]) -> tuple[str, ...]:
    """Return what to run next; of a rank without a process, nothing that needs its pid."""
    without_process = {missing.rank for missing in case.job.missing}
    living = {member.rank for member in case.job.members if member.processes}
    if ranks and set(ranks) <= case.ends.keys() - living:
        known = (TEXTS["next-time"] if "{pid}" in step else step for step in signature.next_steps)
        return tuple(dict.fromkeys(known))
    if not ranks or not without_process.issuperset(ranks):
        return signature.next_steps
    steps = tuple(step for step in signature.next_steps if "{pid}" not in step)
    return steps or ("pgrep -af python  # on its host: was {who} started?",)
