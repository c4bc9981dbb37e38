"""Whether a job goes on: ranks that compute between waits, and waits that only look again."""

from __future__ import annotations

import pytest
from small_jobs import ALL_REDUCE, case_of, dump, process, report_of, still

from whyhang.analyzer.commands.left_open import in_different_steps
from whyhang.analyzer.facts import Fact, Frame, LoopCounter, Process, Source, Who, replace
from whyhang.analyzer.rank_state.state import Status

BACKWARD = """
_engine_run_backward (torch/autograd/graph.py:979)
backward (torch/autograd/__init__.py:395)
train (train.py:41)
<module> (train.py:60)
"""


def _busy(
    rank: int, text: str, *, state: str, wchan: str | None, ticks: int = 60, sleeps: int = 90
) -> list[Fact]:
    """Look twice at a rank that used the CPU and went to sleep so often in between."""
    facts: list[Fact] = []
    for look in (0, 1):
        seen: Process = process(
            rank, look=look, state=state, ticks=ticks * look, woke=sleeps * look
        )
        facts += [replace(seen, wchan=wchan), dump(rank, text, look=look)]
    return facts


def test_a_rank_that_computes_between_two_waits_goes_on() -> None:
    """Asleep in gloo's wait at both looks, with CPU used and many sleeps: it had answers."""
    facts = [f for r in range(3) for f in _busy(r, ALL_REDUCE, state="S", wchan="futex_wait_queue")]

    assert report_of(facts).verdict == "healthy"


@pytest.mark.parametrize(
    ("state", "wchan", "sleeps"),
    [("R", None, 0), ("R", None, 90), ("S", "futex_wait_queue", 0), ("S", "hrtimer_nanosleep", 90)],
)
def test_a_wait_that_spins_or_naps_had_no_answer(
    state: str, wchan: str | None, sleeps: int
) -> None:
    """CPU use alone, or naps between two tries, are no progress."""
    facts = [
        f for r in range(3) for f in _busy(r, ALL_REDUCE, state=state, wchan=wchan, sleeps=sleeps)
    ]

    assert not case_of(facts).graph.progress


def test_naps_with_little_cpu_are_no_answer_either() -> None:
    """A wait that looks again every millisecond wakes up all the time, and uses next to no CPU."""
    facts = [
        f
        for r in range(3)
        for f in _busy(r, ALL_REDUCE, state="S", wchan="hrtimer_nanosleep", ticks=3, sleeps=900)
    ]

    assert report_of(facts).verdict != "healthy"


IN_C = """
sync (train.py:10)
step (train.py:8)
<module> (train.py:60)
"""
NAPPING = "<module> (train.py:{})"


def _in_mpi(rank: int, look: int) -> Fact:
    """Return the native stack of a rank that calls MPI_Barrier through ctypes."""
    plain = dump(rank, IN_C, look=look)
    native = tuple(
        Frame(function=name, file="/usr/lib/libmpi.so.40", native=True)
        for name in ("sched_yield", "ompi_request_default_wait", "PMPI_Barrier")
    )
    inner = replace(plain.threads[0], frames=(*native, *plain.threads[0].frames))
    return replace(plain, threads=(inner,))


@pytest.mark.parametrize("native_at", [0, 1, 2])
@pytest.mark.parametrize("line", [10, 11])
def test_a_wait_that_one_native_stack_shows_is_no_step_towards_it(
    native_at: int, line: int
) -> None:
    """Its Python stack at the other looks leaves open what it does there, on a line beside, too."""
    facts: list[Fact] = []
    for look in range(3):
        here = IN_C.replace("py:10", f"py:{line}") if look != native_at else IN_C
        for rank in (0, 2):
            spins = process(rank, look=look, state="R", ticks=90 * look, woke=0)
            facts += [replace(spins, wchan=None), dump(rank, here, look=look)]
        nap = process(1, look=look, state="S", ticks=look, woke=30 * look)
        facts += [replace(nap, wchan="hrtimer_nanosleep")]
        facts += [dump(1, NAPPING.format(19 + look % 2), look=look)]
    facts += [_in_mpi(rank, native_at) for rank in (0, 2)]
    report = report_of(facts)

    assert report.verdict != "healthy"
    if line == 10:
        assert report.verdict == "hung", report.headline
        assert report.findings[0].category == "mpi-missing-rank"
        assert report.findings[0].culprit_ranks == (1,)


