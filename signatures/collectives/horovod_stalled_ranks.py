"""Horovod's stall check finds tensors that only some ranks have submitted.

The rank that prints it is the coordinator and is healthy. The lines that follow name the
tensors and the missing ranks. Usual reasons: a collective under a condition, different numbers
of batches, or a rank that died without being noticed.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="horovod-stalled-ranks",
    category="missing-rank-in-collective",
    kind=Kind.CAUSE,
    title="Horovod: only some ranks submitted a tensor for a collective",
    when=log(
        (
            r"One or more tensors were submitted to be reduced, gathered or broadcasted by "
            r"subset of ranks and are waiting for remainder of ranks for more than \d+ seconds"
        ),
    ),
    means=(
        "Horovod's coordinator has requests from some ranks and none from the others. The lines "
        "after it list the missing ranks for each tensor; those run other code, or are stuck."
    ),
    confidence=0.6,
    remedies=(
        "Look at the ranks listed as missing in the lines that follow.",
        "Let all ranks run the same number of steps (hvd.join() for uneven data).",
    ),
    next_steps=(
        (
            "HOROVOD_STALL_CHECK_TIME_SECONDS and HOROVOD_STALL_SHUTDOWN_TIME_SECONDS set when "
            "it reports and gives up"
        ),
    ),
    matches=(
        (
            "[2023-05-01 10:00:00.1: W horovod/common/stall_inspector.cc:107] One or more "
            "tensors were submitted to be reduced, gathered or broadcasted by subset of ranks "
            "and are waiting for remainder of ranks for more than 60 seconds. This may indicate "
            "that different ranks are trying to submit different tensors"
        ),
        (
            "W /tmp/pip-install/horovod/horovod/common/operations.cc:588] One or more tensors "
            "were submitted to be reduced, gathered or broadcasted by subset of ranks and are "
            "waiting for remainder of ranks for more than 60 seconds."
        ),
    ),
    misses=(
        "Stalled ranks:",
        "waiting for remainder of the download for more than 60 seconds",
    ),
)
