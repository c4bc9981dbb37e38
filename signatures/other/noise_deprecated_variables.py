"""torch asks to use TORCH_NCCL_... instead of NCCL_... for some variables.

Printed at start by torch 2.2 and later when a launch script sets the old names. The old name
still works, so a setting made by it does hold, for instance the one for a blocking wait.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="noise-deprecated-variables",
    category="healthy",
    kind=Kind.NOISE,
    title="A renamed environment variable is in use",
    when=log(
        r"Environment variable NCCL_\w+ is deprecated; use TORCH_NCCL_\w+ instead",
        r"NCCL_BLOCKING_WAIT is deprecated",
    ),
    means="The old name still works. It has nothing to do with a hang.",
    confidence=0.9,
    matches=(
        (
            "[W Utils.hpp:133] Warning: Environment variable NCCL_ASYNC_ERROR_HANDLING is "
            "deprecated; use TORCH_NCCL_ASYNC_ERROR_HANDLING instead (function operator())"
        ),
        (
            "[W1120 23:12:14.6 Utils.hpp:164] Warning: Environment variable NCCL_BLOCKING_WAIT "
            "is deprecated; use TORCH_NCCL_BLOCKING_WAIT instead"
        ),
        "NCCL_BLOCKING_WAIT is deprecated",
    ),
    misses=("NCCL_IB_TIMEOUT set by environment to 22.",),
)