def test_a_backward_that_computes_waits_for_nobody() -> None:
    """Its native stack shows no wait and it uses a CPU: it is no side of a mismatch."""
    facts = _busy(0, ALL_REDUCE, state="S", wchan="futex_wait_queue", ticks=0, sleeps=0)
    facts += _busy(1, BACKWARD, state="R", wchan=None)
    last = dump(1, BACKWARD, look=1)
    kernel = Frame(function="at::native::addmm", file="libtorch_cpu.so", native=True)
    facts.append(
        replace(last, threads=(replace(last.threads[0], frames=(kernel, *last.threads[0].frames)),))
    )
    case = case_of(facts)

    assert case.states[1].status is Status.RUNNING
    assert all(f.category != "collective-mismatch" for f in report_of(facts).findings)


SAVING = """
save (checkpoint.py:5)
train (train.py:44)
<module> (train.py:60)
"""


def _saving(path: str, step: int, *, reads: bool = False) -> list[Fact]:
    facts = still({0: SAVING, 1: ALL_REDUCE, 2: ALL_REDUCE})
    only_read = (path,) if reads else ()
    return [
        replace(f, positions={path: 1_000_000 + f.look * step}, only_read=only_read)
        if isinstance(f, Process) and f.who.rank == 0
        else f
        for f in facts
    ]


def test_a_rank_that_goes_on_in_a_file_is_slow() -> None:
    """A checkpoint that is still being written holds the others up, and is no hang."""
    report = report_of(_saving("/data/step7.pt", 800_000))

    assert report.verdict == "slow"
    assert report.findings[0].culprit_ranks == (0,)
    assert "0.8 MB further in /data/step7.pt" in report.headline


@pytest.mark.parametrize(("path", "step"), [("/data/step7.pt", 4096), ("/run/train.log", 800_000)])
def test_a_few_lines_or_a_log_are_no_progress(path: str, step: int) -> None:
    """A loop that tries for ever writes as well: little, or to its log."""
    assert report_of(_saving(path, step)).verdict == "hung"


def test_who_reads_a_text_goes_on() -> None:
    """It comes to its end, as who writes one need not."""
    assert report_of(_saving("/data/run3.txt", 800_000, reads=True)).verdict == "slow"


@pytest.mark.parametrize(
    ("innermost", "goes_on"), [("pthread_cond_wait", True), ("sched_yield", False)]
)
def test_who_computed_and_sleeps_now_has_come_since(innermost: str, *, goes_on: bool) -> None:
    """On the CPU at both looks, asleep in the native stack after them: it came there since."""
    facts: list[Fact] = []
    for rank in range(2):
        facts += _busy(rank, BACKWARD, state="R", wchan=None, sleeps=0)
        last = dump(rank, BACKWARD, look=1)
        names = (innermost, "std::condition_variable::wait", "c10d::Reducer::finalize_backward")
        native = tuple(Frame(function=name, file="libx.so", native=True) for name in names)
        inner = replace(last.threads[0], frames=(*native, *last.threads[0].frames))
        facts.append(replace(last, threads=(inner,)))

    assert (case_of(facts).graph.progress is True) is goes_on


@pytest.mark.parametrize(("readings", "asked"), [(1, [0, 1, 2]), (2, [])])
def test_steps_that_differ_are_read_again_before_anybody_is_blamed(
    readings: int, asked: list[int]
) -> None:
    """They are not read in one moment: a job on a bad network may be caught between two steps."""
    facts = still({0: ALL_REDUCE, 1: ALL_REDUCE, 2: ALL_REDUCE})
    for _ in range(readings):
        facts += [
            LoopCounter(
                name="step", value=32 + (rank > 0), function="train", file="train.py",
                who=Who(rank=rank, pid=1000 + rank), source=Source(file="claims.json"),
            )
            for rank in range(3)
        ]  # fmt: skip
    assert in_different_steps(case_of(facts)) == asked
