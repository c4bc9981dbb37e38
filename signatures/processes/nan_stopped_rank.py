"""A rank ends, or leaves the loop, because its values are not finite.

A check on the local loss or gradient must be made on the reduced value, or its outcome shared
between ranks; else only the ranks with the bad batch leave. What made the NaN, diverging
training, bad data or a broken GPU, is another question.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nan-stopped-rank",
    category="rank-died",
    kind=Kind.CAUSE,
    title="{who} stopped because of NaN or infinite values",
    when=log(
        r"found NaN in local (?:grad norm|forward loss|backward|param)",
        r"Loss is (?:nan|inf), stopping training",
        r"Function '\w+' returned nan values in its \d+th output",
        r"FloatingPointError: (?:Loss|Minimum loss scale|Losses)",
        r"Current loss scale already at minimum - cannot decrease scale anymore",
        blames=Blames.SPEAKER,
        ends_process=True,
    ),
    means=(
        "The program ends itself when it sees NaN. If only some ranks see it, they leave and the "
        "others wait for them in the next collective."
    ),
    confidence=0.8,
    everywhere="not-distributed",
    remedies=(
        "Decide on the all-reduced value, so that all ranks leave or stay together.",
        "Look at the batch and the learning rate; if always the same host, test its GPUs.",
    ),
    next_steps=("Run a few steps with torch.autograd.set_detect_anomaly(True).",),
    matches=(
        (
            "AssertionError: Rank 3: found NaN in local grad norm in backward pass before "
            "data-parallel communication collective. Device: 3, node: n1"
        ),
        (
            "RuntimeError: Rank 12, node n2, device 4, iteration 100: Unexpected result nan "
            "(message='found NaN in local forward loss calculation')"
        ),
        "Loss is nan, stopping training",
        "RuntimeError: Function 'MulBackward0' returned nan values in its 0th output.",
        (
            "FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably "
            "exploding."
        ),
        (
            "Exception: Current loss scale already at minimum - cannot decrease scale anymore. "
            "Exiting run."
        ),
    ),
    misses=("grad norm: nan | skipped iterations: 1",),
    outranks=(
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)
