"""A rank ended by a signal of its own, in the words of whoever saw it.

Every launcher, scheduler and monitor has words of its own for a process that was killed or crashed.
Where the rank and the signal are read off them, and nothing says more of it, this does.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature, cite

MAX_QUOTES = 4


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for ranks that a signal of their own ended; it names them if they are few."""
    ends = {rank: end for rank, end in case.ends.items() if end.own and end.signal is not None}
    if not ends:
        return
    everyone = case.job.world_size or len(case.states)
    how = dict.fromkeys(end.how for end in ends.values())
    yield Hit(
        ranks=tuple(sorted(ends)),
        names_culprit=2 * len(ends) <= max(2, everyone),
        evidence=tuple(
            cite(end.source, end.quote, rank) for rank, end in list(ends.items())[:MAX_QUOTES]
        ),
        fields={"who": queries.ranks_in_words(ends), "how": " or ".join(how)},
        at=min((end.time for end in ends.values() if end.time is not None), default=None),
    )


SIGNATURE = Signature(
    id="rank-ended-by-signal",
    category="rank-died",
    level="fallback",
    title="{who} ended with {how}",
    when=when,
    means=(
        "{who} was killed or crashed ({how}); the other ranks wait for it, or were ended after it. "
        "Its own output may end without a word."
    ),
    confidence="likely",
    remedies=(
        "SIGKILL: look for the out-of-memory killer and the scheduler; a crash: take a core dump.",
    ),
    next_steps=(
        "dmesg -T | grep -iE 'oom|killed process|segfault'  # on the host of {who}",
        "PYTHONFAULTHANDLER=1 on the next run shows the Python line of a crash",
    ),
)
