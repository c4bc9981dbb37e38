"""The job waits in init_process_group for a rank that has not come.

The store's rendezvous ends when every rank has joined. One is missing: it was never started,
it died before, or it is late, still importing, sleeping, reading or downloading before its
own call. The waiting ranks only show that they wait.
"""

from collections.abc import Iterable

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature, Status, WaitKind


def when(case: Case) -> Iterable[Hit]:
    return queries.merged(
        queries.absent(case, starting=True),
        queries.lagging(
            case,
            while_in=(WaitKind.INIT,),
            states=(Status.BLOCKED, Status.RUNNING, Status.MOVING),
        ),
    )


SIGNATURE = Signature(
    id="init-missing-rank",
    category="init-missing-rank",
    level="wait",
    title="{who} {has} not come to init_process_group: {does}{at}{since}",
    when=when,
    means=(
        "{others} {wait} in the rendezvous of init_process_group; {who} {has} not joined "
        "({does}{at}){since}."
    ),
    confidence="strong",
    remedies=(
        "If {who} does something long before its init call, move it behind the call or do it once.",
        "If it was never started, check WORLD_SIZE against the number of processes started.",
    ),
    next_steps=("py-spy dump --pid {pid}  # of {who}: what does it do before init?",),
    # a rank that has not joined yet does something, which is no trouble by itself
    explains=(
        "rank-stopped",
        "rank-spinning",
        "dataloader-blocked",
        "storage-io-blocked",
        "network-io-blocked",
    ),
)
