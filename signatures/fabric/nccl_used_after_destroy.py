"""A communicator is used after destroy or abort.

The watchdog or another thread has already taken the communicator down, usually after a time-out
or at the end of the program, and a late call still arrives.

It follows from the tear-down: what caused that stands earlier.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-used-after-destroy",
    category="nccl-internal-error",
    kind=Kind.CONSEQUENCE,
    title="An NCCL communicator was used after it had been destroyed",
    when=log(
        r"comm 0x[0-9a-f]+ has already been destroyed",
        r"corrupted comm object detected",
        r"\w+ ?: communicator was revoked",
    ),
    means=(
        "A call came in after the communicator had been torn down. The reason for the "
        "tear-down stands earlier in the log."
    ),
    confidence=0.8,
    matches=(
        "node7:4711:4802 [0] init.cc:2200 NCCL WARN comm 0x55d0c1b2a0 has already been destroyed",
        "node7:4711:4802 [0] misc/argcheck.cc:30 NCCL WARN Error: corrupted comm object detected",
        "node7:4711:4802 [0] enqueue.cc:2500 NCCL WARN AllReduce : communicator was revoked",
    ),
    misses=(
        (
            "node7:4711:4802 [0] NCCL INFO comm 0x55d0c1b2a0 rank 0 nranks 8 cudaDev 0 busId "
            "1000 - Destroy COMPLETE"
        ),
    ),
)
