"""A rank at work while others wait for it: a slow one is told from one that runs without end."""

from __future__ import annotations

import pytest
from small_jobs import ALL_REDUCE, LOADER, WORKER, case_of, dump, native, process, report_of

from whyhang.analyzer.commands.left_open import (
    awaiting_a_worker_at_work,
    between_steps,
    in_an_endless_step,
    with_a_long_step,
    with_uncounted_steps,
)
from whyhang.analyzer.facts import (
    Excerpt,
    Fact,
    LoopCounter,
    Process,
    Role,
    Source,
    StackDump,
    ThreadState,
    Trust,
    Variables,
    Who,
    replace,
)

CALLER = "train (train.py:40)\n<module> (train.py:60)\n"
STARTED = 0.0
NOW = 1002.0


def _job(
    *functions: str, slept: float, steps: int | None = None, silent: float | None = None
) -> list[Fact]:
    """Look twice at three ranks: two wait in all_reduce, rank 2 is in one function after another.

    The two had slept so long before the first look and done so many steps before.
    """
    facts: list[Fact] = []
    for look, function in enumerate(functions):
        for rank in (0, 1):
            seen = process(rank, look=look, switches=5000)
            facts += [
                replace(seen, asleep_for=slept if look == 0 else 0.9, started_at=STARTED),
                dump(rank, ALL_REDUCE, look=look),
            ]
        seen = process(2, look=look, state="R", ticks=95 * look)
        facts += [
            replace(seen, started_at=STARTED, silent_for=silent),
            dump(2, f"{function}\nsettle (train.py:{20 + look})\n{CALLER}", look=look),
        ]
    if steps is not None:
        for rank in (0, 1):
            facts.append(_counter(rank, "step", steps))
    return facts


def _counter(rank: int, name: str, value: int) -> LoopCounter:
    return LoopCounter(
        name=name,
        value=value,
        function="train",
        file="train.py",
        who=Who(rank=rank, trust=Trust.CONTENT),
        source=Source(file="claims.json"),
    )


CHILD = f"_wait (subprocess.py:1960)\nrun (subprocess.py:550)\nscore (train.py:6)\n{CALLER}"
KEY = f"c10d::TCPStore::doWait (libtorch_cpu.so:0)\nrefresh (train.py:9)\n{CALLER}"
TWO = ("merge (train.py:9)", "split (train.py:14)")


def test_a_step_much_longer_than_those_before_has_no_end() -> None:
    """Another function at each look is no progress while nobody gets an answer for a minute."""
    report = report_of(_job(*TWO, slept=60, steps=500))
    first = report.findings[0]

    assert (report.verdict, first.signature, first.culprit_ranks) == ("hung", "rank-spinning", (2,))
    assert first.location is not None
    assert (first.location.function, first.location.line) == ("settle", 21)
    assert "lasted 61 s or more; the 500 before took 1.9 s at most" in first.explanation


@pytest.mark.parametrize("functions", [TWO, ("merge (train.py:9)", "merge (train.py:10)")])
def test_a_step_as_long_as_those_before_is_slow(functions: tuple[str, str]) -> None:
    """Steps of 20 s on average, and 18 s into this one: it moves, in whichever function."""
    report = report_of(_job(*functions, slept=17, steps=50))

    assert (report.verdict, report.findings[0].signature) == ("slow", "slow-not-hung")
    assert report.findings[0].culprit_ranks == (2,)


def test_without_a_count_of_steps_only_a_long_wait_decides() -> None:
    """Of steps that nobody counted, ten seconds tell nothing and two minutes do."""
    assert report_of(_job(*TWO, slept=10)).verdict == "slow"
    assert report_of(_job(*TWO, slept=120)).findings[0].signature == "rank-spinning"


def test_a_rank_that_prints_meanwhile_goes_on() -> None:
    """An evaluation on one rank takes its time, and says so."""
    assert report_of(_job(*TWO, slept=120, steps=500, silent=2.0)).verdict == "slow"
    assert report_of(_job(*TWO, slept=120, steps=500, silent=119.0)).verdict == "hung"
    in_place = ("merge (train.py:9)", "merge (train.py:9)")
    assert report_of(_job(*in_place, slept=120, steps=500, silent=2.0)).verdict == "slow"
    assert report_of(_job(*in_place, slept=120, steps=500, silent=119.0)).verdict == "hung"


