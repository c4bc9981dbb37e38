"""A DataLoader worker waits for a lock that its parent's thread held when it was forked.

fork copies the locks of all threads in the state they are in, and only the forking thread.
A lock that another thread held at that moment stays locked in the worker for ever: in a cache,
a logger, OpenCV, OpenMP or a client library.
"""

from whyhang.analyzer.match import Kind, Signature, WaitKind, late

SIGNATURE = Signature(
    id="fork-deadlock",
    category="fork-deadlock",
    kind=Kind.CAUSE,
    title="{who} {gets} no batch: a DataLoader worker waits for a lock copied by fork{at}{waiting}",
    when=late(WaitKind.DATALOADER, worker_in=(WaitKind.LOCK,), alone=True),
    means=(
        "The worker of {who} waits for a lock{at}. The thread that holds it lived in the parent "
        "and was not copied by fork, so nobody in the worker can release it."
    ),
    confidence=0.96,
    remedies=(
        "Use multiprocessing_context='spawn' or 'forkserver' for the DataLoader.",
        (
            "Start threads and take locks only after the workers are forked, or guard them with "
            "os.register_at_fork."
        ),
    ),
    next_steps=("py-spy dump --native --pid {worker}  # of the worker: which lock?",),
    outranks=("dataloader-blocked", "lock-deadlock"),
)
