"""A rank's own call was refused by NCCL's argument check.

A NULL buffer, an unknown data type or reduction, or an invalid configuration. Only the rank
that passed it errors out (ncclInvalidArgument or ncclInvalidUsage); the others are in the
collective and wait until their time-out.

Look at this rank's traceback, not at the time-outs of the others.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-invalid-argument",
    category="rank-died",
    kind=Kind.CAUSE,
    title="{who} made an NCCL call with an invalid argument",
    when=log(
        r"\w+ : \w+ argument is NULL",
        r"\w+ : invalid type \d+",
        r"\w+ : invalid reduction operation",
        r"NCCL WARN Invalid config ",
        blames=Blames.SPEAKER,
    ),
    means=(
        "NCCL refused this rank's call before anything was sent. The rank raises, and the "
        "ranks that made a valid call wait for it."
    ),
    confidence=0.8,
    remedies=(
        (
            "Correct the call that this rank's traceback shows; every rank must pass valid, "
            "matching arguments."
        ),
    ),
    next_steps=(
        "Look for the first Python traceback of this rank",
        "Run again with TORCH_DISTRIBUTED_DEBUG=DETAIL",
    ),
    matches=(
        "node7:4711:4802 [3] misc/argcheck.cc:12 NCCL WARN AllReduce : sendbuff argument is NULL",
        "node7:4711:4802 [3] misc/argcheck.cc:52 NCCL WARN AllReduce : invalid type 12",
        (
            "node7:4711:4802 [3] misc/argcheck.cc:56 NCCL WARN AllReduce : invalid reduction "
            "operation 7"
        ),
        "node7:4711:4802 [3] init.cc:1700 NCCL WARN Invalid config blocking attribute value 3",
    ),
    misses=(
        "ValueError: invalid type for argument",
        "node7:4711:4802 [0] NCCL INFO NCCL_CHECK_POINTERS set by environment to 1.",
    ),
    outranks=("launcher-exit-code",),
)
