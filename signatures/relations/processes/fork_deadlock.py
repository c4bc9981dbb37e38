"""A DataLoader's or pool's worker waits for a lock that a thread of its parent held at the fork.

fork copies the locks of all threads in the state they are in, and only the forking thread.
A lock that another thread held at that moment stays locked in the worker for ever: in a cache,
a logger, OpenCV, OpenMP or a client library.
"""

from collections.abc import Iterable

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, RankState, Signature, WaitKind


def when(case: Case) -> Iterable[Hit]:
    return queries.merged(
        queries.lagging(case, WaitKind.DATALOADER, only=_worker_wants_lock, alone=True),
        queries.lagging(
            case, WaitKind.FUTURE, op="process-pool", only=_worker_wants_lock, alone=True
        ),
    )


SIGNATURE = Signature(
    id="fork-deadlock",
    category="fork-deadlock",
    level="program",
    title="{who} {gets} no {batch}: a {helper} waits for a lock copied by fork{at}{waiting}",
    when=when,
    means=(
        "The worker of {who} waits for a lock{at}. The thread that holds it lived in the parent "
        "and was not copied by fork, so nobody in the worker can release it."
    ),
    confidence="certain",
    remedies=(
        "Use multiprocessing_context='spawn' or 'forkserver' for the DataLoader or the pool.",
        (
            "Start threads and take locks only after the workers are forked, or guard them with "
            "os.register_at_fork."
        ),
    ),
    next_steps=("py-spy dump --native --pid {worker}  # of the worker: which lock?",),
)


def _worker_wants_lock(state: RankState) -> bool:
    """Return whether a worker waits for a lock within its process: not one that processes share."""
    return any(
        place is not None and place.kind is WaitKind.LOCK and not queries.is_shared_lock(place)
        for place in state.children
    )
