"""A tensor-parallel worker of an inference engine ended.

The engine notices that the process is gone and shuts the others down, whose later errors
(engine core died, connection lost, cancelled requests) follow from it. The number is the
worker's rank.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="vllm-worker-died",
    category="rank-died",
    kind=Kind.CAUSE,
    title="Worker {rank} of the serving engine died",
    when=log(
        r"Worker proc VllmWorker-(?P<rank>\d+) died unexpectedly",
        blames=Blames.NAMED,
    ),
    means=(
        "The engine found worker {rank} gone and shuts the others down. Its own output holds the "
        "reason."
    ),
    confidence=0.75,
    remedies=(
        "Read the first error of that worker, above this line.",
        "Check GPU memory, and the kernel log for Xid and the OOM killer.",
    ),
    next_steps=("dmesg -T | grep -i -E 'xid|killed process'",),
    matches=(
        (
            "ERROR 11-21 02:00:00 [multiproc_executor.py:140] Worker proc VllmWorker-1 died "
            "unexpectedly, shutting down executor."
        ),
        (
            "ERROR 04-02 11:00:00 [multiproc_executor.py:123] Worker proc VllmWorker-7 died "
            "unexpectedly, shutting down executor."
        ),
    ),
    misses=("RuntimeError: Engine core process EngineCore_DP1 died unexpectedly",),
    outranks=(
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)
