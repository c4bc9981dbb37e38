"""The front end of an inference server notices that its engine process ended.

It knows nothing of the reason. A worker that died, ran out of memory or aborted after a timeout
stands before it.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="engine-died-summary",
    category="rank-died",
    kind=Kind.CONSEQUENCE,
    title="A serving engine reports that its core process is gone",
    when=log(
        r"Engine core process \S+ died unexpectedly",
        r"EngineDeadError: ",
        r"Engine core initialization failed",
    ),
    means=(
        "The front end noticed that the engine behind it ended. The reason is in the engine's "
        "own output before."
    ),
    confidence=0.3,
    gives_way=True,
    next_steps=("Read the first error of the engine's workers",),
    matches=(
        "RuntimeError: Engine core process EngineCore_DP1 died unexpectedly",
        (
            "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See "
            "stack trace (above) for the root cause."
        ),
        (
            "RuntimeError: Engine core initialization failed. See root cause above. Failed core "
            "proc(s): {'EngineCore_0': 1}"
        ),
    ),
    misses=("Engine started on port 8000",),
)
