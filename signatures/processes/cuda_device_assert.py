"""A CUDA kernel of one rank stops at an assertion, usually an index out of range.

Token ids beyond the vocabulary, labels beyond the number of classes, a position beyond the
table. It depends on data, so it often hits one rank only, which then dies while the others sit
in a collective.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="cuda-device-assert",
    category="rank-died",
    kind=Kind.CAUSE,
    title="An assertion failed in a GPU kernel of {who}",
    when=log(
        r"CUDA error: device-side assert triggered",
        r"block: \[\d+,\d+,\d+\], thread: \[\d+,\d+,\d+\] Assertion ",
        blames=Blames.SPEAKER,
        ends_process=True,
    ),
    means=(
        "A kernel checked its input and stopped, mostly because of an index out of range. The "
        "CUDA context of this process is lost; the others wait for it."
    ),
    confidence=0.88,
    everywhere="not-distributed",
    remedies=(
        "Check ids and labels against the size of embedding and classifier before the step.",
        "Run the same batch on the CPU, or with CUDA_LAUNCH_BLOCKING=1, to see the line.",
    ),
    next_steps=("Print min and max of ids and labels of that rank's batch",),
    links=("https://pytorch.org/docs/stable/notes/cuda.html",),
    matches=(
        "RuntimeError: CUDA error: device-side assert triggered",
        (
            "/pytorch/aten/src/ATen/native/cuda/Indexing.cu:1146: indexSelectLargeIndex: block: "
            "[194,0,0], thread: [0,0,0] Assertion `srcIndex < srcSelectDimSize` failed."
        ),
    ),
    misses=("AssertionError: block size must be a multiple of 16",),
    outranks=(
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)
