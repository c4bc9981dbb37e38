"""Intel's oneCCL, the library behind the xccl and ccl backends, failed by itself.

Its worker threads cannot be pinned (pthread_create returns 22: CCL_WORKER_AFFINITY names cores
that the process may not use), its transport does not start, or a driver below it fails. The text
behind EXCEPTION is the reason; a CCL_ERROR line above it mostly says more.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="oneccl-exception",
    category="nccl-internal-error",
    kind=Kind.CAUSE,
    title="oneCCL failed: {why}",
    when=log(
        r"oneCCL: \S+:\d+ \S+: EXCEPTION: (?P<why>.{1,200})",
        blames=Blames.SPEAKER,
    ),
    means="The communication library gave up, so this process takes part in no collective.",
    confidence=0.75,
    remedies=(
        "Start the job with mpirun, or set CCL_LOCAL_RANK and CCL_LOCAL_SIZE.",
        "Compare CCL_WORKER_AFFINITY and the cores of the process (taskset -p PID).",
    ),
    next_steps=("Run again with CCL_LOG_LEVEL=info",),
    links=("https://uxlfoundation.github.io/oneCCL/env-variables.html",),
    matches=(
        "RuntimeError: oneCCL: exec.cpp:134 start_workers: EXCEPTION: failed to start worker # 0",
        "oneCCL: ze_call.cpp:43 do_call: EXCEPTION: ze error at zeMemOpenIpcHandle, code: 78000011",
    ),
    misses=("2023:11:28-16:35:45:(35980) |CCL_WARN| could not get local_idx/count",),
    outranks=("launcher-exit-code", "uncaught-exception"),
)
