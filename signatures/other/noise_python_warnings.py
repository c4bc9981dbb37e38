"""Warnings of PyTorch and Python about interfaces that will change.

They are printed once for each process and so look like a storm at the start of a large job.
Nothing behaves differently because of them in the version that prints them.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="noise-python-warnings",
    category="healthy",
    kind=Kind.NOISE,
    title="Notices about old interfaces",
    when=log(
        (
            r"FutureWarning: (?:You are using `torch\.load` with "
            r"`weights_only=False`|`torch\.\w+\.amp\.|The module torch\.distributed\.launch is "
            r"deprecated|`torch\.distributed\.)"
        ),
        r"The module torch\.distributed\.launch is deprecated",
        r"pkg_resources is deprecated as an API",
        r"UserWarning: None of the inputs have requires_grad=True",
    ),
    means=(
        "Notices for developers that a later version will change something. They do not explain "
        "a hang."
    ),
    confidence=0.8,
    matches=(
        (
            "train.py:10: FutureWarning: You are using `torch.load` with `weights_only=False` "
            "(the current default value)"
        ),
        "train.py:31: FutureWarning: `torch.cuda.amp.GradScaler(args...)` is deprecated.",
        "FutureWarning: The module torch.distributed.launch is deprecated",
        "UserWarning: pkg_resources is deprecated as an API.",
        "UserWarning: None of the inputs have requires_grad=True. Gradients will be None",
    ),
    misses=("RuntimeWarning: invalid value encountered in divide",),
)
