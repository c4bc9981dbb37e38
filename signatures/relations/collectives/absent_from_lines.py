"""All ranks but few print one and the same line, and the number of these stands before none.

"rank 0, fetch sample 12", "[rank3] entering the barrier": a program whose ranks write into one log
says who has come to a line. A number that is missing among the others has not come there, nor to
any line before; it is waited for, or has ended without a word. Nothing shows that the job hangs, so
this is a possibility.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import LogTail
from whyhang.analyzer.findings.signature import INCOMPLETE
from whyhang.analyzer.queries import Case, Hit, Signature
from whyhang.analyzer.rank_state.unspoken import unspoken

LONGEST = 80  # characters of a line in a title


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks that are absent from what all others print."""
    if any(member.dumps for member in case.job.members) or case.graph.progress:
        return
    absent = unspoken(case.job.of(LogTail), case.job.world_size)
    if absent is None:
        return
    members, unseen = queries.members_of(case, absent.ranks)
    others, _ = queries.members_of(case, absent.others)
    yield Hit(
        members=members,
        ranks=unseen,
        affected=others,
        evidence=(queries.cite(absent.source, absent.line.text, absent.others[-1]),),
        strength=INCOMPLETE,
        fields={
            "who": queries.ranks_in_words(absent.ranks),
            "others": queries.ranks_in_words(absent.others),
            "line": absent.line.text[:LONGEST],
        },
        at=absent.line.time,
    )


SIGNATURE = Signature(
    id="absent-from-lines",
    category="missing-rank-in-collective",
    level="wait",
    title="{others} print '{line}' and its like, {who} prints nothing",
    when=when,
    means=(
        "Whose number stands before the line has come to it. {who} has not come there, or its "
        "output is not in this log; if the job hangs, the others most likely wait for {who}."
    ),
    confidence="possible",
    remedies=("Find out where {who} is, and what it does before that line.",),
    next_steps=("py-spy dump --pid PID  # of {who}, while it hangs",),
)
