"""An inference server notices that a worker does not take its next message, or does not move.

vLLM warns when a reader of its shared-memory ring is late, and gives up when no worker answers
a call; sglang warns when its scheduler loop stands still. All are symptoms. Which worker hangs,
and in what, must be read from the stacks of the workers. A compile or a long prefill can cause
a few of the warnings in a healthy server.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="vllm-worker-broadcast-wait",
    category="missing-rank-in-collective",
    kind=Kind.CONSEQUENCE,
    title="A serving engine waits for one of its workers",
    when=log(
        r"No available (?:shared memory broadcast )?block found in \d+ seconds?",
        r"Watchdog timeout \(self\.watchdog_timeout=\d+",
        r"[Ss]cheduler watchdog timeout",
        r"RPC call to \w+ timed out",
    ),
    means=(
        "The engine broadcasts work to its workers and at least one of them has not taken it: it "
        "is stuck, or dead. The process that prints this only waits."
    ),
    confidence=0.5,
    next_steps=(("py-spy dump --pid PID  # of every worker process: which one stands elsewhere?"),),
    matches=(
        (
            "INFO 11-21 02:00:00 [shm_broadcast.py:466] No available shared memory broadcast "
            "block found in 60 seconds. This typically happens when some processes are hanging "
            "or doing some time-consuming work (e.g. compilation)."
        ),
        "WARNING 11-21 02:00:00 shm_broadcast.py:404] No available block found in 60 second.",
        "[2025-11-21 02:00:00 TP0] Watchdog timeout (self.watchdog_timeout=300)",
        (
            "[2025-11-21 02:00:00] Scheduler watchdog timeout (self.watchdog_timeout=300, "
            "self.soft=False)"
        ),
        "(EngineCore_0 pid=12) ERROR TimeoutError: RPC call to execute_model timed out.",
    ),
    misses=("No available GPU found in 60 seconds",),
)
