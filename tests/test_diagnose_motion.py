"""From several snapshots to the diagnosis: what moves, and what only seems to."""

from __future__ import annotations

import pytest
from small_jobs import ALL_REDUCE, BARRIER, ELSEWHERE, INIT, dump, process, report_of, still

from whyhang.analyzer.facts import Excerpt, Fact, Frame, Process, Source, replace
from whyhang.analyzer.report import Finding

FORWARD = "_pre_forward (torch/nn/parallel/distributed.py:1775)\n"
BACKWARD = "_engine_run_backward (torch/autograd/graph.py:979)\n"


def test_waiting_ranks_that_woke_up_are_progress() -> None:
    """A job whose waiting ranks ran between the looks is slow, not hung."""
    facts = still({0: ALL_REDUCE, 1: ALL_REDUCE, 2: ELSEWHERE})
    facts = [
        process(f.who.rank, look=1, environ=f.environ, woke=5)
        if getattr(f, "look", 0) == 1 and hasattr(f, "environ")
        else f
        for f in facts
    ]

    report = report_of(facts)

    assert report.verdict == "slow"
    assert report.findings[0].category == "slow-not-hung"


@pytest.mark.parametrize(
    ("late", "verdict"),
    [("00000", "slow"), ("00100", "slow"), ("01020", "healthy"), ("0000000100", "slow")],
)
def test_slow_is_who_is_late_at_nearly_all_looks(late: str, verdict: str) -> None:
    """In a job that moves someone is always last: only the same one, again and again, is slow."""
    environ = {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1"}
    facts: list[Fact] = []
    for look, behind in enumerate(late):
        for rank in range(3):
            stack = ELSEWHERE if rank == int(behind) else ALL_REDUCE
            facts.append(process(rank, look=look, environ=environ, woke=5 * look))
            facts.append(dump(rank, stack, look=look))

    assert report_of(facts).verdict == verdict


@pytest.mark.parametrize(("second", "moves"), [("futex_do_wait", True), ("do_nanosleep", False)])
def test_a_nap_elsewhere_in_the_step_is_no_polling(second: str, *, moves: bool) -> None:
    """Who was seen to sleep until answered, and woke up, goes on; who only naps polls."""
    facts: list[Fact] = []
    for look, place in enumerate(["hrtimer_nanosleep", second]):
        for rank in range(3):
            own = process(rank, look=look, woke=40 * look)
            facts.append(replace(own, wchan=place if rank != 1 else "hrtimer_nanosleep"))
            facts.append(dump(rank, ELSEWHERE if rank == 1 else ALL_REDUCE, look=look))

    assert (report_of(facts).verdict != "hung") == moves


def test_a_native_stack_of_a_later_moment_shows_a_step() -> None:
    """A rank that left its wait between its plain and its native stack took part in a step."""
    plain = "_engine_run_backward (torch/autograd/graph.py:979)\nmain (train.py:36)\n"
    native = Frame(function="clock_nanosleep", file="libc.so.6", line=None, native=True)
    facts: list[Fact] = []
    for rank in range(3):
        for look, stack in enumerate(["main (train.py:41)\n", plain]):
            facts.append(process(rank, look=look, woke=40 * look))
            facts.append(dump(rank, stack, look=look))
        last = dump(rank, "main (train.py:41)\n", look=1)
        frames = (native, *last.threads[0].frames)
        facts.append(replace(last, threads=(replace(last.threads[0], frames=frames),)))

    assert report_of(facts).verdict == "healthy"


@pytest.mark.parametrize(("line", "verdict"), [(39, "healthy"), (40, "hung")])
def test_ranks_that_ran_at_another_line_have_come_to_their_wait(line: int, verdict: str) -> None:
    """All were at work and stand in backward a moment later: they take steps. At one line not."""
    backward = "_engine_run_backward (torch/autograd/graph.py:979)\nmain (train.py:40)\n"
    reducer = Frame(
        function="c10d::Reducer::finalize_backward", file="libtorch_cpu.so", native=True
    )
    facts: list[Fact] = []
    for rank in range(3):
        for look in (0, 1):
            # less than a quarter of a CPU: others share it
            facts.append(process(rank, look=look, state="R", ticks=20 * look, woke=4 * look))
            facts.append(dump(rank, f"main (train.py:{line})\n", look=look))
        last = dump(rank, backward, look=1)
        frames = (reducer, *last.threads[0].frames)
        facts.append(replace(last, threads=(replace(last.threads[0], frames=frames),)))

    assert report_of(facts).verdict == verdict


def test_who_left_one_wait_for_another_was_answered() -> None:
    """Forward and backward of DDP stand on one line; one rank naps at each look."""
    facts: list[Fact] = []
    for look, wait in enumerate([FORWARD, BACKWARD]):
        for rank in range(3):
            stack = ELSEWHERE if rank == 1 else f"{wait}main (train.py:40)"
            own = process(rank, look=look, woke=2 * look)
            nap = replace(own, wchan="hrtimer_nanosleep") if rank == 1 else own
            facts += [nap, dump(rank, stack, look=look)]

    assert report_of(facts).verdict == "slow"


def test_one_rank_alone_is_inconclusive_or_local() -> None:
    """One rank in a collective proves no cause; nobody is blamed."""
    report = report_of([dump(5, ALL_REDUCE)])

    assert all(finding.culprit_ranks is None for finding in report.findings)


def test_no_facts_is_inconclusive() -> None:
    """Nothing in, and the report says that nothing can be said."""
    report = report_of([])

    assert report.verdict == "inconclusive"
    assert report.headline


@pytest.mark.parametrize("many", [8, 64])
def test_the_many_that_run_on_are_not_blamed(many: int) -> None:
    """Where most ranks run on and few wait, who is wrong cannot be seen."""
    stacks = dict.fromkeys(range(many - 2), ELSEWHERE)
    stacks |= {many - 2: ALL_REDUCE, many - 1: ALL_REDUCE}
    facts = [dump(rank, text) for rank, text in stacks.items()]

    report = report_of(facts)

    assert all(f.culprit_ranks is None for f in report.findings)


def test_every_piece_of_evidence_has_a_source() -> None:
    """No statement without the place it was read."""
    report = report_of(still({0: ALL_REDUCE, 1: ELSEWHERE}))

    for finding in report.findings:
        assert finding.evidence
        assert all(piece.source and piece.quote for piece in finding.evidence)


def test_source_is_a_path_and_a_line() -> None:
    """A source prints the way editors read it."""
    assert str(Source(file="a.log", line=3)) == "a.log:3"


def test_a_native_stack_at_the_last_look_only_is_no_movement() -> None:
    """A spinning MPI rank looks busy in Python; its native stack shows where it was all along."""
    plain = "<module> (train.py:10)\n"
    native = Frame(function="PMPI_Barrier", file="libmpi.so.40", line=None, native=True)
    facts: list[Fact] = []
    for rank in range(3):
        text = "time_out (train.py:30)\n" + plain if rank == 2 else plain
        for look in (0, 1):
            ticks = 0 if rank == 2 else 100 * look
            facts.append(process(rank, look=look, state="R" if rank != 2 else "S", ticks=ticks))
            facts.append(dump(rank, text, look=look))
        if rank != 2:
            last = dump(rank, plain, look=1)
            frames = (native, *last.threads[0].frames)
            facts.append(replace(last, threads=(replace(last.threads[0], frames=frames),)))

    report = report_of(facts)

    assert report.verdict == "hung"
    assert report.findings[0].culprit_ranks == (2,)


def test_ranks_that_read_from_disk_are_not_stuck_in_the_call_they_were_caught_in() -> None:
    """A start on a slow disk shows everyone in init_process_group, asleep in page I/O: no hang."""
    facts: list[Fact] = []
    for rank in range(3):
        facts += [dump(rank, INIT, look=look) for look in (0, 1)]
        facts += [process(rank, look=look, state="D", switches=5 + look) for look in (0, 1)]

    assert report_of(facts).verdict == "inconclusive"


@pytest.mark.parametrize("head", ["    for batch in loader:", "    while True:"])
def test_out_of_the_loop_is_past_it(head: str) -> None:
    """Less deep than the with around the others, and no deeper than their loop."""
    finding = _of_loop(head, "    dist.barrier()")

    assert (finding.category, finding.culprit_ranks) == ("uneven-inputs", (2,))


def test_behind_an_if_of_the_same_loop_is_not_past_it() -> None:
    """A call further down in the body of the loop is no end of it, whatever ifs it has left."""
    places = _of_loop("    for batch in loader:", "        dist.barrier()")

    assert places.category == "collective-mismatch"
    assert places.culprit_ranks == (2,)


@pytest.mark.parametrize("handler", ["    finally:", "    except OSError:"])
def test_what_is_done_after_an_exception_is_no_end_of_the_data(handler: str) -> None:
    """Whether the loop ran to its end, or was left by an exception, cannot be seen."""
    finding = _of_loop("    for batch in loader:", handler, "        dist.barrier()")

    assert (finding.category, finding.culprit_ranks) == ("collective-mismatch", (2,))


@pytest.mark.parametrize(
    ("branch", "by_rank"),
    [
        (("        if rank == 2 and step == 5:", "            return None"), True),
        (("        if get_rank() == 2: break", ""), True),
        (("        if rank == 0:", "            print(step)"), False),
        (("        if loss.isnan():", "            return None"), False),
    ],
    ids=["returns", "breaks", "goes on", "on data"],
)
def test_a_branch_on_the_rank_turned_it_off(branch: tuple[str, str], *, by_rank: bool) -> None:
    """It leads out of the loop; with as many batches the rank would leave the call out as well."""
    finding = _of_loop("    for batch in loader:", "    dist.barrier()", branch=branch)

    category = "missing-rank-in-collective" if by_rank else "uneven-inputs"
    assert (finding.category, finding.culprit_ranks) == (category, (2,))
    assert (branch[0].strip().split(":")[0] in finding.title) is by_rank


@pytest.mark.parametrize(
    ("branch", "category"),
    [
        (("",), "collective-mismatch"),
        (("        if bad(step):", "            continue"), "collective-mismatch"),
        (("        if batch is None:", "            break"), "uneven-inputs"),
    ],
    ids=["straight", "goes on", "leaves"],
)
def test_a_loop_over_numbers_that_are_written_there_is_as_long_for_all(
    branch: tuple[str, ...], category: str
) -> None:
    """Who has come to its end did not have fewer; the others call what it does not."""
    finding = _of_loop("    for step in range(1_000):", "    dist.barrier()", branch=branch)

    assert (finding.category, finding.culprit_ranks) == (category, (2,))


@pytest.mark.parametrize(
    ("around", "category"),
    [("for epoch in range(9):", "collective-mismatch"), ("def main():", "uneven-inputs")],
)
def test_who_turned_off_behind_the_inner_loop_did_not_leave_it_early(
    around: str, category: str
) -> None:
    """The others passed by its branch, and have begun the inner loop again."""
    finding = _of_loop(
        "    for batch in loader:", "    if rank == 2:", "        dist.barrier()", above=around
    )

    assert (finding.category, finding.culprit_ranks) == (category, (2,))


def test_a_branch_around_the_whole_loop_is_none_in_it() -> None:
    """All ranks that are in a distributed job come to it."""
    finding = _of_loop(
        "    for batch in loader:", "    dist.barrier()", above="if local_rank != -1:"
    )

    assert finding.category == "uneven-inputs"


def _of_loop(
    head: str, *last: str, branch: tuple[str, ...] = ("",), above: str = "def main():"
) -> Finding:
    inside = ALL_REDUCE.replace("train (train.py:40)", "main (train.py:40)")
    within = ("        with maybe_sync():", "            dist.all_reduce(grad)")
    lines = (above, head, *branch, *within)
    facts = still({0: inside, 1: inside, 2: BARRIER, 3: inside})
    source = (
        Excerpt(file="train.py", first_line=41 - len(lines), lines=lines),
        Excerpt(file="train.py", first_line=56 - len(last), lines=last),
    )
    return report_of([*facts, *source]).findings[0]


def test_who_reads_files_at_full_speed_is_not_blocked_by_storage() -> None:
    """Imports that are seen in a read at every look use the processor: the disk answers."""
    stack = "get_data (<frozen importlib._bootstrap_external>:1130)\nload (train.py:7)"
    looks = [
        fact
        for look in (0, 1)
        for fact in (process(0, look=look, ticks=90 * look), dump(0, stack, look=look))
    ]

    assert all(f.category != "storage-io-blocked" for f in report_of(looks).findings)


@pytest.mark.parametrize(("woke", "times"), [(9, 0), (0, 1)])
def test_a_cold_start_on_a_slow_disk_is_no_hang(woke: int, times: int) -> None:
    """All ranks import: one that woke up between the looks gets its data, if slowly."""
    stack = "get_data (<frozen importlib._bootstrap_external>:1131)\n<module> (train.py:7)"
    looks = [
        fact
        for rank in (0, 1)
        for look in (0, 1)
        for fact in (
            process(rank, state="D", look=look, woke=woke * look),
            dump(rank, stack, look=look),
        )
    ]

    categories = [f.category for f in report_of(looks).findings]

    assert categories.count("storage-io-blocked") == times


def test_the_many_that_sleep_are_not_blamed_by_the_few_that_wait() -> None:
    """Ranks that poll may wait for what the rank in the barrier has not done."""
    polls = "poll (train.py:30)\n<module> (train.py:60)"
    facts = still({0: BARRIER, 1: polls, 2: polls})
    asleep = [replace(f, wchan="hrtimer_nanosleep") if isinstance(f, Process) else f for f in facts]

    assert report_of(asleep).findings[0].confidence < 0.6
    assert report_of(asleep).findings[0].culprit_ranks is None


def test_without_a_finding_the_headline_says_where_everybody_stands() -> None:
    """Who reads that nothing is known learns at least what the ranks do."""
    polls = "poll (train.py:30)\n<module> (train.py:60)"

    headline = report_of(still({0: polls, 1: polls}, world=2)).headline

    assert "ranks 0-1" in headline
    assert "poll (train.py:30)" in headline