def test_a_counter_that_did_not_begin_at_zero_counts_no_steps() -> None:
    """A job resumed at step 100000 has not done so many: it slept less often than that."""
    report = report_of(_job(*TWO, slept=17, steps=100_000))

    assert report.verdict == "slow"


def test_more_is_asked_as_long_as_the_step_may_end() -> None:
    """First the steps are counted, then watched until it is clear, and no longer."""
    unclear = case_of(_job(*TWO, slept=10))
    counted = case_of(_job(*TWO, slept=10, steps=100))
    decided = case_of(_job(*TWO, slept=60, steps=500))
    hopeless = case_of(_job(*TWO, slept=30, steps=10))

    assert list(with_uncounted_steps(unclear)) == [0, 1]
    assert not with_uncounted_steps(counted)
    assert list(with_a_long_step(counted)) == [0, 1]
    assert not with_a_long_step(decided)
    assert not with_a_long_step(hopeless)


def test_a_wait_that_spins_had_an_answer_where_its_variables_changed() -> None:
    """MPI's ranks spin while they wait; what their program has in its variables tells of steps."""
    facts = _job(*TWO, slept=120, steps=500)
    for checksum in (17, 18):
        about = _counter(0, "step", 1)
        facts.append(Variables(checksum=checksum, who=about.who, source=about.source))

    assert report_of(facts).verdict == "slow"


def _with_source(facts: list[Fact], head: str, *, changing: bool = False) -> list[Fact]:
    """Add the source of the loop that rank 2 is in, and whether its variables change."""
    lines = ("def settle(items):", f"    {head}", "        a = merge(a)", "        b = split(a)")
    facts = [*facts, Excerpt(file="train.py", first_line=18, lines=lines)]
    about = _counter(2, "step", 1)
    for checksum in (17, 18 if changing else 17):
        facts.append(Variables(checksum=checksum, who=about.who, source=about.source))
    return facts


@pytest.mark.parametrize(
    "head",
    [
        "for i in range(len(items)):",
        "for a, b in zip(items, items[1:]):",
        "for _ in d.items():",
        "while time.monotonic() < end:",
        "while left and time.time() - begun < limit:",
        "while deadline > perf_counter():",
    ],
)
def test_a_loop_that_is_bounded_comes_to_its_end(head: str) -> None:
    """A long evaluation prints nothing for minutes: it is slow, until collectives give up."""
    report = report_of(_with_source(_job(*TWO, slept=300, steps=500), head))
    too_long = report_of(_with_source(_job(*TWO, slept=2000, steps=500), head))

    assert (report.verdict, report.findings[0].culprit_ranks) == ("slow", (2,))
    assert too_long.findings[0].signature == "rank-spinning"


@pytest.mark.parametrize(
    "head",
    [
        "while rough(items):",
        "while time.time() < end or rough(items):",
        "while time.time() > end:",
        "for item in itertools.count():",
        "for item in stream:",
        "for item in documents(seed):",
        "if items:",
    ],
)
def test_a_loop_that_may_have_no_end_is_not_waited_for(head: str) -> None:
    """A condition that never comes true, a stream without end, or no loop that is seen."""
    report = report_of(_with_source(_job(*TWO, slept=300, steps=500), head))

    assert report.findings[0].signature == "rank-spinning"


def test_who_stands_at_the_head_of_a_loop_is_in_it() -> None:
    """One look meets the condition itself, another the body: the loop around both may not end."""
    lines = (
        "def settle(items):",
        "    for _ in range(40):",
        "        while rough(items):",
        "            a = merge(a)",
    )
    source = Excerpt(file="train.py", first_line=18, lines=lines)

    report = report_of([*_job(*TWO, slept=300, steps=500), source])

    assert report.findings[0].signature == "rank-spinning"


@pytest.mark.parametrize(("changing", "verdict"), [(True, "slow"), (False, "hung")])
def test_at_one_line_the_variables_tell_whether_a_loop_goes_round(
    changing: bool, verdict: str
) -> None:
    """A body of one line is seen at one place; a call in it that never comes back is as well."""
    facts = _with_source(_at_one_line(), "for item in items:", changing=changing)

    assert report_of(facts).verdict == verdict
    assert in_an_endless_step(case_of(facts)) == ([] if changing else [2])


