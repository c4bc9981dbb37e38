"""An exception that nobody caught ended a rank, the program or a thread."""

import re
from collections import defaultdict
from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import LogLine, replace
from whyhang.analyzer.facts.exceptions import EXCEPTION, is_own_exception
from whyhang.analyzer.queries import Case, Hit, Signature
from whyhang.analyzer.report import Location
from whyhang.analyzer.stacks.usercode import short

MAX_QUOTES = 6
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+")


def of_a_rank(case: Case) -> Iterator[Hit]:
    lines = _first_raised(case)
    ranks = queries.raised_by(case, lines) if lines else ()
    if lines and not queries.has_no_ranks_to_blame(case, ranks):
        yield _hit(case, lines, ranks)


def of_the_program(case: Case) -> Iterator[Hit]:
    """Yield one hit where every rank raised it or there is only one process."""
    lines = _first_raised(case)
    if lines and queries.has_no_ranks_to_blame(case, queries.raised_by(case, lines)):
        yield _hit(case, lines, ())


def of_a_thread(case: Case) -> Iterator[Hit]:
    """Yield one hit for what ended a thread only; the program goes on without it."""
    if lines := _first_raised(case, in_thread=True):
        yield replace(_hit(case, lines, _ranks(lines)), names_culprit=False)


OF_A_RANK = Signature(
    id="uncaught-exception",
    story="""\
A rank ended with an exception of its own, and the others were left waiting.

The ranks that live on notice it late and loudly: a closed connection, a watchdog timeout. The
quiet traceback on one rank is the cause. Exceptions that a collective raised because a peer
was gone do not count, and those with a signature of their own are told there.
""",
    category="rank-died",
    level="program",
    title="{who} ended with {what}{at}",
    when=of_a_rank,
    means="{who} raised {what}{at} and left the job; whoever waits for it can only time out.",
    confidence="likely",
    remedies=(
        "Fix the exception on {who}; what the other ranks print follows from it.",
        (
            "If only some ranks can fail so, agree on it first (all_reduce a flag) or let the "
            "launcher end the job."
        ),
    ),
    next_steps=("Read the log of {who} from the traceback upwards.",),
)

OF_THE_PROGRAM = Signature(
    id="plain-exception",
    story="""\
The program ended with an exception that has nothing to do with ranks.

Every rank raised the same, or there is only one process: a missing file, a wrong argument, a
bug. Nobody waited for anybody.
""",
    category="not-distributed",
    level="program",
    title="The program ended with {what}{at}",
    when=of_the_program,
    means="This is an ordinary error of the program, the same on every rank that was seen.",
    confidence="likely",
    remedies=("Fix the exception; no rank is to blame.",),
    next_steps=("Run the script on one process: does it fail alike?",),
)

OF_A_THREAD = Signature(
    id="thread-raised",
    story="""\
A thread of the program ended with an exception, and the program went on without it.

A prefetcher, a logger or an uploader that dies leaves whoever waits for its next item waiting
for ever; others are not missed by anybody. The log alone does not tell which it was.
""",
    category="unknown",
    level="wait",
    title="A thread of {who} ended with {what}{at}",
    when=of_a_thread,
    means=(
        "The thread is gone and the program goes on without it. If something waits for what it "
        "was to deliver, that waits for ever."
    ),
    confidence="possible",
    remedies=("Let the thread hand its exception to whoever waits for it.",),
    next_steps=("py-spy dump --pid PID  # does the main thread wait on a queue or an event?",),
)

SIGNATURES = (OF_A_RANK, OF_THE_PROGRAM, OF_A_THREAD)


def _first_raised(case: Case, *, in_thread: bool = False) -> list[LogLine]:
    """Return the lines of the exception raised first, on the fewest ranks.

    Not one that a collective raised because of another rank, nor one that a signature of its own
    explains. Exceptions that say the same but for numbers are one.
    """
    explained = {
        (line.source.file, line.source.line)
        for line in case.job.lines
        if set(line.matched) - {EXCEPTION}
    }
    groups: dict[tuple[str, str], list[LogLine]] = defaultdict(list)
    for line in case.job.lines:
        fields = line.fields
        if (
            EXCEPTION in line.matched
            and ("thread" in fields) is in_thread
            and is_own_exception(fields)
            and (line.source.file, line.source.line) not in explained
        ):
            message = _NUMBERS.sub("N", fields.get("message", ""))
            groups[(fields.get("type", ""), message)].append(line)
    return min(groups.values(), key=lambda lines: (_when(lines), len(_ranks(lines))), default=[])


def _ranks(lines: list[LogLine]) -> tuple[int, ...]:
    return tuple(sorted({line.who.rank for line in lines if line.who.rank is not None}))


def _when(lines: list[LogLine]) -> float:
    return min((line.time for line in lines if line.time is not None), default=float("inf"))


def _hit(case: Case, lines: list[LogLine], ranks: tuple[int, ...]) -> Hit:
    members, unseen = queries.members_of(case, ranks)
    first = lines[0]
    fields = first.fields
    kind = fields.get("type", "an exception").rpartition(".")[2]
    message = fields.get("message", "").partition("\n")[0]
    place = _location(fields)
    at = f" at {place.function} ({place.file}:{place.line})" if place else ""
    return Hit(
        members=members,
        ranks=unseen,
        evidence=tuple(queries.cite_line(line) for line in lines[:MAX_QUOTES]),
        names_culprit=bool(ranks),
        location=place,
        fields={
            "who": queries.ranks_in_words(ranks) if ranks else "the job",
            "what": f"{kind}: {message}" if message else kind,
            "at": at,
        },
        at=_when(lines) if _when(lines) != float("inf") else None,
    )


def _location(fields: dict[str, str]) -> Location | None:
    if not fields.get("file"):
        return None
    line = fields.get("line", "")
    return Location(
        file=short(fields["file"]),
        line=int(line) if line.isdigit() else None,
        function=fields.get("function"),
    )
