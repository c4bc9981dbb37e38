"""A rank has done its work and cannot end: a thread of it does not.

At exit Python waits for every thread that is not a daemon: a logger without a stop flag, an
uploader whose queue never closes, a pool that was not shut down. The other ranks have ended or
wait for this one in their last call.
"""

from collections.abc import Iterable

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature


def when(case: Case) -> Iterable[Hit]:
    return queries.lagging(case, op="exit", alone=True)


SIGNATURE = Signature(
    id="thread-keeps-rank-alive",
    category="gil-or-lock-deadlock",
    level="program",
    title="{who} cannot end: {does}{at}",
    when=when,
    means=(
        "The main program of {who} is through; the interpreter waits for a thread that is not a "
        "daemon and does not end{at}."
    ),
    confidence="likely",
    remedies=(
        "Tell the thread to stop and join it before the program ends, or make it a daemon.",
        "Shut pools and uploaders down in a finally block: they outlive an exception, too.",
    ),
    next_steps=("py-spy dump --pid {pid}  # which thread is still in your code?",),
)
