"""Horovod was shut down while a rank waited in a collective.

Some rank raised an exception, or came to its end and left; its Horovod took the others' along.
The ranks that print this are those that were left behind.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="horovod-shut-down",
    category="rank-died",
    kind=Kind.CONSEQUENCE,
    title="Horovod was shut down because another rank ended",
    when=log(r"Horovod has been shut down\. This was caused by an exception on one of the ranks"),
    means=(
        "Another rank raised an exception, or finished, while this one waited for it. What it "
        "said stands in the log before the first such line."
    ),
    confidence=0.7,
    next_steps=("Read the logs upwards from the first such line: which rank says something else?",),
    links=("https://horovod.readthedocs.io/en/stable/troubleshooting_include.html",),
    matches=(
        (
            "RuntimeError: Horovod has been shut down. This was caused by an exception on one of "
            "the ranks or an attempt to allreduce, allgather or broadcast a tensor after one of "
            "the ranks finished execution."
        ),
        (
            "horovod.common.exceptions.HorovodInternalError: Horovod has been shut down. This was "
            "caused by an exception on one of the ranks or an attempt to allreduce"
        ),
    ),
    misses=("Horovod has been initialized", "The Horovod background thread has been shut down."),
)
