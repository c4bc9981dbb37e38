"""A split communicator asks for another network plugin than its parent has.

split_share resources need one network; a config with netName differs from the parent's. It
comes from NCCL_NET or ProcessGroupNCCL options that differ between groups or hosts.

The split fails on the ranks that print it, while ranks with the right setting wait.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-config-mismatch",
    category="nccl-internal-error",
    kind=Kind.CAUSE,
    title="A communicator's network configuration does not fit its parent's",
    when=log(
        r"Split shares resources, but parent comm netName \S+ is different",
        r"Comm config netName \(\S+\) does not match the parent",
    ),
    means="The new group was configured with another network than the group it is split from.",
    confidence=0.8,
    remedies=(
        (
            "Use one net_name (or none) in all ProcessGroupNCCL options, and one NCCL_NET on "
            "all hosts."
        ),
    ),
    next_steps=(
        "grep -E 'NCCL_NET( |_PLUGIN).*set by environment' LOG  # compare those of all ranks",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",),
    matches=(
        (
            "node7:4711:4802 [0] init.cc:2010 NCCL WARN Split shares resources, but parent "
            "comm netName IB is different from child comm netName Socket"
        ),
        (
            "node7:4711:4802 [0] plugin/net.cc:310 NCCL WARN Comm config netName (Socket) does "
            "not match the parent (IB)"
        ),
    ),
    misses=("node7:4711:4802 [0] NCCL INFO Using network IB",),
    outranks=("launcher-exit-code",),
)
