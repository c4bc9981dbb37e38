"""torchrun starts all workers anew after one of them failed.

The log now holds several attempts in one file. Errors of an earlier attempt are not the cause
of a hang in a later one, though the same fault often strikes again.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="elastic-retry",
    category="elastic-restart",
    kind=Kind.CONSEQUENCE,
    title="torchrun restarts the worker group after a failure",
    when=log(
        r"Worker group (?:FAILED|UNHEALTHY)\. \d+/\d+ attempts left; will restart worker group",
    ),
    means=(
        "A worker failed and --max-restarts allows another try. Everything after this line "
        "belongs to the next attempt; the cause of the failure stands before it."
    ),
    confidence=0.7,
    restarts=True,
    next_steps=("Read the lines before this one for the first failure",),
    links=("https://pytorch.org/docs/stable/elastic/run.html",),
    matches=(
        (
            "I1121 02:13:16.926000 17542 torch/distributed/elastic/agent/server/api.py:942] "
            "[default] Worker group FAILED. 1/1 attempts left; will restart worker group"
        ),
        (
            "INFO:torch.distributed.elastic.agent.server.api:[default] Worker group UNHEALTHY. "
            "2/3 attempts left; will restart worker group"
        ),
    ),
    misses=("[default] Detected 1 new nodes from group_rank=0; will restart worker group",),
)
