"""The old launcher passes an argument that the script does not accept.

torch.distributed.launch adds --local_rank=N, and from 2.0 on --local-rank=N. A parser that
knows neither, or only one spelling, ends the script before it starts.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="local-rank-argument",
    category="rank-died",
    kind=Kind.CAUSE,
    title="The script does not know the argument --local-rank that the launcher passes",
    when=log(
        r"error: unrecognized arguments: .*--local[-_]rank",
    ),
    means=(
        "torch.distributed.launch passes --local-rank (with a dash since torch 2.0) and the "
        "script's parser refuses it, so every process ends at once with exit code 2."
    ),
    confidence=0.93,
    everywhere="not-distributed",
    remedies=(
        "Start with torchrun and read LOCAL_RANK from the environment.",
        (
            "Or accept both: parser.add_argument('--local-rank', '--local_rank', type=int, "
            "default=0)."
        ),
    ),
    links=("https://pytorch.org/docs/stable/distributed.html#launch-utility",),
    matches=(
        "train.py: error: unrecognized arguments: --local-rank=0",
        "usage: train.py [-h]: error: unrecognized arguments: --foo --local_rank=3",
    ),
    misses=("train.py: error: unrecognized arguments: --learning-rate 0.1",),
    outranks=("launcher-exit-code",),
)
