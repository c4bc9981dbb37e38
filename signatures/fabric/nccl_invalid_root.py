"""A rank names a root that its group does not have.

Usually a global rank was passed where the rank within the group is meant, or the other way
round (torch.distributed takes global ranks for src and dst unless group_src/group_dst are
used). The call fails on this rank before anything is sent.

The other ranks named a root that exists, are in the collective, and wait.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-invalid-root",
    category="collective-mismatch",
    kind=Kind.CAUSE,
    title="{who} called {op} with root {root}, which the group does not have",
    when=log(
        r"(?P<op>\w+) : invalid root (?P<root>-?\d+) \(root should be in the 0\.\.\d+ range\)",
        blames=Blames.SPEAKER,
    ),
    means=(
        "This rank's call was refused because its root is outside the group. It raises while "
        "the other ranks of the group wait in the collective."
    ),
    confidence=0.9,
    remedies=(
        (
            "Pass the global rank to src= and dst= (or use group_src= and group_dst= for ranks "
            "within the group)."
        ),
    ),
    next_steps=(
        "Print dist.get_process_group_ranks(group) on each rank next to the root it passes",
    ),
    matches=(
        (
            "node7:4711:4802 [3] misc/argcheck.cc:42 NCCL WARN Broadcast : invalid root 9 "
            "(root should be in the 0..8 range)"
        ),
        "Reduce : invalid root 4 (root should be in the 0..4 range)",
    ),
    misses=(
        (
            "node7:4711:4802 [3] NCCL INFO Broadcast: opCount 1f sendbuff 0x7f recvbuff 0x7f "
            "count 1 datatype 0 op 0 root 0 comm 0x55 [nranks=8] stream 0x56"
        ),
    ),
    outranks=("launcher-exit-code",),
)
