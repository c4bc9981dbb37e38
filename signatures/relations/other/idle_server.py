"""Nothing hangs: the job is a server, and nobody asks it anything.

One rank stands in the loop of a server, and the others in a broadcast, scatter or receive, where
they take what it hands them. So does every job that serves a model, between two requests; in the
midst of one, what they take stands below another such call in their function. Often the server has
a thread of its own, and the rank waits for what that puts into a queue.
"""

import re
from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import Frame, Thread
from whyhang.analyzer.facts.stacks import main_thread
from whyhang.analyzer.queries import Case, Hit, RankState, Signature, Status, WaitKind
from whyhang.analyzer.stacks.kinds import REQUESTS, last_name
from whyhang.analyzer.stacks.source_blocks import heads, lines_above
from whyhang.analyzer.stacks.usercode import user_frame

_FROM_ONE = {"broadcast", "scatter", "recv"}
"""Operations in which the others only take what one rank gives."""

_LOOPS = (("serve_forever", "socketserver.py"), ("run_forever", "asyncio/base_events.py"))
_TARGET = re.compile(rf"\.({'|'.join(name for name, _ in _LOOPS)})\b(?!\()")
"""The loop of a server, handed over to be called."""

_FOR_EVER = re.compile(r"\s*while (?:True|1)\b")


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit that blames nobody: there is nothing to do."""
    servers = [s for s in case.states if _waits_for_requests(case, s)]
    others = [s for s in case.states if s not in servers]
    takes = all(s.status is Status.WAITING and s.op in _FROM_ONE for s in others)
    if len(servers) != 1 or not others or not takes or case.graph.progress:
        return
    if any(_is_amid_a_request(case, state) for state in others):
        return
    waiting = queries.waiters_for(case)
    yield Hit(
        affected=waiting,
        names_culprit=False,
        evidence=tuple(queries.places_of(case, servers[0].member, others[0].member)),
        fields=queries.subject_fields(case, servers, waiting),
    )


SIGNATURE = Signature(
    id="idle-server",
    category="healthy",
    level="wait",
    title="{who} waits for requests, and {others} for what it hands them: nothing to do",
    when=when,
    means=(
        "{who} takes requests{at}, and {others} stands in {call}. So a server of several "
        "ranks stands between two requests."
    ),
    confidence="likely",
    remedies=(
        "Nothing to do, if the job is to serve requests.",
        "If it is to train, start the server on a thread of its own: its loop does not return.",
    ),
    next_steps=("ss -tlnp | grep pid={pid}  # where does it listen? then send it a request",),
    # workers without a request wait so
    explains=("missing-rank-in-collective",),
)


def _waits_for_requests(case: Case, state: RankState) -> bool:
    """Return whether a rank is in the loop of a server and no thread works on a request.

    Or in one of its own, in which it takes what a thread in the loop of a server puts in a queue.
    """
    place, dumps = state.place, case.member(state.member).dumps
    if place is None or not dumps:
        return False
    main = main_thread(dumps[-1])
    others = [thread for thread in dumps[-1].threads if thread is not main]
    started = _starts_a_server(case, state)
    servers = [thread for thread in others if _serves(thread, started=started)]
    if any(user_frame(t.frames) and t not in servers for t in others):
        return False
    if place.kind is WaitKind.IDLE and place.op == REQUESTS:
        return True
    return bool(servers) and place.kind is WaitKind.QUEUE and _goes_on_for_ever(case, state)


def _starts_a_server(case: Case, state: RankState) -> bool:
    """Return whether a function that a rank is in gives a thread the loop of a server to run."""
    text = case.text
    above = (line for frame in queries.path_of(case, state) for line in lines_above(frame, text))
    return any(_TARGET.search(line) for line in above)


def _serves(thread: Thread, *, started: bool) -> bool:
    """Return whether a thread that the program started waits in the loop of a server.

    A thread of nothing but this loop may be one of a library, unless the program has ``started``
    such a one itself.
    """
    loop = next((n for n, f in enumerate(thread.frames) if _is_server_loop(f)), None)
    if loop is None or user_frame(thread.frames[:loop]) is not None:
        return False
    return started or user_frame(thread.frames[loop:]) is not None


def _is_server_loop(frame: Frame) -> bool:
    return any(last_name(frame) == name and frame.file.endswith(file) for name, file in _LOOPS)


def _goes_on_for_ever(case: Case, state: RankState) -> bool:
    """Return whether a rank stands in a loop of its own that nothing ends: it takes requests."""
    path = queries.path_of(case, state)
    heads_of_it = heads(path[-1], case.text) if path else ()
    return any(_FOR_EVER.match(case.text(head) or "") for head in heads_of_it)


def _is_amid_a_request(case: Case, state: RankState) -> bool:
    """Return whether a rank has taken something before, in the function where it waits."""
    path = queries.path_of(case, state)
    return bool(path) and any(f"{state.op}(" in line for line in lines_above(path[-1], case.text))
