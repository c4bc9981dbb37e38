"""What the counts of NCCL's health network (RAS) prove of the job as a whole."""

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Signature

ORDERS_DIFFER = Signature(
    id="ras-orders-differ",
    story="""\
The counts of NCCL's health network fit no common order of calls.

All ranks of a communicator launch the same collectives in one order, so whoever is behind is
behind in every operation. Here some ranks are ahead in one operation and behind in another:
they called different collectives, skipped one or made one too many, whatever the moment.

The counts do not tell which side left the program's order.
""",
    category="collective-mismatch",
    level="program",
    title="Ranks of {comm} have called different collectives (NCCL RAS)",
    when=lambda case: queries.ras_reported(case, "diverged", named=False),
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

FEW_AHEAD = Signature(
    id="ras-few-ahead",
    story="""\
Few ranks have launched a collective that most have not.

Seen once in a job that runs, it is a matter of course: ranks launch ahead of their GPUs. In a
job that stands still the few made a call too many, or the many are held up together.

The counts do not tell which; the stacks do.
""",
    category="missing-rank-in-collective",
    level="fallback",
    title="{who} launched a collective that most ranks of {comm} have not (NCCL RAS)",
    when=lambda case: queries.ras_reported(case, "ahead", named=False),
    means=(
        "If the job stands still, {who} made a call too many, or the others are held up "
        "before it. In a job that moves this is nothing."
    ),
    confidence="hint",
    remedies=("Compare the stacks of {who} with those of the others.",),
    next_steps=(
        "Ask RAS again after ten seconds: equal counts in both mean that the job stands still.",
        "whyhang PID  # on the host of {who} and on another one",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html",),
)

ALL_EVEN = Signature(
    id="ras-all-even",
    story="""\
NCCL's health network finds nothing wrong: all processes answer, all counts are equal.

It counts what the host has launched, not what the GPU has done. Equal counts in a job that
stands still mean that every rank launched its part, or that all are held up before the next
call; sends, receives and captured graphs are not counted.

Then the network, the links, a GPU, or sizes that differ are what is left.
""",
    category="unknown",
    level="fallback",
    title="NCCL RAS: every process answers and all ranks have launched the same collectives",
    when=lambda case: queries.ras_reported(case, "even", named=False),
    means=(
        "No rank is missing or behind. If the job stands still, its cause lies below the "
        "program (network, NCCL, GPU), or in sends, receives and sizes that RAS does not count."
    ),
    confidence="hint",
    remedies=("Look at the GPUs and links of all hosts: nvidia-smi, dmesg, ibstat.",),
    next_steps=(
        "whyhang PID  # do the ranks stand in a collective, or before one?",
        "nvidia-smi; dmesg -T | grep -iE 'NVRM|Xid|mlx5'  # on every host",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html",),
)

NOTHING_YET = Signature(
    id="ras-nothing-yet",
    story="""\
NCCL's health network runs, and no communicator has come into being.

A communicator is listed after its ranks have exchanged their addresses. None at all means that
the first one waits for a rank that has not called in, or for the bootstrap network.

Which rank that is, RAS cannot say; the rendezvous, the stacks and the NCCL logs can.
""",
    category="init-missing-rank",
    level="fallback",
    title="NCCL has no communicator yet: some rank has not joined the first one",
    when=lambda case: queries.ras_reported(case, "none", named=False),
    means="The ranks that are there wait in NCCL's bootstrap for others, or for their network.",
    confidence="possible",
    remedies=(
        "Find the rank that has not called: compare the Init START lines of the NCCL logs.",
        "Check the bootstrap network: NCCL_SOCKET_IFNAME, open ports between the hosts.",
    ),
    next_steps=(
        "whyhang PID  # on every host",
        "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,NET on the next run",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html",),
)

SIGNATURES = (ORDERS_DIFFER, FEW_AHEAD, ALL_EVEN, NOTHING_YET)
