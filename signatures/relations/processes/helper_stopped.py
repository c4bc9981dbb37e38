"""A rank waits for a process that it started, and that process is stopped by a signal.

A converter, an uploader, the server of a multiprocessing manager: stopped by Ctrl-Z, a debugger,
a write to a terminal from the background, a SIGSTOP that was meant for somebody else. The rank
waits as long as the process does not go on.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import program, replace
from whyhang.analyzer.job.records import Child
from whyhang.analyzer.queries import Case, Hit, RankState, Signature, WaitKind
from whyhang.analyzer.wording.describe import busy_worker

_ON_A_PROCESS = (
    WaitKind.SUBPROCESS,
    WaitKind.DATALOADER,
    WaitKind.FUTURE,
    WaitKind.QUEUE,
    WaitKind.POLL,
)


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for each place at which such ranks stand.

    A DataLoader's worker that is stopped in the dataset is reported with the batch that it owes.
    """
    for hit in queries.lagging(case, *_ON_A_PROCESS, alone=True):
        state = case.states[hit.members[0]]
        child = _stopped(case, state)
        if child is None:
            continue
        process = child.processes[-1]
        quote = f"pid {child.pid} State: {process.state}, {process.command}"
        evidence = queries.cite(process.source, quote, case.member(state.member).rank)
        fields = {
            **hit.fields,
            "child": str(child.pid),
            "runs": program(process.command) or "a process",
        }
        yield replace(hit, evidence=(evidence, *hit.evidence), fields=fields)


SIGNATURE = Signature(
    id="helper-stopped",
    category="rank-stopped",
    level="kill",
    title="{who} {waits} for process {child}, which is stopped by a signal{at}{waiting}",
    when=when,
    means=(
        "Process {child} ({runs}), which {who} started, does not run until it is let go on; {who} "
        "{waits} meanwhile{at}."
    ),
    confidence="certain",
    remedies=(
        "Let it go on: kill -CONT {child}.",
        "Find out who stopped it: a debugger, job control of a shell, a read from the terminal.",
    ),
    next_steps=("grep -E 'State|TracerPid' /proc/{child}/status  # T: stopped, t: traced",),
)


def _stopped(case: Case, state: RankState) -> Child | None:
    worker = busy_worker(state)
    if worker is not None and worker[1].stopped:
        return None
    member = case.member(state.member)
    below = (*member.children, *member.helpers)
    return next((c for c in below if c.processes and c.processes[-1].stopped), None)
