"""Ranks of one job loaded different NCCL libraries.

NCCL 2.23 and later compare versions when a communicator is set up and refuse to mix. It happens
with different images or wheels per node, with LD_LIBRARY_PATH or LD_PRELOAD on some nodes, or
with a system libnccl that shadows the wheel's.

Versions are printed as integers: 22703 is 2.27.3. Each rank is compared with rank 0, so the
line does not say which of the two is the odd one out: count the "NCCL version" lines of all
ranks.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-version-mismatch",
    category="nccl-version-mismatch",
    kind=Kind.CAUSE,
    title=(
        "Ranks run different NCCL versions: rank {one} has {one_version}, rank {other} has "
        "{other_version}"
    ),
    when=log(
        (
            r"Mismatched NCCL version detected : rank (?P<one>\d+) version (?P<one_version>\d+) "
            r"rank (?P<other>\d+) version (?P<other_version>\d+)"
        ),
    ),
    means=(
        "The ranks did not load the same NCCL, whose wire formats differ between versions, so "
        "no communicator can be set up."
    ),
    confidence=0.97,
    remedies=(
        "Use one image (or one lock file) on all nodes and restart.",
        "Remove LD_LIBRARY_PATH and LD_PRELOAD entries that lead to another libnccl.",
    ),
    next_steps=(
        (
            "On every node: python -c 'import torch; print(torch.__version__, "
            "torch.cuda.nccl.version())'"
        ),
        "grep libnccl /proc/PID/maps  # of a rank on each node",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
    matches=(
        (
            "node7:4711:4802 [0] init.cc:1007 NCCL WARN Mismatched NCCL version detected : "
            "rank 8 version 22105 rank 0 version 22703"
        ),
        "Mismatched NCCL version detected : rank 1 version 22602 rank 0 version 22703",
    ),
    misses=("node7:4711:4802 [0] NCCL INFO NCCL version 2.27.3+cuda12.9",),
    outranks=("launcher-exit-code",),
)
