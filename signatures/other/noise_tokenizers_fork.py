"""tokenizers tells that it avoids a deadlock after fork.

The word deadlock makes it look like a culprit. It is a measure against one, and printed by most
jobs with DataLoader workers.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="noise-tokenizers-fork",
    category="healthy",
    kind=Kind.NOISE,
    title="tokenizers switched its parallelism off after a fork",
    when=log(
        (
            r"huggingface/tokenizers: The current process just got forked, after parallelism has "
            r"already been used"
        ),
    ),
    means=(
        "The library avoids a deadlock by switching its threads off; the message tells that it "
        "did, not that there is one."
    ),
    confidence=0.85,
    remedies=("TOKENIZERS_PARALLELISM=false silences it.",),
    matches=(
        (
            "huggingface/tokenizers: The current process just got forked, after parallelism has "
            "already been used. Disabling parallelism to avoid deadlocks..."
        ),
        (
            "1: huggingface/tokenizers: The current process just got forked, after parallelism "
            "has already been used. Disabling parallelism to avoid deadlocks..."
        ),
    ),
    misses=("thread panicked while processing panic. aborting.",),
)
