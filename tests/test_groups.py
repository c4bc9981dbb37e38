"""Groups told by the lines of source at which ranks wait."""

from __future__ import annotations

import pytest
from small_jobs import ELSEWHERE, native, report_of, still

from whyhang.analyzer.facts import Excerpt, Fact, LoopCounter, Source, Who

STEP = """
all_reduce (torch/distributed/distributed_c10d.py:3100)
wrapper (torch/distributed/c10d_logger.py:83)
step (step.py:{line})
<module> (step.py:60)
"""
OTHER = """
broadcast (torch/distributed/distributed_c10d.py:2900)
wrapper (torch/distributed/c10d_logger.py:83)
step (step.py:{line})
<module> (step.py:60)
"""


def source(*lines: str) -> Excerpt:
    """Keep the lines of step.py from line 10 on."""
    return Excerpt(file="step.py", first_line=10, lines=lines)


def job(*stacks: str) -> list[Fact]:
    """Make a job whose ranks stand still, each at its stack."""
    return still(dict(enumerate(stacks)))


TP, DP = STEP.format(line=10), STEP.format(line=11)


def test_two_groups_at_two_lines_are_a_circle_without_a_culprit() -> None:
    """All wait in the same operation, but on groups that the source tells apart."""
    facts = [
        *job(TP, DP, DP, TP),
        source("    dist.all_reduce(x, group=self.tp)", "    dist.all_reduce(", "group=dp)"),
    ]

    report = report_of(facts)

    assert report.verdict == "hung"
    assert report.findings[0].category == "cross-group-deadlock"
    assert report.findings[0].culprit_ranks is None
    assert "ranks 0,3 in all_reduce on tp (step.py:10)" in report.findings[0].title


def test_different_operations_on_different_groups_blame_no_minority() -> None:
    """One rank in a broadcast of its own group is no mismatch with the others' all_reduce."""
    lines = source("dist.broadcast(x, src=0, group=tp)", "dist.all_reduce(x, group=dp)")
    facts = [*job(OTHER.format(line=10), DP, DP, DP), lines]

    assert report_of(facts).findings[0].culprit_ranks is None


@pytest.mark.parametrize(
    "lines",
    [
        ("dist.all_reduce(x, group=self.tp)", "dist.all_reduce(y, group=tp)"),
        ("dist.all_reduce(x, group=None)", "dist.all_reduce(y)"),
        ("dist.all_reduce(x, op, tp)", "dist.all_reduce(y, group=tp)"),
        ("reduce(x, group=tp)", "dist.all_reduce(y, group=dp)"),
    ],
)
def test_lines_that_do_not_distinguish_groups_prove_nothing(lines: tuple[str, ...]) -> None:
    """Equal groups, groups given by position and calls of helpers leave the question open."""
    findings = report_of([*job(TP, DP, DP, TP), source(*lines)]).findings

    assert all(finding.category != "cross-group-deadlock" for finding in findings)


@pytest.mark.parametrize(("name", "known"), [("group", False), ("self.tp", True)])
def test_a_name_that_any_group_may_have_tells_it_in_one_function_only(
    name: str, *, known: bool
) -> None:
    """What one function calls its group may be what another one calls dp."""
    other = DP.replace("step (", "reduce_norm (")
    lines = source(f"dist.all_reduce(x, group={name})", "dist.all_reduce(x, group=dp)")

    findings = report_of([*job(TP, other, other, TP), lines]).findings

    assert any(finding.signature == "groups-crossed" for finding in findings) is known


def test_one_in_another_call_is_not_to_blame_where_the_calls_are_on_two_groups() -> None:
    """Rank 2 gathers on its row; its partner may have left that out, and reduces on the next."""
    gathers = TP.replace("all_reduce", "all_gather").replace(":10", ":12")
    lines = source(
        "dist.all_reduce(x, group=tp)",
        "dist.all_reduce(x, group=dp)",
        "dist.all_gather(all, x, group=tp)",
    )

    findings = report_of([*job(DP, TP, gathers, TP), lines]).findings

    assert findings[0].signature == "groups-crossed"
    assert all(finding.culprit_ranks is None for finding in findings)


@pytest.mark.parametrize(
    "group", ["tp if rank != 2 else None", "groups[rank % 2]", "mesh[d].get()"]
)
def test_a_group_that_may_be_another_on_each_rank_blames_nobody(group: str) -> None:
    """The line is the same for all who stand there; on which group each is, it does not say."""
    lines = source(f"dist.all_reduce(x, group={group})", "dist.broadcast(y, src=0)")
    findings = report_of([*job(TP, TP, TP, OTHER.format(line=11)), lines]).findings

    assert findings[0].category == "collective-mismatch"
    assert all(finding.culprit_ranks is None for finding in findings)


