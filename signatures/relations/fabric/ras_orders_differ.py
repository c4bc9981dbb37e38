"""The counts of NCCL's health network fit no common order of calls.

All ranks of a communicator launch the same collectives in one order, so whoever is behind is
behind in every operation. Here some ranks are ahead in one operation and behind in another:
they called different collectives, skipped one or made one too many, whatever the moment.

The counts do not tell which side left the program's order.
"""

from whyhang.analyzer.match import Kind, Signature, ras

SIGNATURE = Signature(
    id="ras-orders-differ",
    category="collective-mismatch",
    kind=Kind.CAUSE,
    level="program",
    title="Ranks of {comm} have called different collectives (NCCL RAS)",
    when=ras("diverged", named=False),
    means=(
        "Of the operations that NCCL counts, some ranks launched more of one and fewer of "
        "another. No common order of calls gives such counts: the ranks took different paths."
    ),
    confidence="likely",
    remedies=("Look for branches on rank-local data around collectives, and compare the stacks.",),
    next_steps=(
        "TORCH_DISTRIBUTED_DEBUG=DETAIL on the next run names the first call that differs.",
        "whyhang PID  # on every host, or a flight-recorder dump of every rank",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html",),
)
