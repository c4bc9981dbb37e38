"""torchrun tells that it sets OMP_NUM_THREADS to 1.

Printed between two lines of asterisks at the start of nearly every job, so it is often the
first warning of a log that someone searches, and no sign of anything.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="noise-omp-threads",
    category="healthy",
    kind=Kind.NOISE,
    title="Note on OMP_NUM_THREADS",
    when=log(
        r"Setting OMP_NUM_THREADS environment variable for each process",
    ),
    means="torchrun limits the threads of each process. It concerns speed only.",
    confidence=0.9,
    matches=(
        (
            "W1121 02:12:57.311000 17467 torch/distributed/run.py:874] Setting OMP_NUM_THREADS "
            "environment variable for each process to be 1 in default, to avoid your system "
            "being overloaded"
        ),
        (
            "[2023-11-05 09:54:49,546] torch.distributed.run: [WARNING] Setting OMP_NUM_THREADS "
            "environment variable for each process to be 1 in default"
        ),
    ),
    misses=(
        "OMP: Error #15: Initializing libiomp5.so, but found libiomp5.so already initialized.",
    ),
)
