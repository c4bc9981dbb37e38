"""Nothing hangs: the job is a server, and nobody asks it anything.

One rank stands in the loop of a server, and the others in a broadcast, scatter or receive, where
they take what it hands them. So does every job that serves a model, between two requests; in the
midst of one, what they take stands below another such call in their function.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.job.roles import main_thread
from whyhang.analyzer.queries import Case, Hit, RankState, Signature, Status, WaitKind
from whyhang.analyzer.stacks.kinds import REQUESTS
from whyhang.analyzer.stacks.source_blocks import lines_above
from whyhang.analyzer.stacks.threads import source_lines
from whyhang.analyzer.stacks.usercode import user_frame

_FROM_ONE = {"broadcast", "scatter", "recv"}
"""Operations in which the others only take what one rank gives."""


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit that blames nobody: there is nothing to do."""
    servers = [s for s in case.states if _waits_for_requests(case, s)]
    others = [s for s in case.states if s not in servers]
    takes = all(
        s.status is Status.WAITING and s.place is not None and s.place.op in _FROM_ONE
        for s in others
    )
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
        "{who} is in the loop of a server{at} and {others} in {call}. So a server of several "
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
    """Return whether a rank is in the loop of a server and no thread works on a request."""
    place, dumps = state.place, case.member(state.member).dumps
    if place is None or place.kind is not WaitKind.IDLE or place.op != REQUESTS or not dumps:
        return False
    main = main_thread(dumps[-1])
    return not any(user_frame(t.frames) for t in dumps[-1].threads if t is not main)


def _is_amid_a_request(case: Case, state: RankState) -> bool:
    """Return whether a rank has taken something before, in the function where it waits."""
    path, op = queries.path_of(case, state), state.place.op if state.place is not None else ""
    text = source_lines(case.job.excerpts)
    return bool(path) and any(f"{op}(" in line for line in lines_above(path[-1], text))
