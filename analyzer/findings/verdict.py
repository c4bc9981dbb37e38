"""How the job is in one word, and in one sentence."""

from collections import Counter, defaultdict
from collections.abc import Set as AbstractSet

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import (
    ErrorCounter,
    NetworkPort,
    RasReport,
    Scheduled,
    Source,
    counted,
    ranks_in_words,
)
from whyhang.analyzer.facts.exceptions import EXCEPTION_STACK
from whyhang.analyzer.findings.categories import KINDS
from whyhang.analyzer.findings.levels import ENOUGH, Candidate
from whyhang.analyzer.findings.signature import Kind
from whyhang.analyzer.rank_state.from_logs.log_ends import in_the_middle, rows_of_the_end
from whyhang.analyzer.rank_state.over_time.recent import all_ended_meanwhile, ended_meanwhile
from whyhang.analyzer.rank_state.state import RankState, Status
from whyhang.analyzer.report import Finding, Report, Verdict
from whyhang.analyzer.wording.title_fields import subject_fields

SETTLED: dict[str, Verdict] = {"healthy": "healthy", "slow-not-hung": "slow"}

MAX_QUOTE = 100  # characters of a last line that a headline quotes
PRINTED = (ErrorCounter, NetworkPort, Scheduled)
"""What tools of hosts and clusters tell, of which no job need be known."""

MAX_PLACES = 3  # places that a headline without a finding names


def verdict_of(case: Case, findings: tuple[Finding, ...], candidates: list[Candidate]) -> Verdict:
    """Return in one word how the job is."""
    if not findings:
        return "inconclusive"
    first = findings[0]
    if _no_job(case) and (case.job.gpus.devices or any(map(case.job.of, PRINTED))):
        return _of_machines_alone(first)
    if first.category in SETTLED:
        return SETTLED[first.category]
    timed_out = any(c.signature.kind is Kind.CONSEQUENCE for c in candidates)
    waits = bool(case.graph.waiting or case.graph.maybe or case.graph.calls.waits)
    seen_live = _seen_alive(case) or bool(case.job.of(RasReport))  # only a living job answers
    if first.category == "unknown":
        sure = waits and not case.graph.progress and first.confidence >= 0.5
        return "hung" if sure else "inconclusive"
    of_first = (c.signature for c in candidates if c.signature.id == first.signature)
    fallback = any(signature.level == "fallback" for signature in of_first)
    if first.confidence < ENOUGH and not timed_out and fallback:
        return "inconclusive"
    status_of = {case.member(s.member).rank: s.status for s in case.states}
    culprits = {status_of.get(rank) for rank in first.culprit_ranks or ()}
    if first.category == "init-missing-rank" and culprits == {Status.MOVING}:
        return "slow"
    gone = [s.status is Status.GONE and case.member(s.member).processes for s in case.states]
    if gone and all(gone):
        return "failed"
    if seen_live or not case.job.lines:
        return "hung"
    ended = bool(case.job.exits) or any(line.raised is not None for line in case.job.lines)
    inside = any(position.inside for position in case.graph.calls.positions.values())
    open_calls = inside and not ended and not _errors(case, candidates)
    if open_calls or still_tried(case, first, candidates):
        return "hung"  # calls or tries stand open, and no line says that anything failed for good
    return "hung" if first.category in KINDS["hang"] and (timed_out or not ended) else "failed"


def _seen_alive(case: Case) -> bool:
    """Return whether a process was inspected, of a rank or, where none has one, of a launcher.

    What Python prints as it dies does not count, nor does the traceback of an exception, though it
    shows where a rank stood.
    """
    if not case.job.members and any(launcher.dumps for launcher in case.job.launchers):
        return True
    dying = {line.source.file for line in case.job.lines if "Fatal Python error" in line.text}
    dumps = (d for member in case.job.members for d in member.dumps if d.tool != EXCEPTION_STACK)
    taken = any(d.tool != "faulthandler" or d.source.file not in dying for d in dumps)
    return taken or any(member.processes for member in case.job.members)


def still_tried(case: Case, first: Finding, candidates: list[Candidate]) -> bool:
    """Return whether all that failed is tried again, and nothing says that this is over.

    That is so where every line that a finding rests on says that there is another try, and no line
    and no row of a launcher that a process has ended.
    """
    retries = {pattern for c in candidates for pattern in c.signature.retries}
    own = {p for c in candidates if c.signature.id == first.signature for p in c.signature.retries}
    if not own or case.job.exits or any(line.raised is not None for line in case.job.lines):
        return False
    again = [line for line in case.job.lines if retries & set(line.matched)]
    places = {line.source for line in again}
    return all(p.place in places for p in first.evidence) and not _errors(
        case, candidates, besides=places
    )


def _errors(
    case: Case, candidates: list[Candidate], *, besides: AbstractSet[Source] = frozenset()
) -> bool:
    """Return whether a line of a log was taken for a cause or a consequence."""
    places = {line.source for line in case.job.lines} - besides
    return any(
        not places.isdisjoint(candidate.hit.places)
        for candidate in candidates
        if candidate.signature.kind is not Kind.NOISE
    )


