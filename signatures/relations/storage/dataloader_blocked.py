"""A rank waits for its next batch, because its DataLoader or dataset is blocked.

With workers, the main process sits in _try_get_data and the cause is in a worker: a read that
does not return, a lock copied by fork, a download. With num_workers=0 the dataset runs in the
main process. Batches come in order: one stuck worker blocks its rank even when others have
data ready.
"""

from collections.abc import Iterable

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature, WaitKind


def when(case: Case) -> Iterable[Hit]:
    return queries.lagging(case, WaitKind.DATALOADER, WaitKind.DATASET, alone=True)


SIGNATURE = Signature(
    id="dataloader-blocked",
    category="dataloader-blocked",
    level="program",
    title="{who} {gets} no batch: {does}{at}{waiting}",
    when=when,
    means=(
        "{who} takes part in no collective until its next batch comes, and everyone else waits "
        "for it. Batches come in order, so one stuck worker is enough."
    ),
    confidence="strong",
    remedies=(
        "Look at what the dataset does at {where}: a read, a lock or a download without a timeout.",
        "Give DataLoader a timeout=, and reads and downloads one of their own.",
        (
            "If the workers only wait for each other, try num_workers=0 or "
            "multiprocessing_context='spawn' to rule out a lock copied by fork."
        ),
    ),
    next_steps=(
        "py-spy dump --subprocesses --pid {pid}  # the rank and its workers, twice: who moves?",
        "sudo ls -l /proc/{worker}/fd; sudo cat /proc/{worker}/stack  # who loads: which file?",
    ),
    links=("https://pytorch.org/docs/stable/data.html",),
)