def _at_one_line() -> list[Fact]:
    facts = _job(*TWO, slept=300, steps=500)
    stack = f"settle (train.py:20)\n{CALLER}"
    dumps = [dump(2, stack, look=look) for look in (0, 1)]
    others = [f for f in facts if not (isinstance(f, StackDump) and f.who.rank == 2)]
    return [*others, *dumps]


@pytest.mark.parametrize(
    ("slept", "batches", "verdict"), [(17, 1, "slow"), (120, 1, "hung"), (120, 2, "slow")]
)
def test_the_step_of_a_rank_is_as_long_as_its_worker_needs(
    slept: float, batches: int, verdict: str
) -> None:
    """A rank waits for its DataLoader, whose worker computes: for 18 s of 20, or for minutes.

    Its variables change where batches come meanwhile.
    """
    facts = [f for f in _job(*TWO, slept=slept, steps=50) if f.who.rank != 2]
    for look in (0, 1):
        facts += [replace(process(2, look=look), started_at=STARTED), dump(2, LOADER, look=look)]
        seen = process(2, pid=4000, look=look, state="R", ticks=95 * look)
        worker = replace(seen, role=Role.DATALOADER_WORKER, ppid=1002, who=Who(pid=4000))
        facts += [worker, dump(None, WORKER, pid=4000, look=look)]
        seen_batch = Variables(
            checksum=look % batches, who=Who(pid=1002), source=Source(file="claims.json")
        )
        facts.append(seen_batch)
    open_still = awaiting_a_worker_at_work(case_of(facts))
    assert open_still == ([2] if verdict == "hung" else [])

    report = report_of(facts)

    assert (report.verdict, report.findings[0].culprit_ranks) == (verdict, (2,))


@pytest.mark.parametrize(
    ("slept", "ticks", "verdict"), [(120, 95, "slow"), (3000, 95, "hung"), (120, 0, "hung")]
)
def test_a_program_that_computes_for_a_rank_comes_to_its_end(
    slept: float, ticks: int, verdict: str
) -> None:
    """An evaluation in a process of its own is no part of other steps; one that sleeps may hang."""
    facts = [f for f in _job(*TWO, slept=slept, steps=500) if f.who.rank != 2]
    for look in (0, 1):
        facts += [replace(process(2, look=look), started_at=STARTED), dump(2, CHILD, look=look)]
        seen = process(2, pid=4000, look=look, state="R", ticks=ticks * look)
        main = ThreadState(tid=4000, name="python", state="R", cpu_ticks=ticks * look)
        child = replace(seen, role=Role.OTHER, ppid=1002, who=Who(pid=4000), threads=(main,))
        facts.append(child)

    report = report_of(facts)

    assert (report.verdict, report.findings[0].culprit_ranks) == (verdict, (2,))


def test_a_program_computes_while_others_wait_for_a_key_of_the_store() -> None:
    """They wait for the rank that waits for it, as in a collective: it sets the key after that."""
    facts = [f for f in _job(*TWO, slept=120, steps=500) if isinstance(f, Process | LoopCounter)]
    facts = [f for f in facts if f.who.rank != 2]
    for look in (0, 1):
        facts += native(dump(rank, KEY, look=look) for rank in (0, 1))
        facts += [replace(process(2, look=look), started_at=STARTED), dump(2, CHILD, look=look)]
        main = ThreadState(tid=4000, name="python", state="R", cpu_ticks=95 * look)
        seen = process(2, pid=4000, look=look, state="R", ticks=95 * look)
        facts.append(replace(seen, role=Role.OTHER, ppid=1002, who=Who(pid=4000), threads=(main,)))

    report = report_of(facts)
    still = report_of([f for f in facts if f.who.pid != 4000])

    assert (report.verdict, report.findings[0].culprit_ranks) == ("slow", (2,))
    assert (still.verdict, still.findings[0].category) == ("hung", "store-key-never-set")


