"""Python's resource tracker removes what killed processes left behind.

It is the last line of many logs, and is printed whenever processes with DataLoader workers are
ended by force.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="noise-resource-tracker",
    category="healthy",
    kind=Kind.NOISE,
    title="Python cleans up semaphores or shared memory at exit",
    when=log(
        r"resource_tracker: There appear to be \d+ leaked \w+ objects",
        r"resource_tracker: \S+: \[Errno 2\] No such file or directory",
    ),
    means=(
        "Processes that were killed could not clean up after themselves, so a helper does. It "
        "follows from the end and does not cause it."
    ),
    confidence=0.85,
    matches=(
        (
            "/usr/lib/python3.10/multiprocessing/resource_tracker.py:224: UserWarning: "
            "resource_tracker: There appear to be 12 leaked semaphore objects to clean up at "
            "shutdown"
        ),
        (
            "UserWarning: resource_tracker: '/psm_1a2b': [Errno 2] No such file or directory: "
            "'/psm_1a2b'"
        ),
    ),
    misses=("FileNotFoundError: [Errno 2] No such file or directory: '/data/train.bin'",),
)
