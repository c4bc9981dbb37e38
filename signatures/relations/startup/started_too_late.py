"""Ranks were started when the one that hosts the store had already given up waiting for them.

The store counts who came and does not say who is missing. Where as many ranks as are missing print
their first line later than the store waits, it is they: an image was pulled, a queue was long, a
node was slow. What they say then, mostly that nobody listens, is an effect.
"""

import re
from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import Source
from whyhang.analyzer.queries import Case, Hit, Signature
from whyhang.analyzer.rank_state.from_logs.log_ends import tails_of_ranks

_MISSING = (r"(?P<joined>\d{1,7})/(?P<world>\d{1,7}) (?:clients|workers) joined",)
"""Lines of ``store-clients-missing``."""
_LIMIT = re.compile(r"Timed out after (?P<seconds>\d{1,6}) seconds waiting for (?:clients|workers)")
MAX_QUOTES = 4


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit if as many ranks began too late as did not come.

    Their number bears out that it is no matter of clocks alone.
    """
    tails = tails_of_ranks(case.job)
    begun = {
        rank: tail.lines[0]
        for rank, tail in tails.items()
        if tail.whole and tail.lines[0].time is not None
    }
    for line in case.job.lines_with(_MISSING):
        limit, waiter = _LIMIT.search(line.text), line.who.rank
        if limit is None or waiter is None or waiter not in begun:
            continue
        since = begun[waiter].time or 0.0
        waited = int(limit["seconds"])
        after = {rank: (first.time or 0.0) - since for rank, first in begun.items()}
        late = sorted(rank for rank, seconds in after.items() if seconds > waited)
        missing = int(line.fields["world"]) - int(line.fields["joined"])
        if len(late) != missing or len(begun) - missing < 2:
            continue
        yield Hit(
            ranks=tuple(late),
            evidence=(
                *(
                    queries.cite(
                        Source(file=tails[rank].source.file, line=begun[rank].number),
                        begun[rank].text,
                        rank,
                    )
                    for rank in late[:MAX_QUOTES]
                ),
                queries.cite_line(line),
            ),
            fields={
                "late": queries.duration(min(after[rank] for rank in late)),
                "limit": queries.duration(waited),
                "waiter": queries.ranks_in_words([waiter]),
            },
            at=line.time,
        )
        return


SIGNATURE = Signature(
    id="started-too-late",
    category="init-missing-rank",
    level="setup",
    title="{who} began {late} after {waiter}, which waited for {limit} only",
    when=when,
    means=(
        "By their first lines {who} began {late} after {waiter}, whose limit to wait for all ranks "
        "is {limit}. When {who} came, the store was gone."
    ),
    confidence="likely",
    remedies=(
        "Find what held the start of {who} up: a queue, an image to pull, a slow file system.",
        "Give init_process_group a longer timeout if some nodes start late.",
    ),
    next_steps=("Compare the first lines of all logs, and the events of the scheduler.",),
)
