"""NCCL_COMM_ID is set and not of the form address:port.

torch hands NCCL's id out through its own store and needs no NCCL_COMM_ID; it comes from an
image, a job script or a benchmark's leftovers.

Ranks with the variable fail at once, ranks without wait.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-invalid-comm-id",
    category="init-master-unreachable",
    kind=Kind.CAUSE,
    title="NCCL_COMM_ID cannot be read",
    when=log(
        r"Invalid NCCL_COMM_ID",
        blames=Blames.SPEAKER,
    ),
    means="The environment holds a NCCL_COMM_ID that NCCL cannot read, so set-up fails at once.",
    confidence=0.95,
    remedies=("Unset NCCL_COMM_ID on all hosts.",),
    next_steps=("tr '\\0' '\\n' </proc/PID/environ | grep NCCL_COMM_ID",),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",),
    matches=(
        (
            "node1:40:77 [0] bootstrap.cc:55 NCCL WARN Invalid NCCL_COMM_ID, please use "
            "format: <ipv4>:<port> or [<ipv6>]:<port> or <hostname>:<port>"
        ),
        "Invalid NCCL_COMM_ID [node1], please use format: <ipv4>:<port>",
    ),
    misses=("node1:40:77 [0] NCCL INFO NCCL_COMM_ID set by environment to 10.0.0.1:12345",),
    outranks=("launcher-exit-code",),
)
