"""PyTorch notes that more DataLoader workers are asked for than there are CPUs.

Usual in containers with a CPU limit, where the number of CPUs is that of the limit. Workers
then share CPUs, which costs speed; the words 'or even freeze' are a general warning.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="noise-worker-count",
    category="healthy",
    kind=Kind.NOISE,
    title="More DataLoader workers than CPUs",
    when=log(
        (
            r"This DataLoader will create \d+ worker processes in total\. Our suggested max "
            r"number of worker"
        ),
    ),
    means=(
        "The warning ends with 'or even freeze', yet it compares two numbers only. It can make "
        "loading slow."
    ),
    confidence=0.85,
    matches=(
        (
            "UserWarning: This DataLoader will create 8 worker processes in total. Our suggested "
            "max number of worker in current system is 2, which is smaller than what this "
            "DataLoader is going to create."
        ),
        (
            "/opt/torch/utils/data/dataloader.py:557: UserWarning: This DataLoader will create "
            "16 worker processes in total. Our suggested max number of worker in current system "
            "is 8"
        ),
    ),
    misses=("RuntimeError: DataLoader worker (pid(s) 1285) exited unexpectedly",),
)
