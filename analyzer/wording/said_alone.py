"""Lines that one rank alone has printed: what led it another way may be in its own words."""

import re
from collections.abc import Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import LogTail, Source
from whyhang.analyzer.rank_state.from_logs.log_ends import tails_of_ranks
from whyhang.analyzer.report import Evidence, cite

_WORD = re.compile(r"(?<![\w/.])[A-Za-z]{3,}(?![\w/])")
LEAST_OTHERS = 2  # ranks that print what this one does else
MOST_ALONE = 2  # kinds of lines; who prints more has another part in the job
LEAST_WORDS = 3
LONGEST = 160  # characters of a line


def said_alone(case: Case, ranks: Sequence[int]) -> Evidence | None:
    """Return the line that this rank alone has printed, of logs that are whole; None of several.

    What it prints else others print as well, so that it has no part of its own, as rank 0 mostly
    has. Of two such lines the first is what came before. In a log of all ranks it may be the only
    one whose lines have a label, beside rank 0, which reports.
    """
    tails = tails_of_ranks(case.job)
    if len(ranks) != 1 or ranks[0] not in tails or ranks[0] == 0:
        return None
    own = tails[ranks[0]]
    others = [_templates(tail) for rank, tail in tails.items() if rank != ranks[0]]
    alone = _templates(own) - set[str]().union(*others)
    shared = _templates(own) - alone
    alike = [templates for templates in others if templates & shared]
    few = 0 < len(alone) <= min(MOST_ALONE, len(shared)) and len(alike) >= LEAST_OTHERS
    few = few or (len(own.lines) <= MOST_ALONE and tails.keys() <= {0, ranks[0]})
    if not (few and alone) or not all(tail.whole for tail in tails.values()):
        return None
    line = next(line for line in own.lines if line.template in alone)
    if len(_WORD.findall(line.text)) < LEAST_WORDS:
        return None  # names of files and numbers are each rank's own
    return cite(Source(file=own.source.file, line=line.number), line.text[:LONGEST], ranks[0])


def _templates(tail: LogTail) -> set[str]:
    return {line.template for line in tail.lines}
