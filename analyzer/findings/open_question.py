"""What is left where the evidence does not hold the cause: what it excludes, and what to get next.

Only what the evidence proves is excluded, and one thing is asked for: what would tell the most.
"""

from collections.abc import Iterator, Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.collectives import Verdict
from whyhang.analyzer.collectives.groups import RECORDER
from whyhang.analyzer.facts import LogTail, NcclPhase, NcclSetup, ranks_in_words
from whyhang.analyzer.findings.categories import TEXTS
from whyhang.analyzer.findings.steps import more_looks, took_native_frames
from whyhang.analyzer.rank_state.from_logs.gave_up import gave_up, last_lines
from whyhang.analyzer.rank_state.from_logs.log_ends import in_the_middle
from whyhang.analyzer.rank_state.over_time.recent import all_ended_meanwhile
from whyhang.analyzer.report import Finding

LEAST = 2  # ranks of which something is excluded


def open_question(case: Case, findings: Sequence[Finding]) -> tuple[str, ...]:
    """Return what to say of a job that hangs or failed where no finding says why."""
    waits = bool(gave_up(case.job) or case.graph.waiting)
    if (findings and findings[0].category != "unknown") or not waits:
        return ()
    if any(member.processes for member in case.job.members):
        return ()  # the live job is there to be asked
    excluded = list(_excluded(case))
    words = [f"Excluded by the evidence: {'; '.join(excluded)}."] if excluded else []
    return (*words, f"What would tell most: {_next(case)}.") if findings else tuple(words)


def _excluded(case: Case) -> Iterator[str]:
    """Yield what cannot be the cause, each with what shows that."""
    size = case.job.world_size or 0
    arrived = case.graph.calls.of(Verdict.ALL_ARRIVED)
    whole = [finding for finding in arrived if LEAST <= size == len(finding.waiting)]
    for finding in whole[:1]:
        excluded = "a rank that did not come, and one that called something else"
        yield f"{excluded} (all {size} ranks are in {finding.call})"
    read = last_lines(case.job)
    raised = [line for line in case.job.lines if line.raised and line.raised.is_own]
    if LEAST <= size == len(read) and not raised and not any(e.own for e in case.ends.values()):
        yield f"an error of a rank's own (the logs of all {size} ranks hold none to their end)"
    setups = case.job.of(NcclSetup)
    complete = all(setup.phase is NcclPhase.COMPLETE for setup in setups)
    if complete and len(setups) >= max(size, LEAST):
        yield "NCCL's set-up (complete on all ranks)"


def _next(case: Case) -> str:
    """Return the one thing that would tell the most of what is not there."""
    absent = case.job.absent
    if absent and case.job.members:
        return f"the output of {ranks_in_words(absent)}, of which there is none"
    if case.graph.calls.of(Verdict.ALL_ARRIVED):
        counters = "the kernel's log, nvidia-smi and the ports' error counters"
        return f"{counters} of every host, of the minutes before"
    if not any(track.kind == RECORDER for track in case.job.tracks):
        return "torch's recorder dumps of all ranks (start the job with TORCH_FR_BUFFER_SIZE=2000)"
    return "stacks of all ranks while the job hangs: whyhang PID of any process"


def _look_again(case: Case) -> str:
    """Say what was not done yet of all that might tell."""
    job, looks = case.job, more_looks(case)
    recorded = any(track.kind == RECORDER for track in job.tracks)
    wanted = [
        f"more looks ({looks})" if looks else "",
        "" if took_native_frames(case) else "C frames (--native always)",
        "the ranks of other hosts" if job.absent or not job.world_size else "",
        "" if job.of(LogTail) or job.lines else "the job's logs",
        "" if recorded else "recorder dumps (start it with TORCH_FR_BUFFER_SIZE=2000)",
    ]
    return f"What would tell: {', '.join(filter(None, wanted)) or 'a later look'}."


def what_would_tell(case: Case, *, any_finding: bool) -> tuple[str, ...]:
    """Say once what is missing where nothing was found, or nothing that a job wrote."""
    job = case.job
    living = any(member.processes for member in job.members) and not all_ended_meanwhile(job)
    if not any_finding and living:
        with_stacks = any(member.dumps for member in job.members)
        return (_look_again(case) if with_stacks else TEXTS["trace"],)
    if not any_finding and (job.members or in_the_middle(job)):
        return (TEXTS["collect"],)
    seen = job.members or job.launchers or job.lines or job.exits or job.tracks or job.gpus.devices
    return () if seen or (any_finding and in_the_middle(job)) else (TEXTS["no-evidence"],)