def test_a_late_rank_is_the_cause_whatever_groups_the_others_wait_on() -> None:
    """Who is elsewhere is a root; nested groups wait for it at different lines."""
    lines = source("dist.all_reduce(x, group=tp)", "dist.all_reduce(x, group=dp)")

    finding = report_of([*job(TP, DP, ELSEWHERE, TP), lines]).findings[0]

    assert finding.category == "missing-rank-in-collective"
    assert finding.culprit_ranks == (2,)


def test_a_wait_on_a_request_tells_no_communicator() -> None:
    """``request.Wait()`` against ``comm.Barrier()``: the names are not of two communicators."""
    waits = "PMPI_Wait (libmpi.so.40:1)\nstep (step.py:10)\n<module> (step.py:60)"
    meets = "PMPI_Barrier (libmpi.so.40:1)\nstep (step.py:11)\n<module> (step.py:60)"
    lines = source("    request.Wait()", "    comm.Barrier()")

    finding = report_of([*native(job(waits, meets, meets)), lines]).findings[0]

    assert finding.signature == "mpi-mismatch"
    assert finding.culprit_ranks is None  # whose message does not come is not seen


MPI_LOOP = (
    "def main(grid):",
    "    for step in range(9):",
    "        grid.advance()",
    "        grid.energy()",
    "        report(grid)",
)


@pytest.mark.parametrize(
    ("calls", "loop", "culprits"),
    [
        # it has come through the energy of all, in which two stand again
        (("Comm_split", "Sendrecv", "Allreduce", "Allreduce"), MPI_LOOP, (0,)),
        # its partner may have left the receive out
        (("Recv", "Sendrecv", "Allreduce", "Allreduce"), MPI_LOOP, None),
        # a rank may be through with a reduction to another one before all have come
        (("Comm_split", "Sendrecv", "Reduce", "Reduce"), MPI_LOOP, None),
        # no loop that leads to the lines above again
        (("Comm_split", "Sendrecv", "Allreduce", "Allreduce"), ("def main(grid):",) * 2, None),
    ],
)
def test_a_call_that_all_others_have_passed_by_is_one_too_many(
    calls: tuple[str, ...], loop: tuple[str, ...], culprits: tuple[int, ...] | None
) -> None:
    """They are a turn of the loop further, in whichever calls."""
    lines = {"Sendrecv": ("advance", 12), "Allreduce": ("energy", 13), "Reduce": ("energy", 13)}
    stacks = []
    for call in calls:
        inner, line = lines.get(call, ("report", 14))
        stacks.append(f"PMPI_{call} (libmpi.so.40:1)\n{inner} (grid.py:5)\nmain (step.py:{line})")
    facts = [
        source(*loop, *MPI_LOOP[len(loop) :]),
        Excerpt(file="grid.py", first_line=4, lines=("def part(self):", "    self.comm.call()")),
    ]

    finding = report_of([*native(job(*stacks)), *facts]).findings[0]

    assert (finding.signature, finding.culprit_ranks) == ("mpi-mismatch", culprits)


@pytest.mark.parametrize(
    ("call", "signature"),
    [
        ("Win_lock", "mpi-window-locked"),
        ("Win_wait", "mpi-all-in-one-call"),
        ("Allreduce", "mpi-all-in-one-call"),
        ("Recv", "mpi-all-await-messages"),
        ("Waitall", "mpi-all-await-messages"),
    ],
)
def test_what_all_ranks_of_mpi_wait_for_is_told_by_the_call(call: str, signature: str) -> None:
    """One of them keeps the lock of a window, none sends a message; a collective may differ."""
    stack = f"PMPI_{call} (libmpi.so.40:1)\nadd (grid.py:5)\nmain (step.py:12)"

    finding = report_of(native(job(stack, stack, stack))).findings[0]

    assert (finding.signature, finding.culprit_ranks) == (signature, None)


@pytest.mark.parametrize(("dedents", "told"), [(False, True), (True, False)])
def test_where_all_send_before_any_receives_the_receive_is_named(
    *, dedents: bool, told: bool
) -> None:
    """It stands further down in the function; one of another function may be of anything."""
    lines = ["def shift(self):", "    comm.Send(out, dest=up)"]
    lines += ["", "def other(self):"] * dedents + ["    comm.Recv(buf, source=down)"]
    stack = "PMPI_Send (libmpi.so.40:1)\nshift (grid.py:5)\nmain (step.py:12)"
    source_ = Excerpt(file="grid.py", first_line=4, lines=tuple(lines))

    finding = report_of([*native(job(stack, stack, stack)), source_]).findings[0]

    assert finding.signature == "mpi-all-await-messages"
    below = "`comm.Recv(buf, source=down)` (grid.py:6) is further down"
    assert (below in finding.explanation) is told


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (
            (100, 101, 102),
            "Begin with rank 0, the furthest behind: at step=100, the others at 101 to",
        ),
        ((100, 100, 101, 102), ""),  # as many are behind as not
        ((100, 100, 100), ""),
        ((100, 101, None), ""),
    ],
)
def test_who_is_the_furthest_behind_of_those_who_wait_for_messages(
    steps: tuple[int | None, ...], said: str
) -> None:
    """The rank whose message did not come stands still first, then those that wait for it."""
    stack = "PMPI_Waitall (libmpi.so.40:1)\nadd (grid.py:5)\nmain (step.py:12)"
    kept = Source(file="claims.json")
    counts = [
        LoopCounter(
            name="step", value=n, function="main", file="s.py", who=Who(rank=r), source=kept
        )
        for r, n in enumerate(steps)
        if n is not None
    ]

    finding = report_of([*native(job(*[stack] * len(steps))), *counts]).findings[0]

    assert (finding.signature, finding.culprit_ranks) == ("mpi-all-await-messages", None)
    assert said in finding.explanation
    assert ("furthest behind" in finding.explanation) is bool(said)


