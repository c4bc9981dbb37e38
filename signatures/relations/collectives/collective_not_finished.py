"""Ranks stand in a collective that the others of the group have finished.

Everyone joined, so no rank is elsewhere in its program. To finish such a call takes a part of
every rank, so what the late ones lack is below the program: a GPU or its driver that stalled, a
link, a process that was stopped in the middle.
"""

from collections.abc import Iterable

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature, Verdict


def when(case: Case) -> Iterable[Hit]:
    return queries.recorded(case, Verdict.STALLED)


SIGNATURE = Signature(
    id="collective-not-finished",
    category="missing-rank-in-collective",
    level="wait",
    title="{who} {has} not finished {call}, which {others} {did}{at}",
    when=when,
    means="{says}.",
    confidence="strong",
    remedies=(
        "Look at the GPU and the process of {who}: is it stopped, is its GPU in error?",
        "Take its host out of the job if it happens there again.",
    ),
    next_steps=(
        "nvidia-smi -q; dmesg -T | grep -i -E 'xid|nvlink'  # on the host of {who}",
        "py-spy dump --pid {pid}  # of {who}, twice: does the stack change?",
    ),
    links=("https://pytorch.org/docs/stable/distributed.html",),
)
