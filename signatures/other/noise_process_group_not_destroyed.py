"""A warning at exit: the program did not call destroy_process_group.

It is printed by healthy jobs that simply end, and by jobs that end on an error. It is never the
reason.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="noise-process-group-not-destroyed",
    category="healthy",
    kind=Kind.NOISE,
    title="Note that destroy_process_group was not called",
    when=log(
        r"destroy_process_group\(\) was not called before program exit",
        (
            r"process group has NOT been destroyed before (?:it is being destructed|we destruct "
            r"ProcessGroupNCCL)"
        ),
    ),
    means=(
        "The program ended without a tidy shutdown of its process groups. That does not explain "
        "a hang."
    ),
    confidence=0.9,
    links=("https://pytorch.org/docs/stable/distributed.html",),
    matches=(
        (
            "[W1120 23:12:14.630000 ProcessGroupNCCL.cpp:1496] Warning: WARNING: "
            "destroy_process_group() was not called before program exit, which can leak "
            "resources. For more info, please see "
            "https://pytorch.org/docs/stable/distributed.html#shutdown (function operator())"
        ),
        (
            "[W ProcessGroupNCCL.cpp:1168] Warning: WARNING: process group has NOT been "
            "destroyed before we destruct ProcessGroupNCCL."
        ),
    ),
    misses=("Starting to destroy process group, flushing operations.",),
)
