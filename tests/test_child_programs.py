"""A rank that waits for a program it has started: which one is said, where it is one."""

import pytest
from small_jobs import ALL_REDUCE, case_of, dump, process, report_of

from whyhang.analyzer.commands.left_open import until_a_sleep_ends, with_a_long_step
from whyhang.analyzer.facts import Fact, Process, Role, ThreadState, replace

WAITS = """
wait (subprocess.py:1264)
communicate (subprocess.py:1193)
run (subprocess.py:550)
convert (data.py:12)
train (train.py:38)
<module> (train.py:60)
"""


def _job(*commands: str, state: str = "S") -> list[Fact]:
    """Make two ranks, of which one waits for what it has started."""
    facts: list[Fact] = []
    for look in (0, 1):
        for rank, text in ((0, ALL_REDUCE), (1, WAITS)):
            one = process(rank, look=look, environ={"WORLD_SIZE": "2"})
            facts += [one, dump(rank, text, look=look)]
        facts += [
            replace(
                process(0, look=look, pid=2000 + number, state=state),
                who=replace(process(1).who, rank=None, pid=2000 + number, local_rank=None),
                role=Role.OTHER,
                ppid=1001,
                owner_pid=1001,
                command=command,
            )
            for number, command in enumerate(commands)
        ]
    return facts


def test_the_program_that_a_rank_waits_for_is_named() -> None:
    """By its name and pid, so that one can look at it."""
    headline = report_of(_job("/usr/bin/ffmpeg -i a.mp4 b.wav")).headline
    assert "waiting for a child process (ffmpeg, pid 2000) at convert (data.py:12)" in headline


@pytest.mark.parametrize(
    ("commands", "state"), [((), "S"), (("sleep 9", "sleep 8"), "S"), (("sleep 9",), "Z")]
)
def test_of_none_or_several_none_is_named(commands: tuple[str, ...], state: str) -> None:
    """Which one it waits for is not known, and one that has ended is none."""
    headline = report_of(_job(*commands, state=state)).headline
    assert "waiting for a child process at convert (data.py:12)" in headline


@pytest.mark.parametrize(("looks", "verdict"), [((0,), "slow"), ((0, 1), "hung")])
def test_a_rank_that_waits_for_the_next_program_goes_on(
    looks: tuple[int, ...], verdict: str
) -> None:
    """The program of the first look is gone at the second, and the rank waits for one again."""
    facts = [
        fact
        for fact in _job("ffmpeg -i a.mp4 b.wav")
        if not (isinstance(fact, Process) and fact.role is Role.OTHER and fact.look not in looks)
    ]
    assert report_of(facts).verdict == verdict


@pytest.mark.parametrize(("age", "watched"), [(3.0, [1]), (60.0, [])])
def test_a_program_that_has_just_begun_is_watched(age: float, watched: list[int]) -> None:
    """Each step may start one that sleeps for some seconds; one that is old will not end now."""
    facts = [
        replace(fact, started_at=(fact.taken_at or 0.0) - age)
        if isinstance(fact, Process) and fact.role is Role.OTHER
        else fact
        for fact in _job("sleep 5")
    ]
    assert until_a_sleep_ends(case_of(facts)) == watched


@pytest.mark.parametrize(("woke", "verdict"), [(2, "slow"), (0, "hung")])
def test_programs_too_short_to_be_seen_wake_their_rank_up(woke: int, verdict: str) -> None:
    """No look meets any of them."""
    facts: list[Fact] = []
    for look in (0, 1):
        facts += [process(0, look=look), dump(0, ALL_REDUCE, look=look)]
        facts += [process(1, look=look, woke=woke * look), dump(1, WAITS, look=look)]
    assert report_of(facts).verdict == verdict


def test_a_program_that_computes_is_at_work() -> None:
    """It comes to its end, so nothing more is asked: its rank goes on."""
    facts = [
        replace(fact, threads=(thread(fact.look),), asleep_for=1.0)
        if isinstance(fact, Process) and fact.role is Role.OTHER
        else fact
        for fact in _job("ffmpeg -i a.mp4 b.wav")
    ]
    assert not with_a_long_step(case_of(facts))
    assert report_of(facts).verdict == "slow"
    assert report_of(_job("ffmpeg -i a.mp4 b.wav")).verdict == "hung"


def thread(look: int) -> ThreadState:
    """Make the main thread of the program, which uses a CPU from one look to the next."""
    return ThreadState(tid=2000, name="ffmpeg", state="R", cpu_ticks=90 * look)