@pytest.mark.parametrize(("checksums", "verdict"), [((17, 17), "hung"), ((17, 18), "healthy")])
def test_where_all_wait_for_their_workers_the_variables_tell_of_batches(
    checksums: tuple[int, int], verdict: str
) -> None:
    """Steps of seconds look alike at every look: more is asked before it is called a hang."""
    facts: list[Fact] = []
    for look, checksum in enumerate(checksums):
        for rank in (0, 1):
            facts += [process(rank, look=look), dump(rank, LOADER, look=look)]
            seen = process(rank, pid=4000 + rank, look=look, state="R", ticks=95 * look)
            worker = replace(seen, role=Role.DATALOADER_WORKER, ppid=1000 + rank)
            facts += [replace(worker, who=Who(pid=4000 + rank))]
            facts += [dump(None, WORKER, pid=4000 + rank, look=look)]
            about = _counter(rank, "step", 1)
            facts.append(Variables(checksum=checksum, who=about.who, source=about.source))

    assert report_of(facts).verdict == verdict
    asked = with_a_long_step(case_of([f for f in facts if not isinstance(f, Variables)]))
    assert list(asked) == [0, 1]


IN_DATASET = """
__getitem__ (data.py:16)
fetch (torch/utils/data/_utils/fetch.py:54)
_next_data (torch/utils/data/dataloader.py:785)
__next__ (torch/utils/data/dataloader.py:725)
"""


def _loads(*lines: int, ticks: int = 0, slept: float = 1.0) -> list[Fact]:
    """Look at the same job, where rank 2 is at these lines of its own dataset."""
    facts = _job(*(f"elastic (data.py:{line}){IN_DATASET.rstrip()}" for line in lines), slept=slept)
    loads = [f"elastic (data.py:{line}){IN_DATASET}{CALLER}" for line in lines]
    seen = [
        fact for fact in facts if not isinstance(fact, StackDump | Process) or fact.who.rank != 2
    ]
    for look, stack in enumerate(loads):
        state = "R" if ticks else "S"
        seen += [dump(2, stack, look=look), process(2, look=look, state=state, ticks=ticks * look)]
    return seen


@pytest.mark.parametrize(
    ("lines", "ticks", "slow"),
    [((22, 21), 95, True), ((21, 21), 95, True), ((21, 21), 8, True), ((21, 21), 0, False)],
)
def test_who_computes_in_its_own_dataset_is_not_blocked(
    lines: tuple[int, int], ticks: int, slow: bool
) -> None:
    """Also where many share a CPU; one that sleeps at a line gets no batch."""
    case = case_of(_loads(*lines, ticks=ticks))
    loop = (
        "def elastic(self, volume):",
        "    for _ in range(12):",
        "        volume = pool(volume)",
    )
    source = Excerpt(file="data.py", first_line=19, lines=(*loop, "        volume = add(volume)"))
    report = report_of([*_loads(*lines, ticks=ticks, slept=40.0), source])

    assert (list(between_steps(case)) == [2]) is slow
    if not slow:
        assert (report.verdict, report.findings[0].signature) == ("hung", "dataloader-blocked")
    elif lines[0] != lines[1]:
        assert (report.verdict, report.findings[0].signature) == ("slow", "slow-not-hung")


def test_a_dataset_that_computes_without_end_is_a_hang() -> None:
    """As long as nothing is known of its loops, a step of minutes counts as endless."""
    report = report_of(_loads(22, 21, ticks=95, slept=120.0))

    assert (report.verdict, report.findings[0].culprit_ranks) == ("hung", (2,))


@pytest.mark.parametrize("ticks", [95, 0])
def test_a_worker_that_compresses_what_it_writes_computes(ticks: int) -> None:
    """A write that takes the CPU goes on; one that takes none waits for its file."""
    written = "write (lzma.py:235)\n" + WORKER.strip()
    facts = [f for f in _job(*TWO, slept=17, steps=50) if f.who.rank != 2]
    for look in (0, 1):
        facts += [replace(process(2, look=look), started_at=STARTED), dump(2, LOADER, look=look)]
        seen = process(2, pid=4000, look=look, ticks=ticks * look)
        worker = replace(seen, role=Role.DATALOADER_WORKER, ppid=1002, who=Who(pid=4000))
        facts += [worker, dump(None, written, pid=4000, look=look)]

    assert report_of(facts).verdict == ("slow" if ticks else "hung")
