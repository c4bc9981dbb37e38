"""Launchers and helpers that are stopped, ranks that die, and jobs that serve requests."""

from __future__ import annotations

import pytest
from small_jobs import ALL_REDUCE, BARRIER, BROADCAST, INIT, LOADER, dump, process, report_of, still

from whyhang.analyzer.facts import Excerpt, Fact, Role, StackDump, Trust, Who, replace

SERVER = """
select (selectors.py:415)
serve_forever (socketserver.py:233)
main (train.py:12)
<module> (train.py:60)
"""


def launcher(state: str) -> list[Fact]:
    """Make two looks at torchrun's agent in this state."""
    agent = Who(pid=900, trust=Trust.NONE)
    return [
        replace(
            process(0, state=state, look=look), who=agent, role=Role.LAUNCHER, command="torchrun"
        )
        for look in (0, 1)
    ]


def test_ranks_that_ended_below_a_stopped_launcher_are_not_to_blame() -> None:
    """Nobody collects them; who let the launcher stop is the question."""
    dead = [process(rank, state="Z", environ={"WORLD_SIZE": "2"}) for rank in range(2)]
    report = report_of([*dead, *launcher("T")])
    first = report.findings[0]
    assert (first.signature, first.category) == ("launcher-stopped", "rank-stopped")
    assert first.culprit_ranks is None
    assert report.headline == (
        "The launcher (pid 900) is stopped by a signal; ranks 0-1 have ended and are not collected."
    )
    assert report_of([*dead, *launcher("S")]).findings[0].signature == "rank-died"


def test_a_stopped_launcher_keeps_the_store_from_answering() -> None:
    """Ranks that start ask the store in it; ranks in a collective need no launcher."""
    start = report_of([*still({0: INIT, 1: INIT}), *launcher("T")])
    assert start.findings[0].signature == "launcher-stopped"
    train = report_of([*still({0: ALL_REDUCE, 1: ALL_REDUCE}), *launcher("T")])
    assert "launcher-stopped" not in {f.signature for f in train.findings}


def test_a_rank_that_died_alone_is_the_cause_below_a_stopped_launcher() -> None:
    """The launcher would only have ended the others."""
    facts = [*still({0: ALL_REDUCE, 1: ALL_REDUCE}, world=3), process(2, state="Z")]
    first = report_of([*facts, *launcher("T")]).findings[0]
    assert (first.signature, first.culprit_ranks) == ("rank-died", (2,))


@pytest.mark.parametrize(("others", "verdict"), [(BROADCAST, "healthy"), (ALL_REDUCE, "hung")])
def test_a_server_without_a_request_is_healthy(others: str, verdict: str) -> None:
    """The others wait for what it hands them; in an all_reduce they would wait for it in vain."""
    report = report_of(still({0: SERVER, 1: others, 2: others}))
    assert report.verdict == verdict
    assert report.findings[0].culprit_ranks == (None if verdict == "healthy" else (0,))


FOLLOW = ("def follow(self):", "    dist.broadcast(head, src=0)", "    dist.broadcast(ids, src=0)")


@pytest.mark.parametrize(("line", "verdict"), [(31, "healthy"), (32, "hung")])
def test_a_server_that_others_wait_for_amid_a_request(line: int, verdict: str) -> None:
    """In the second broadcast of one function they wait for the rest of what came in the first."""
    follows = f"broadcast (torch/distributed/distributed_c10d.py:2841)\nfollow (train.py:{line})"
    source = Excerpt(file="train.py", first_line=30, lines=FOLLOW)

    assert report_of([*still({0: SERVER, 1: follows}), source]).verdict == verdict


FRONT = (
    "def front(self):",
    "    while True:",
    "        request = self.requests.get()",
    "        dist.broadcast(request, src=0)",
)
TAKES = "get (queue.py:171)\nfront (serve.py:32)\n<module> (serve.py:60)"
LISTENS = """
select (selectors.py:415)
serve_forever (socketserver.py:232)
listen (serve.py:12)
run (threading.py:982)
"""


@pytest.mark.parametrize(
    ("loop", "thread", "verdict"),
    [
        ("    while True:", LISTENS, "healthy"),
        ("    for step in range(steps):", LISTENS, "hung"),
        ("    while True:", LISTENS.replace("listen (serve.py:12)\n", ""), "hung"),
        ("    while True:", "do_POST (serve.py:20)" + LISTENS, "hung"),
    ],
)
def test_a_server_on_a_thread_of_its_own_hands_requests_through_a_queue(
    loop: str, thread: str, verdict: str
) -> None:
    """Who takes them in a loop without an end waits for nothing else.

    A server that the program's own code did not start may be one of a library, beside training.
    """
    facts = still({0: TAKES, 1: BROADCAST, 2: BROADCAST})
    beside = replace(dump(0, thread).threads[0], name="Thread-1", tid=7)
    facts = [
        replace(f, threads=(*f.threads, beside))
        if isinstance(f, StackDump) and f.who.rank == 0
        else f
        for f in facts
    ]
    lines = (FRONT[0], loop, *FRONT[2:])
    report = report_of([*facts, Excerpt(file="serve.py", first_line=30, lines=lines)])

    assert report.verdict == verdict
    assert verdict == "hung" or len(report.findings) == 1