def _no_job(case: Case) -> bool:
    job = case.job
    return not (job.members or job.lines or job.exits or job.tracks or rows_of_the_end(job))


def _of_machines_alone(first: Finding) -> Verdict:
    """Judge the state of machines of which no job is known: only what is broken is sure."""
    if first.confidence < ENOUGH or first.category in {*SETTLED, "unknown"}:
        return "inconclusive"
    return "hung" if first.category in KINDS["hang"] else "failed"


NO_JOB = "nothing was found that tells of a job"


def tells_of_no_job(report: Report) -> bool:
    """Return whether a report is of nothing: no evidence was there that is about a job."""
    return (
        report.verdict == "inconclusive"
        and not (report.findings or report.ranks)
        and NO_JOB in report.headline.casefold()
    )


ENDED_MEANWHILE = "The job ended while it was looked at"


def headline_of(case: Case, findings: tuple[Finding, ...], verdict: Verdict) -> str:
    """Return in one sentence what is wrong, or which evidence is missing."""
    devices = len(case.job.gpus.devices)
    if not findings and _no_job(case) and devices:
        return f"The state of {counted(devices, 'GPU')} was read and shows no fault; {NO_JOB}."
    ends = in_the_middle(case.job) is not None
    if not findings and not ends and _no_job(case) and any(map(case.job.of, PRINTED)):
        printed = "What the tools of the hosts and the cluster printed"
        return f"{printed} was read and shows no fault; {NO_JOB}."
    if not (findings or case.job.members or case.job.lines or ends):
        return f"{NO_JOB.capitalize()}: no stacks, no recorder dumps, no telling lines."
    if not findings:
        return _without_finding(case)
    first = findings[0]
    text = first.title if first.title.endswith(".") else f"{first.title}."
    if all_ended_meanwhile(case.job):
        text += f" {ENDED_MEANWHILE}."
    guess = _no_job(case) or first.category != "unknown"
    unsure = {"hung", "failed", "inconclusive"} if guess else {"hung", "failed"}
    if verdict in unsure and first.confidence < 0.5:
        return f"Possibly: {text}"
    return text


def _without_finding(case: Case) -> str:
    """Say where the evidence ends."""
    if all_ended_meanwhile(case.job):
        ranks = case.names(state.member for state in case.states)
        return f"{ENDED_MEANWHILE}: {ranks} had a process before and none later."
    looked_at = any(member.dumps or member.processes for member in case.job.members)
    tail = None if looked_at or case.graph.waiting else in_the_middle(case.job)
    if tail is None:
        return _unread(case) or (
            f"The evidence does not say what the job waits for{_state_words(case)}."
        )
    last, step = tail.lines[-1].text, tail.lines[tail.decisive].text
    whose = "The log" if tail.who.rank is None else f"The log of rank {tail.who.rank}"
    where = "in the middle of its steps" if last == step else f"behind '{step[:MAX_QUOTE]}'"
    return (
        f"{whose} ends at '{last[:MAX_QUOTE]}', {where}; "
        "whether the job went on, came to its end or hangs, it does not say."
    )


def _unread(case: Case) -> str:
    """Say that no rank of a living job could be looked into, and why, if that is so."""
    members = [member for member in case.job.members if member.processes]
    if not members or any(member.dumps for member in case.job.members):
        return ""
    pids = {member.pid for member in members} | {None}
    hosts = {member.host for member in members}
    about = [gap for gap in case.job.gaps if gap.who.host in hosts and gap.who.pid in pids]
    why = Counter(gap.why for gap in about if gap.what.startswith("stacks of")).most_common(1)
    unread = "No stack of any rank could be read, so what the job waits for is not known"
    return f"{unread}: {why[0][0]}." if why else ""


def _state_words(case: Case) -> str:
    """Return where all ranks are, if few words do, and which have no process."""
    places: dict[str, list[RankState]] = defaultdict(list)
    over = ended_meanwhile(case.job)
    for state in case.states:
        if state.place is not None and state.member not in over:
            fields = subject_fields(case, [state], ())
            places[fields["does"] + fields["at"]].append(state)
    if not 0 < len(places) <= MAX_PLACES:
        return ""
    words = [f"{case.names(s.member for s in states)} {at}" for at, states in places.items()]
    unseen = [s.member for s in case.states if s.status is Status.UNSEEN]
    if unseen:
        words.append(f"{case.names(unseen)} could not be looked at")
    if over:
        words.append(f"{case.names(over)} ended while it was looked at")
    lost = [missing.rank for missing in case.job.missing if missing.rank not in case.ranks(over)]
    if lost:
        words.append(f"{ranks_in_words(lost)} {'have' if len(lost) > 1 else 'has'} no process")
    return ": " + "; ".join(words)
