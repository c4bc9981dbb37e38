"""Horovod's stall check tells that ranks have submitted different tensors.

Each of two ranks waits in a tensor that the other has not submitted: neither is late, they run
different code, such as a branch that depends on the data, or a model that differs.
"""

from whyhang.analyzer.match.horovod import horovod_stalled
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="horovod-ranks-apart",
    category="collective-mismatch",
    kind=Kind.CAUSE,
    level="program",
    title="Horovod's ranks wait for each other in different tensors",
    when=horovod_stalled(
        r"\[(?:missing|ready) ranks: ?\d[\d, ]*\]",
        r"^\d+: \[.{0,200}(?:Horovod|allreduce\.|allgather\.|broadcast\.)",
        apart=True,
    ),
    means=(
        "Some ranks have submitted tensors that others lack, and lack what those have submitted. "
        "They are in different places of the program, so none of it can ever be complete."
    ),
    confidence="likely",
    remedies=(
        "Let every rank call the same operations: no collective in a branch that data decide.",
        "Give tensors names of their own: numbered ones differ as soon as one call is left out.",
    ),
    next_steps=("py-spy dump --pid PID  # of one rank of each kind",),
    links=("https://horovod.readthedocs.io/en/stable/troubleshooting_include.html",),
    matches=(
        "HorovodBroadcast_global_step_0 [missing ranks: 1]",
        "allreduce.avg_loss [missing ranks: 1, 3]",
        "allreduce.conv1.weight [ready ranks: 0, 3, 2, 4, 6], ",
        "2: [DistributedAdam_Allreduce/cond_14/HorovodAllreduce_grads_14_0 ...]",
        "HorovodAllreduce_loss_0 [ready ranks: 3], HorovodAllreduce_grad_0 [ready ranks: 0, 1, 2]",
        "0: [broadcast.noname.3765, broadcast.noname.3873]",
    ),
    misses=("Missing ranks:", "3: [1, 2, 3]"),
    explains=("horovod-stalled-ranks", "horovod-missing-ranks"),
)
