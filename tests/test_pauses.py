"""Others look at the job, too: what their pauses do is no progress, and they are no debugger."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from small_jobs import ALL_REDUCE, ELSEWHERE, dump, process, report_of

from whyhang.analyzer.facts import Fact, replace
from whyhang.analyzer.job.identify import identify
from whyhang.analyzer.rank_state.over_time.motion import Moved, motion
from whyhang.collectors.live import pausing
from whyhang.collectors.live.proc import Proc, Wakes

THREADS = """
import threading, time
for _ in range(3):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
print("up", flush=True)
time.sleep(600)
"""
MAIN = 7


@pytest.mark.parametrize(
    ("woke", "ran", "pauses"),
    [
        ({MAIN: 2, 8: 2, 9: 2, 10: 25}, 90_000, 1),
        ({MAIN: 4, 8: 4, 9: 4, 10: 4}, None, 2),
        ({MAIN: 0, 8: 0, 9: 0}, 0, 0),
        ({MAIN: 2, 8: 0, 9: 0, 10: 25}, 90_000, 0),  # it woke by itself
        ({MAIN: 3, 8: 3, 9: 3}, 90_000, 0),  # a pause is two
        ({MAIN: 2, 8: 2, 9: 2}, 5_000_000, 0),  # it computed
        ({MAIN: 400, 8: 400}, 9_000, 0),  # nobody pauses so often
        ({MAIN: 2}, 90_000, 0),  # nothing to compare with
    ],
)
def test_a_pause_wakes_all_threads_alike(
    woke: dict[int, int], ran: int | None, pauses: int
) -> None:
    """What wakes the main thread alone, or has it compute, is the program's own."""
    since = Wakes(switches=dict.fromkeys(woke, 100), ran=None if ran is None else 0)
    until = Wakes(switches={tid: 100 + times for tid, times in woke.items()}, ran=ran)
    assert pausing.by_others(since, until, MAIN) == pauses


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="pauses are counted in /proc")
def test_a_py_spy_is_counted_and_waited_for() -> None:
    """A process that another py-spy reads is seen to be paused, and met when it is alone."""
    proc = Proc()
    with subprocess.Popen([sys.executable, "-c", THREADS], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(0.1)
        since = proc.wakes(child.pid)
        command = [str(Path(sys.executable).parent / "py-spy"), "dump", "--pid", str(child.pid)]
        reading = threading.Thread(
            target=subprocess.run, args=(command,), kwargs={"stdout": subprocess.DEVNULL}
        )
        reading.start()
        while reading.is_alive():
            pausing.wait_for_others(proc, child.pid, time.monotonic() + 5)
        time.sleep(0.1)
        status = proc.status(child.pid)
        assert status is not None
        assert status.tracer == 0
        assert pausing.by_others(since, proc.wakes(child.pid), child.pid) == 1
        child.kill()


def _job(*, woke: int, pauses: int) -> list[Fact]:
    """Make ranks of which one is elsewhere; the others were woken between the snapshots."""
    facts: list[Fact] = []
    for rank, text in enumerate((ALL_REDUCE, ELSEWHERE, ALL_REDUCE)):
        for look in (0, 1):
            one = process(rank, look=look, environ={"WORLD_SIZE": "3"}, woke=woke * look)
            facts += [replace(one, pauses=pauses * look), dump(rank, text, look=look)]
    return facts


def test_pauses_are_no_progress() -> None:
    """Ranks that were only paused did not go on; those that woke by themselves had an answer."""
    assert report_of(_job(woke=2, pauses=1)).verdict == "hung"
    assert report_of(_job(woke=2, pauses=0)).verdict == "slow"
    member = identify(_job(woke=2, pauses=1)).members[0]
    assert motion(member.dumps, member.processes).moved is Moved.STILL


def test_the_last_of_two_captures_counts() -> None:
    """A bundle and the job itself: what woke the ranks between the two captures is not known."""
    first = _job(woke=0, pauses=0)
    later = [
        replace(fact, taken_at=1100.0 + fact.look, before=counted, after=counted)
        if (counted := getattr(fact, "before", None)) is not None
        and (counted := replace(counted, switches=counted.switches + 40))
        else fact
        for fact in _job(woke=0, pauses=0)
    ]
    assert report_of([*first, *later]).verdict == "hung"
    assert report_of([*later, *first]).verdict == "hung"
    members = identify([*first, *later]).members
    assert [[p.taken_at for p in member.processes] for member in members] == [[1100.0, 1101.0]] * 3
