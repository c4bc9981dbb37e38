"""NCCL says what went wrong, in words that have no signature of their own."""

import re
from collections.abc import Iterable, Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import LogLine, SignOfLife
from whyhang.analyzer.queries import Case, Hit, Kind, Signature
from whyhang.analyzer.rank_state.log_ends import have_ended

LAST_ERROR = "nccl-last-error"
"""The name under which the log reader gives "Last error:"."""

WARNING = r"NCCL WARN (?P<what>\S.*)"
LOST_PEERS = (
    r"ncclRemoteError|remote process exited or there was a network error",
    r"Socket (?:recv|send) failed while polling|Connection closed by|reset by peer",
)
MAX_QUOTES = 4
_FAILED = re.compile(r"NCCL (?:[Ee]rror|failure)\b|\bnccl[A-Z]\w+Error: ")


def warned(case: Case) -> Iterable[Hit]:
    return _first(_strange(case))


def failed(case: Case) -> Iterable[Hit]:
    """Yield one hit for the last error of NCCL, else for a warning that nobody knows."""
    last = case.job.lines_with((LAST_ERROR,))
    if not last and not any(_FAILED.search(line.text) for line in case.job.lines):
        return ()
    return () if case.job.lines_with(LOST_PEERS) else _first(last or _strange(case))


WARNED = Signature(
    id="nccl-warning",
    story="""\
NCCL warns of something, and nothing else in the logs tells what is wrong.

A WARN line is what NCCL prints before it returns an error. Those with a known story have
signatures of their own; this one makes sure that an unknown one is not passed over in silence.
A job that is seen to work on below it was not stopped by it.
""",
    category="unknown",
    kind=Kind.CONSEQUENCE,
    level="peer",
    title="NCCL warns: {what}",
    when=warned,
    patterns=(WARNING,),
    means="NCCL prints such a line when one of its calls fails. What it means for the job is open.",
    confidence="hint",
    next_steps=(
        "Read the lines around it in the logs of all ranks: who says it first?",
        "Run again with NCCL_DEBUG=INFO",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
    matches=(
        "node3:75:95 [2] graph/xml.h:101 NCCL WARN Attribute arch of node cpu not found",
        "node3:99:140 [1] init.cc:800 NCCL WARN Something that nobody has seen before",
    ),
    misses=("node3:99:140 [1] NCCL INFO init.cc:1548 -> 3",),
)

FAILED = Signature(
    id="nccl-failed-saying-why",
    story="""\
A call of NCCL failed, and it said why in words that have no signature of their own.

PyTorch repeats NCCL's last warning behind "Last error:", even where NCCL_DEBUG is not set; else
the reason is a WARN line. With several ranks, the one that failed first may say something else
than the others, which only lost their peer.
""",
    category="nccl-internal-error",
    level="peer",
    title="NCCL failed: {what}",
    when=failed,
    vetoes=LOST_PEERS,
    means=(
        "A call of NCCL failed and the job ended on it. These are its own words for the reason; "
        "they blame no rank."
    ),
    confidence="possible",
    remedies=(
        "Read the WARN lines of all ranks (NCCL_DEBUG=WARN): the first of them is the cause.",
    ),
    next_steps=(
        "grep -n 'NCCL WARN' LOG  # in the logs of all ranks",
        "df -h /dev/shm; ulimit -l; nvidia-smi; dmesg -T | grep -i xid  # on each host",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
    misses=(
        "[rank1]: ncclRemoteError: A call failed possibly due to a network error",
        "[rank1]: socketProgress: Connection closed by remote peer n9<55912>",
    ),
    # carries the reason of the same error
    explains=("nccl-unhandled-error", "plain-exception"),
)

SIGNATURES = (WARNED, FAILED)


def _first(lines: list[LogLine]) -> Iterator[Hit]:
    """Yield one hit for the words that were printed first."""
    if not lines:
        return
    first = min(lines, key=lambda line: (line.time or float("inf"), line.source.line or 0))
    what = first.fields.get("reason") or first.fields.get("what", "")
    yield Hit(
        names_culprit=False,
        evidence=tuple(queries.cite_line(line) for line in _different(lines)),
        fields={"what": what.rstrip(". ")},
        at=first.time,
    )


def _strange(case: Case) -> list[LogLine]:
    """List warnings that no signature looks for, and that the job did not go on or end after."""
    if have_ended(case.job):
        return []
    alive = {sign.source.file: sign.source.line or 0 for sign in case.job.of(SignOfLife)}
    return [
        line
        for line in case.job.lines_with((WARNING,))
        if set(line.matched) == {WARNING}
        and alive.get(line.source.file, 0) < (line.source.line or 0)
    ]


def _different(lines: list[LogLine]) -> list[LogLine]:
    seen = {line.fields.get("reason") or line.fields.get("what"): line for line in reversed(lines)}
    return sorted(seen.values(), key=lambda line: line.source.line or 0)[:MAX_QUOTES]