@pytest.mark.parametrize(
    ("starts", "verdict"),
    [
        ("    threading.Thread(target=server.serve_forever, daemon=True).start()", "healthy"),
        ("    prometheus_client.start_http_server(9090)", "hung"),
    ],
)
def test_a_server_whose_loop_is_all_that_its_thread_runs(starts: str, verdict: str) -> None:
    """Only the source tells that the program has started it, and not a library of it."""
    facts = still({0: TAKES.replace(":60", ":44"), 1: BROADCAST, 2: BROADCAST})
    loop = LISTENS.replace("listen (serve.py:12)\n", "")
    beside = replace(dump(0, loop).threads[0], name="Thread-1", tid=7)
    facts = [
        replace(f, threads=(*f.threads, beside))
        if isinstance(f, StackDump) and f.who.rank == 0
        else f
        for f in facts
    ]
    lines = (*FRONT, *[""] * 6, "if __name__ == '__main__':", "", "", starts, "    front()")
    report = report_of([*facts, Excerpt(file="serve.py", first_line=30, lines=lines)])

    assert report.verdict == verdict


def test_a_server_at_work_for_a_request_is_not_idle() -> None:
    """A request that is being answered on another thread may be what hangs."""
    facts = still({0: SERVER, 1: BROADCAST, 2: BROADCAST})
    handler = dump(0, "acquire (cache.py:3)\ndo_POST (serve.py:9)", look=1).threads[0]
    busy = dump(0, SERVER, look=1)
    busy = replace(busy, threads=(*busy.threads, replace(handler, name="Thread-1", tid=7)))
    kept = [f for f in facts if not (f.who.rank == 0 and f.look == 1 and hasattr(f, "threads"))]
    report = report_of([*kept, *(p for p in facts if p not in kept and hasattr(p, "state")), busy])
    assert "idle-server" not in {finding.signature for finding in report.findings}


WAITPID = """
_try_wait (subprocess.py:1900)
_wait (subprocess.py:1960)
wait (subprocess.py:1264)
convert (train.py:6)
<module> (train.py:60)
"""


@pytest.mark.parametrize("state", ["T", "S"])
def test_a_process_that_a_rank_waits_for_is_looked_at(state: str) -> None:
    """One that is stopped is what holds the rank up; one that runs tells nothing."""
    helper = Who(pid=4000, trust=Trust.NONE)
    child = replace(
        process(1, state=state, look=1), who=helper, role=Role.OTHER, ppid=1001, command="sleep 5"
    )
    first = report_of([*still({0: ALL_REDUCE, 1: WAITPID}), child]).findings[0]
    assert first.culprit_ranks == (1,)
    assert (first.signature == "helper-stopped") is (state == "T")
    if state == "T":
        assert first.title == (
            "Rank 1 waits for process 4000, which is stopped by a signal at convert (train.py:6) "
            "while rank 0 waits in all_reduce"
        )


KEY = """
synchronize (torch/distributed/elastic/utils/store.py:60)
wait_for_key (train.py:11)
<module> (train.py:60)
"""


def test_a_rank_that_dies_while_it_is_watched() -> None:
    """What the others did before it died is no progress of now; one look after it is too few."""
    environ = {"WORLD_SIZE": "2"}
    facts: list[Fact] = [
        dump(0, INIT, look=0),
        *(dump(0, ALL_REDUCE, look=look) for look in (1, 2)),
        *(process(0, look=look, environ=environ) for look in (0, 1, 2)),
        *(process(1, look=look, state="Z" if look else "R", environ=environ) for look in (0, 1, 2)),
    ]
    first = report_of(facts).findings[0]
    assert (first.signature, first.culprit_ranks) == ("rank-died", (1,))
    early = [fact for fact in facts if getattr(fact, "look", 0) < 2]
    assert report_of(early).verdict == "healthy"


def test_a_key_that_nobody_sets_may_be_that_of_a_rank_that_died() -> None:
    """The dead rank is named, and not the key alone."""
    facts = [*still({0: KEY, 1: KEY}, world=3), process(2, state="Z")]
    first = report_of(facts).findings[0]
    assert (first.signature, first.culprit_ranks) == ("rank-died", (2,))


@pytest.mark.parametrize(
    ("woke", "late", "verdict"),
    [(0, BARRIER, "hung"), (1, BARRIER, "healthy"), (0, LOADER, "healthy")],
)
def test_a_job_that_comes_to_a_stand_while_it_is_watched(
    woke: int, late: str, verdict: str
) -> None:
    """Three looks at which no rank ran and all wait for each other outweigh what was before.

    Not where one ran in between, nor where one waits for something else, that may come.
    """
    facts: list[Fact] = []
    for rank, stack in ((0, ALL_REDUCE), (1, late)):
        for look in range(5):
            ran = min(look, 2) + (woke if look == 4 else 0)
            facts += [
                process(rank, look=look, environ={"WORLD_SIZE": "2"}, woke=ran),
                dump(rank, INIT if look < 2 else stack, look=look),
            ]
    assert report_of(facts).verdict == verdict
