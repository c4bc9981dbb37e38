"""Some ranks were started anew by torchrun, the others still run from the start before.

A rank failed on one node, its agent started that node's ranks again, and they wait in
init_process_group for ranks of their own start. With a static rendezvous (--node-rank,
--master-addr) no agent tells the other nodes; they only follow if their ranks fail, too. One
that catches the error, or computes, or waits for something else, never comes.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.job.inference.attempts import RESTARTS
from whyhang.analyzer.queries import CLEAR, INCOMPLETE, Case, Hit, Signature, WaitKind


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for ranks of an old start for which those that were started anew wait.

    Ranks of the old start that are through init_process_group do not come to it again. Where they
    wait in it, too, nobody is to blame, and it is less sure: some versions of torch give each start
    keys of its own, 2.13 does not.
    """
    waits = {n for m in case.graph.operations if m.kind is WaitKind.INIT for n in m.members}
    told = {member.id: member.environ.get(RESTARTS, "") for member in case.job.members}
    counts = {number: int(count) for number, count in told.items() if count.isdecimal()}
    newest = max(counts.values(), default=0)
    new = tuple(n for n, count in counts.items() if count == newest and n in waits)
    older = [n for n, count in counts.items() if count < newest]
    stuck = any(number in waits for number in older)
    old = tuple(n for n in older if n in waits or queries.has_initialized(case.member(n)))
    if not new or not old:
        return
    shown = [case.member(number) for number in (*old[:3], *new[:2])]
    yield queries.hit_about(
        case,
        old,
        new,
        strength=INCOMPLETE if stuck else CLEAR,
        names_culprit=not stuck,
        evidence=(
            *(queries.cite_environ(member.processes[-1], ("RANK", RESTARTS)) for member in shown),
            *queries.evidence_of(case, case.states[old[0]]),
        ),
        fields={
            "new": str(newest),
            "old": ", ".join(sorted({str(counts[number]) for number in old})),
        },
    )


SIGNATURE = Signature(
    id="elastic-generation",
    category="elastic-restart",
    level="setup",
    title=(
        "{others} were restarted by torchrun (restart {new}) and wait for {who}, still of "
        "restart {old}: {does}{at}"
    ),
    when=when,
    means=(
        "TORCHELASTIC_RESTART_COUNT is {new} on {others} and {old} on {who}. {others} "
        "waits in init_process_group, {who} is {does}{at} and does not come there. Why the "
        "restart began is in the log of the node that restarted first."
    ),
    confidence="certain",
    remedies=(
        "End the job on all nodes and start it anew.",
        "Use --rdzv-backend c10d, where the agents of all nodes hear of a restart.",
        "Let a failed collective end the rank: {who} must not go on after it.",
    ),
    next_steps=("grep -n 'will restart worker group\\|exitcode' LOG  # of each node's torchrun",),
)
