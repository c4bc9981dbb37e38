"""Horovod's stall check names the ranks that did not submit a tensor.

The coordinator lists each tensor that waits with the ranks that are missing, or each missing rank
with the tensors that wait for it; the oldest versions list the ranks that are ready. Those that
lack every tensor run other code, ended their loop, or are stuck.
"""

from whyhang.analyzer.match.horovod import horovod_stalled
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="horovod-missing-ranks",
    category="missing-rank-in-collective",
    kind=Kind.CAUSE,
    level="wait",
    title="Horovod waits for {who}, which did not submit what the others did",
    when=horovod_stalled(
        r"\[(?:missing|ready) ranks: ?\d[\d, ]*\]",
        r"^\d+: \[.{0,200}(?:Horovod|allreduce\.|allgather\.|broadcast\.)",
    ),
    means=(
        "Horovod's coordinator has requests from the other ranks and none from {who}, which is "
        "elsewhere: it runs other code, has ended its loop, or is stuck."
    ),
    confidence="likely",
    remedies=(
        "Look at what {who} does: its log, and py-spy dump while it hangs.",
        "Let all ranks run the same number of steps (hvd.join() for uneven data).",
    ),
    next_steps=("py-spy dump --pid PID  # of {who}",),
    links=("https://horovod.readthedocs.io/en/stable/troubleshooting_include.html",),
    matches=(
        "HorovodBroadcast_global_step_0 [missing ranks: 1]",
        "allreduce.avg_loss [missing ranks: 1, 3]",
        "allreduce.conv1.weight [ready ranks: 0, 3, 2, 4, 6], ",
        "2: [DistributedAdam_Allreduce/cond_14/HorovodAllreduce_grads_14_0 ...]",
        "HorovodAllreduce_loss_0 [ready ranks: 3], HorovodAllreduce_grad_0 [ready ranks: 0, 1, 2]",
        "0: [broadcast.noname.3765, broadcast.noname.3873]",
    ),
    misses=(
        "Missing ranks:",
        "3: [1, 2, 3]",
        (
            "One or more tensors were submitted to be reduced, gathered or broadcasted by subset "
            "of ranks and are waiting for remainder of ranks for more than 60 seconds."
        ),
    ),
    explains=("horovod-stalled-ranks",),
)
