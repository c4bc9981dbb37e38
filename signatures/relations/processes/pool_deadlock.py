"""All threads of a pool wait for tasks that only a thread of this pool could run.

A task that submits further tasks to its own ``ThreadPoolExecutor`` and waits for their results
holds one thread while it waits. When every thread is held so, the tasks stay in the queue for
ever. It happens with few threads or many tasks at once, and goes well for a long time before.
"""

from collections.abc import Iterable

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature, WaitKind


def when(case: Case) -> Iterable[Hit]:
    return queries.lagging(case, WaitKind.FUTURE, op="blocked-pool", alone=True)


SIGNATURE = Signature(
    id="pool-deadlock",
    category="gil-or-lock-deadlock",
    level="program",
    title="Every thread of a pool of {who} waits for a task of the same pool at {where}{waiting}",
    when=when,
    means=(
        "{who} {has} a pool whose threads all wait for the result of another task{at}. No thread "
        "is left that could run it."
    ),
    confidence="strong",
    remedies=(
        "Let no task wait for tasks of its own pool: give the inner tasks a pool of their own.",
        "Or submit all tasks from outside and combine their results there.",
    ),
    next_steps=("py-spy dump --pid {pid}  # the threads named ThreadPoolExecutor-",),
)