@pytest.mark.parametrize(
    ("call", "waits"), [("Waitall", True), ("Neighbor_allgather", True), ("Barrier", False)]
)
def test_who_waits_for_messages_beside_a_collective_is_told(call: str, *, waits: bool) -> None:
    """It has a request too many, or somebody sent too little: the others are past the exchange."""
    reduces = "PMPI_Allreduce (libmpi.so.40:1)\nadd (grid.py:5)\nmain (step.py:12)"
    alone = f"PMPI_{call} (libmpi.so.40:1)\nexchange (grid.py:9)\nmain (step.py:11)"

    finding = report_of(native(job(reduces, alone, reduces))).findings[0]

    assert (finding.signature, finding.culprit_ranks) == ("mpi-mismatch", None if waits else (1,))
    assert ("Rank 1 waits for a message that does not come" in finding.explanation) is waits


LOOP = (
    "def until_done(request, pause=0.01):",
    "    while not request.{}():",
    "        time.sleep(pause)",
)


@pytest.mark.parametrize(("asks", "waits"), [("Test", True), ("due", False)])
def test_who_asks_for_a_request_again_and_again_waits_for_it(asks: str, *, waits: bool) -> None:
    """Asleep between two tries it is in no call of MPI, and still waits for a message."""
    sleeps = (
        "until_done (swap.py:3)\nexchange (swap.py:9)\nmain (step.py:11)\n<module> (step.py:60)"
    )
    meets = "PMPI_Allreduce (libmpi.so.40:1)\ntotal (step.py:36)\nmain (step.py:14)"
    lines = tuple(line.format(asks) for line in LOOP)
    loop = Excerpt(file="swap.py", first_line=1, lines=lines)
    others = native(still({0: meets, 1: meets}))

    finding = report_of([*others, *still({2: sleeps}), loop]).findings[0]

    assert finding.culprit_ranks == (None if waits else (2,))
    assert finding.category == ("mpi-mismatch" if waits else "mpi-missing-rank")


@pytest.mark.parametrize(("call", "culprits"), [("Win_lock", None), ("Barrier", (1,))])
def test_who_waits_for_the_lock_of_a_window_is_held_up(
    call: str, culprits: tuple[int, ...] | None
) -> None:
    """Whoever holds it has gone on to where the others are; the fewest are not the odd ones."""
    waits = f"PMPI_{call} (libmpi.so.40:1)\nclaim (table.py:19)\nmain (step.py:12)"
    meets = "PMPI_Allreduce (libmpi.so.40:1)\ntotal (step.py:36)\nmain (step.py:14)"

    finding = report_of(native(job(meets, waits, meets))).findings[0]

    signature = "mpi-window-kept" if culprits is None else "mpi-mismatch"
    assert (finding.signature, finding.culprit_ranks) == (signature, culprits)


def test_a_rank_of_mpi_at_the_end_of_its_program_is_missing() -> None:
    """In MPI_Finalize it makes no call any more that could meet that of the others."""
    ends = "PMPI_Finalize (libmpi.so.40:1)\nmain (step.py:61)"
    meets = "PMPI_Allreduce (libmpi.so.40:1)\ntotal (step.py:36)\nmain (step.py:14)"

    finding = report_of(native(job(meets, ends, meets))).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("mpi-missing-rank", (1,))


STAGES = (
    "def run(stage):",
    "    for batch in batches:",
    "        stage.forward(batch)",
    "    for batch in batches:",
    "        stage.backward(batch)",
)


@pytest.mark.parametrize(("lines", "culprits"), [((14, 12, 12), (0,)), ((12, 12, 12), None)])
def test_the_stage_that_left_the_loop_in_which_the_others_receive(
    lines: tuple[int, ...], culprits: tuple[int, ...] | None
) -> None:
    """It waits for what comes back, and hands nothing on that they wait for."""
    receives = (
        "recv (torch/distributed/distributed_c10d.py:2700)\ntake (stage.py:5)\nrun (step.py:{})"
    )
    facts = [*job(*(receives.format(line) for line in lines)), source(*STAGES)]

    (finding,) = [f for f in report_of(facts).findings if f.signature == "p2p-mismatch"]

    assert finding.culprit_ranks == culprits
    assert ("left the loop" in finding.title) is (culprits is not None)
