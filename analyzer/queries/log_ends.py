"""The log of a rank ends without a word of trouble, while others report a lost peer."""

import re
from collections.abc import Iterator

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import ranks_in_words
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.queries.evidence import cite_line, members_of
from whyhang.analyzer.queries.failures import speakers
from whyhang.analyzer.rank_state.ends import LOST_PEER
from whyhang.analyzer.rank_state.gave_up import last_lines
from whyhang.analyzer.rank_state.log_ends import got_over, have_ended
from whyhang.analyzer.report import cite

MAX_QUOTES = 6

ORDERLY_END = re.compile(
    r"\b(?:done|finish(?:ed|ing)|return(?:ed|ing)|exit(?:ed|ing)|leaving|complete[d]?|skipp(?:ed|ing)"
    r"|nothing (?:left|more|to do)|no more (?:data|batches|work))\b",
    re.IGNORECASE,
)
"""Words of a rank that came to the end of its program."""


def log_ends(case: Case, *, finished: bool) -> Iterator[Hit]:
    """Yield one hit for ranks whose logs end without a word of trouble while others lost a peer.

    ``finished``: whether their last words are of an orderly end.
    """
    if have_ended(case.job):
        return
    lines = [
        line
        for line in case.job.lines
        if LOST_PEER.search(line.text) and not got_over(case.job, line)
    ]
    survivors = {line.who.rank for line in lines if line.who.rank is not None}
    ends = last_lines(case.job)
    spoke = speakers(case)
    silent = sorted(ends.keys() - spoke)
    if not silent or not survivors or len(silent) > len(ends) // 2:
        return
    if all(ORDERLY_END.search(ends[rank].text) for rank in silent) is not finished:
        return
    members, unseen = members_of(case, silent)
    last = [cite(ends[rank].source, ends[rank].text, rank) for rank in silent[:MAX_QUOTES]]
    yield Hit(
        members=members,
        ranks=unseen,
        evidence=(*last, *(cite_line(line) for line in lines[:2])),
        fields={"who": ranks_in_words(silent), "others": ranks_in_words(survivors)},
    )
