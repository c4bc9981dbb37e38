"""The log of a rank ends without a word of trouble, while others report a lost peer."""

import re
from collections.abc import Iterable, Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import LastLine
from whyhang.analyzer.queries import Case, Hit, Signature
from whyhang.analyzer.rank_state.ends import LOST_PEER
from whyhang.analyzer.rank_state.log_ends import got_over, have_ended

MAX_QUOTES = 6

ORDERLY_END = re.compile(
    r"\b(?:done|finish(?:ed|ing)|return(?:ed|ing)|exit(?:ed|ing)|leaving|complete[d]?|skipp(?:ed|ing)"
    r"|nothing (?:left|more|to do)|no more (?:data|batches|work))\b",
    re.IGNORECASE,
)
"""Words of a rank that came to the end of its program."""


def finished_early(case: Case) -> Iterable[Hit]:
    return _silent(case, finished=True)


def went_silent(case: Case) -> Iterable[Hit]:
    return _silent(case, finished=False)


FINISHED_EARLY = Signature(
    id="rank-finished-early",
    story="""\
A rank came to the end of its program while the others still called collectives.

Its connections close as it exits, and the others report a lost peer, which reads like a network
fault or a crash. But the rank that is gone ended in good order: it skipped the call, had fewer
batches, or left the loop under a condition that only it met.
""",
    category="missing-rank-in-collective",
    level="wait",
    title="{who} had finished when {others} still waited in a collective",
    when=finished_early,
    means=(
        "{who} ended without an error and closed its connections; {others} lost a peer in the "
        "middle of a call. The ranks do not make the same calls."
    ),
    confidence="possible",
    remedies=(
        "Find the call that {who} leaves out: a condition on the rank, or fewer batches.",
        "Let every rank make the same collective calls; a barrier at the end shows who is early.",
    ),
    next_steps=("TORCH_DISTRIBUTED_DEBUG=DETAIL on the next run names calls that differ",),
)

WENT_SILENT = Signature(
    id="rank-went-silent",
    story="""\
A rank's log just stops, while the others report that a peer is gone.

A process that is killed (a node that goes down, kill -9, a deleted pod) prints nothing more.
The survivors name an address at best. The rank whose own log ends in the middle of its work
is the one that went.
""",
    category="rank-died",
    level="wait",
    title="The log of {who} just stops; a lost peer is reported by {others}",
    when=went_silent,
    means=(
        "{who} printed no error: the log ends in the middle of the work. {others} lost the "
        "connection to a peer. Most likely the process or its node was killed."
    ),
    confidence="possible",
    remedies=(
        "Look at the host of {who}: was the node, the pod or the process ended?",
        "Check dmesg for the OOM killer and the scheduler for a node failure.",
    ),
    next_steps=("dmesg -T | grep -iE 'oom|killed process'; last -x reboot",),
)

SIGNATURES = (FINISHED_EARLY, WENT_SILENT)


def _silent(case: Case, *, finished: bool) -> Iterator[Hit]:
    """Yield one hit for ranks whose logs end without a word of trouble while others lost a peer.

    ``finished``: whether their last words are of an orderly end.
    """
    lines = [
        line
        for line in case.job.lines
        if LOST_PEER.search(line.text) and not got_over(case.job, line)
    ]
    survivors = {line.who.rank for line in lines if line.who.rank is not None}
    ends = {end.who.rank: end for end in case.job.of(LastLine)}
    spoke = queries.speakers(case)
    if have_ended(case.job):
        return
    silent = sorted(rank for rank in ends if rank is not None and rank not in spoke)
    if not silent or not survivors or len(silent) > len(ends) // 2:
        return
    if all(ORDERLY_END.search(ends[rank].text) for rank in silent) is not finished:
        return
    members, unseen = queries.members_of(case, silent)
    last = [queries.cite(ends[rank].source, ends[rank].text, rank) for rank in silent[:MAX_QUOTES]]
    yield Hit(
        members=members,
        ranks=unseen,
        evidence=(*last, *(queries.cite_line(line) for line in lines[:2])),
        fields={"who": queries.ranks_in_words(silent), "others": queries.ranks_in_words(survivors)},
    )
