"""A rank waits for a thread or child process of its own, and the log says that an error ended one.

What fills a queue, sets an event or comes to a barrier is a thread of the process. An error ends
it, Python prints the traceback, and the rank waits for ever; so does who waits for a process that
``multiprocessing`` started, or for a pool that starts new ones over and over. A thread that takes
its own error writes a line at best: that counts where the rank waits at a queue and has no other
thread left.
"""

from collections.abc import Callable, Iterator, Sequence

from whyhang.analyzer import queries
from whyhang.analyzer.facts import LogLine, replace
from whyhang.analyzer.queries import CLEAR, INDIRECT, Case, Hit, RankState, Signature, WaitKind
from whyhang.analyzer.queries.waits.lagging import lagging
from whyhang.analyzer.stacks import PROCESS_POOL
from whyhang.analyzer.wording.who_fills import is_left_alone

ENDED = (
    (
        r"\b(?:WARN(?:ING)?|ERROR|CRITICAL)\b.{1,120}\b(?:ends|ended|dies|died|stops|stopped"
        r"|exits|exited|quits?|terminates|terminated|gives up|gave up)\b.{0,20}"
        r"\b(?P<error>[A-Z]\w*(?:Error|Exception))\b"
    ),
)
MOST_SHOWN = 2


_Of = Callable[[Case, LogLine, RankState], bool]
"""Whether a line tells of the end of what a rank waits for."""


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks at one place that wait for a thread which an error ended."""
    raised = [line for line in case.job.lines if line.raised and line.raised.thread is not None]
    threads = [line for line in raised if line.raised and line.raised.process is None]
    children = [line for line in raised if line not in threads]
    hits = _hits(case, threads, _is_of_thread, WaitKind.QUEUE, WaitKind.LOCK)
    if not hits:
        hits = _hits(case, children, _is_of_child, WaitKind.QUEUE, WaitKind.FUTURE)
        hits = hits if len(hits) == 1 else []
    told = case.job.lines_with(ENDED)
    yield from hits or _hits(case, told, lambda c, _, s: is_left_alone(c, s), WaitKind.QUEUE)


def _hits(case: Case, lines: Sequence[LogLine], of: _Of, *kinds: WaitKind) -> list[Hit]:
    """Return the waits for a thread or process whose end these lines tell, each with its own."""
    found = []
    for hit in lagging(
        case, *kinds, only=lambda state: any(of(case, line, state) for line in lines)
    ):
        own = [line for line in lines if any(of(case, line, case.states[n]) for n in hit.members)]
        raised = own[-1].raised
        of_child = raised is not None and raised.process is not None
        error = str(raised) if raised is not None else own[-1].fields.get("error", "an error")
        what = "child process" if of_child else "thread"
        told = CLEAR if raised is not None and not of_child else INDIRECT
        found.append(
            replace(
                hit,
                evidence=(*queries.cite_lines(own[-MOST_SHOWN:]), *hit.evidence),
                fields={**hit.fields, "error": error, "what": what},
                category="missing-rank-in-collective" if of_child else "",
                strength=told * hit.strength,
            )
        )
    return found


def _is_of_thread(case: Case, line: LogLine, state: RankState) -> bool:
    """Return whether a thread ended in the process of a rank, as its label or its source shows."""
    frame = line.raised.frame if line.raised is not None else None
    if line.who.rank is not None:
        return line.who.rank == case.member(state.member).rank
    user = state.user
    return frame is not None and user is not None and frame.file.endswith(user.file)


def _is_of_child(case: Case, line: LogLine, state: RankState) -> bool:
    """Return whether a rank waits for processes of its own: at a pipe, or for a pool's result."""
    place = state.place
    if place is None or line.who.rank not in {None, case.member(state.member).rank}:
        return False
    frame = place.frame
    of_pipe = frame is not None and frame.file.endswith("multiprocessing/connection.py")
    return of_pipe or PROCESS_POOL in {place.op, place.api}


SIGNATURE = Signature(
    id="awaited-thread-ended",
    category="gil-or-lock-deadlock",
    level="program",
    title="{who} is {does}{at}{waiting}; a {what} ended by {error}",
    when=when,
    means=(
        "{who} is {does}{at}. The log has the end of a {what}, by {error}: most likely the one "
        "that it waits for."
    ),
    confidence="certain",
    patterns=ENDED,
    remedies=(
        "Mend what ended it: the log says what did.",
        "Let who fails hand its error on, or abort the barrier, or end the process.",
        "Wait with a timeout, and look then whether the thread or process is alive.",
    ),
    next_steps=("grep -nE -A20 'Exception in thread|^Process ' LOG  # whose, after what?",),
    matches=(
        "WARNING:rollout:env-2 ends: KeyError('timeout')",
        "2026-11-29 11:20:07 ERROR [feeder] reader thread stopped by UnicodeDecodeError",
    ),
    misses=(
        "WARNING:rollout:env-2 ends after 180 steps",
        "WARNING:fetch:try 2 of 5 after ConnectionError('reset')",
    ),
)
