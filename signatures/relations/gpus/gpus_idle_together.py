"""All ranks wait for each other, and no GPU has anything to run.

Nobody has launched the operation in which everybody stands: what holds them is on the host, a
store, a lock, a thread that issues the work, a stream that waits for an event.
"""

from whyhang.analyzer.match import Kind, Signature, all_idle

SIGNATURE = Signature(
    id="gpus-idle-together",
    category="unknown",
    kind=Kind.CAUSE,
    level="wait",
    title="No GPU has anything to run{where}",
    when=all_idle(),
    means=(
        "{gpus} are at {load} with the ranks' processes on them: no rank has launched what all "
        "wait for. The cause is on the host: the setting up of a communicator, the store, a lock, "
        "or a stream that waits for an event."
    ),
    confidence="possible",
    remedies=("Take native stacks of two ranks and look at the threads that launch.",),
    next_steps=("whyhang PID --native always", "NCCL_DEBUG=INFO on the next run."),
    explains=("stuck-together",),
)
