"""What follows for a fact from the others, before facts are joined into ranks.

A line of a log may tell a local rank, a host or a GPU and no rank; a log may tell of an attempt
that is over. Each step reads all facts and gives them back with what it concludes (inferred ranks
are marked so); the steps behind it see that.
"""

from collections.abc import Callable, Iterable, Sequence

from whyhang.analyzer.facts import Fact
from whyhang.analyzer.job.inference.attempts import of_the_last_attempt
from whyhang.analyzer.job.inference.believed import (
    plausible,
    with_numbers_of_pods,
    without_pids,
)
from whyhang.analyzer.job.inference.completed import (
    with_joined_tails,
    with_peers_of_two,
    with_stacks_of_exceptions,
)
from whyhang.analyzer.job.inference.device_ranks import with_device_ranks, with_ranks_of_errors
from whyhang.analyzer.job.inference.given_twice import once
from whyhang.analyzer.job.inference.group_ranks import with_group_ranks
from whyhang.analyzer.job.inference.kernel_lines import of_the_jobs_time, of_this_job
from whyhang.analyzer.job.inference.local_ranks import numbered, with_local_ranks_of_pids
from whyhang.analyzer.job.inference.whose import (
    with_hosts_of_files,
    with_hosts_of_slots,
    with_ranks_of_pids,
    with_sole_ranks,
)
from whyhang.analyzer.job.inference.years import in_one_year

STEPS: tuple[Callable[[Sequence[Fact]], Iterable[Fact]], ...] = (
    once,  # what was given
    *(plausible, without_pids, of_the_last_attempt, in_one_year),  # what is believed
    *(of_the_jobs_time, of_this_job, with_numbers_of_pods),
    *(
        with_hosts_of_files,
        with_ranks_of_pids,
        with_hosts_of_slots,
        with_sole_ranks,
        with_local_ranks_of_pids,
        numbered,
        with_device_ranks,
        with_ranks_of_errors,
        with_group_ranks,
    ),
    *(with_joined_tails, with_stacks_of_exceptions, with_peers_of_two),
)


def inferred(facts: Iterable[Fact]) -> Sequence[Fact]:
    """Return the facts with all that follows from them."""
    known = tuple(facts)
    for step in STEPS:
        known = tuple(step(known))
    return known
