"""Jobs whose main threads only look on while another thread trains."""

from __future__ import annotations

from small_jobs import dump, frames, process, report_of

from whyhang.analyzer.facts import Fact, Thread, ThreadState, replace

LOOKS_ON = """
main (train.py:50)
<module> (train.py:60)
"""
REDUCES = """
all_reduce (torch/distributed/distributed_c10d.py:3100)
reduce_loop (train.py:12)
run (threading.py:982)
_bootstrap (threading.py:1002)
"""
GETS = """
get (queue.py:171)
reduce_loop (train.py:10)
run (threading.py:982)
_bootstrap (threading.py:1002)
"""


def _job(
    works: dict[int, str], *, main: dict[int, str] | None = None, ticks: int = 0
) -> list[Fact]:
    """Make two looks at ranks that sleep in main() beside a thread that works."""
    facts: list[Fact] = []
    for rank, text in works.items():
        worker = Thread(name="Thread-1", tid=5000 + rank, frames=frames(text))
        for look in (0, 1):
            state = ThreadState(tid=worker.tid or 0, name="t", state="S", cpu_ticks=look * ticks)
            seen = replace(
                process(rank, look=look, woke=look), wchan="hrtimer_nanosleep", threads=(state,)
            )
            whole = dump(rank, (main or {}).get(rank, LOOKS_ON), look=look)
            facts += [seen, replace(whole, threads=(*whole.threads, worker))]
    return facts


def test_ranks_stand_where_their_working_threads_do() -> None:
    """The rank whose thread waits for nobody is late, not the main threads that all sleep."""
    finding = report_of(_job({0: REDUCES, 1: GETS, 2: REDUCES})).findings[0]

    assert finding.category == "missing-rank-in-collective"
    assert finding.culprit_ranks == (1,)
    assert finding.location is not None
    assert finding.location.function == "reduce_loop"


def test_working_threads_that_use_a_cpu_go_on() -> None:
    """Seen twice in the same call, and CPU used in between: calls come and go."""
    report = report_of(_job(dict.fromkeys(range(3), REDUCES), ticks=4))

    assert report.verdict == "healthy"


def test_a_rank_whose_main_thread_is_elsewhere_is_judged_by_it() -> None:
    """Main threads at different places do the work themselves: helpers do not speak for them."""
    own = {1: LOOKS_ON.replace("main (train.py:50)", "download (data.py:9)")}

    findings = report_of(_job(dict.fromkeys(range(3), REDUCES), main=own)).findings

    assert all(f.signature != "stuck-together" for f in findings)
