"""Horovod's stall check names the ranks that did not submit a tensor.

The coordinator lists each tensor that waits with the ranks that are missing, or each missing rank
with the tensors that wait for it. Those ranks run other code, ended their loop, or are stuck.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="horovod-missing-ranks",
    category="missing-rank-in-collective",
    kind=Kind.CAUSE,
    title="Horovod waits for {who}, which did not submit what the others did",
    when=log(
        r"\[missing ranks: ?(?P<ranks>\d[\d, ]*)\]",
        r"^(?P<rank>\d+): \[.{0,200}(?:Horovod|allreduce\.|allgather\.|broadcast\.)",
        blames=Blames.NAMED,
    ),
    means=(
        "Horovod's coordinator has requests from the other ranks and none from {who}, which is "
        "elsewhere: it runs other code, has ended its loop, or is stuck."
    ),
    confidence=0.85,
    remedies=(
        "Look at what {who} does: its log, and py-spy dump while it hangs.",
        "Let all ranks run the same number of steps (hvd.join() for uneven data).",
    ),
    next_steps=("py-spy dump --pid PID  # of {who}",),
    links=("https://horovod.readthedocs.io/en/stable/troubleshooting_include.html",),
    matches=(
        "HorovodBroadcast_global_step_0 [missing ranks: 1]",
        "allreduce.avg_loss [missing ranks: 1, 3]",
        "2: [DistributedAdam_Allreduce/cond_14/HorovodAllreduce_grads_14_0 ...]",
    ),
    misses=(
        "Missing ranks:",
        "3: [1, 2, 3]",
        (
            "One or more tensors were submitted to be reduced, gathered or broadcasted by subset "
            "of ranks and are waiting for remainder of ranks for more than 60 seconds."
        ),
    ),
    outranks=("horovod-stalled-ranks",),
)
