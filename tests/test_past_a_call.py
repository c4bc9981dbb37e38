"""Ranks that have come past the call of the others, or round to the one before it again."""

from __future__ import annotations

import pytest
from log_docs import document, reader
from small_jobs import ALL_REDUCE, frames, report_of, still

from whyhang.analyzer.facts import (
    CallArgument,
    Excerpt,
    Fact,
    Frame,
    LoopCounter,
    Process,
    Source,
    StackDump,
    Trust,
    Variables,
    Who,
    replace,
)
from whyhang.analyzer.report import Finding, Report
from whyhang.analyzer.stacks.source_blocks import is_kept_out

GATHER = "all_gather (torch/distributed/distributed_c10d.py:3100)\n"
REDUCE = "all_reduce (torch/distributed/distributed_c10d.py:3200)\n"
REDUCER = "c10d::Reducer::finalize_backward (libtorch_cpu.so:1)\nbackward (torch/_tensor.py:9)\n"
RECV = "Recv (mpi4py/MPI.so:1)\n"
SUM = "Allreduce (mpi4py/MPI.so:1)\n"
JOIN = "wait (threading.py:9)\njoin (queue.py:90)\n"


def first(stacks: dict[int, str], source: str, *more: Fact) -> Finding:
    """Return what comes first of ranks that stand in this source."""
    text = Excerpt(file="job.py", first_line=1, lines=tuple(source.strip("\n").split("\n")))
    facts = [
        replace(
            fact,
            threads=tuple(
                replace(
                    thread,
                    frames=tuple(
                        replace(f, native="::" in f.function or f.file.endswith(".so"))
                        for f in thread.frames
                    ),
                )
                for thread in fact.threads
            ),
        )
        if isinstance(fact, StackDump)
        else fact
        for fact in still(stacks)
    ]
    return report_of([*facts, text, *more]).findings[0]


STEP = """
def main():
    for step, batch in enumerate(loader):
        loss = model(batch)
        loss.backward()
        {turn}
            dist.all_gather(out, loss)
    dist.all_gather(out, loss)
"""


@pytest.mark.parametrize(
    ("turn", "line", "signature"),
    [
        ("with timer:", 6, "gradients-not-reduced"),
        ("if loss > best:", 6, "collective-mismatch"),
        ("with timer:", 7, "uneven-inputs"),
    ],
    ids=["in the turn", "by its own condition", "behind the loop"],
)
def test_a_backward_that_left_gradients_out(turn: str, line: int, signature: str) -> None:
    """Who is past the backward of the others in one turn has come through it without reducing."""
    stacks = dict.fromkeys((0, 2), f"{REDUCER}main (job.py:4)") | {
        1: f"{GATHER}main (job.py:{line})"
    }

    finding = first(stacks, STEP.format(turn=turn))

    assert (finding.signature, finding.culprit_ranks) == (signature, (1,))
    assert (finding.category == "unused-parameters") is (signature == "gradients-not-reduced")


APPEND = """
def append(rows):
    counts = dist.all_gather(len(rows))
    {early}
    dist.all_reduce(rows)
def main():
    for chunk in chunks:
        append(chunk)
"""


@pytest.mark.parametrize("returns", [True, False])
def test_who_is_at_the_first_call_again_has_left_out_the_second(*, returns: bool) -> None:
    """Of two and two the numbers tell nothing; a return in between does."""
    early = "if not len(rows): return" if returns else "rows = pad(rows)"
    early = early.replace(": ", ":\n        ")
    main = f"main (job.py:{7 + returns})"
    stacks = dict.fromkeys((0, 1), f"{REDUCE}append (job.py:{4 + returns})\n{main}")
    stacks |= dict.fromkeys((2, 3), f"{GATHER}append (job.py:2)\n{main}")

    finding = first(stacks, APPEND.format(early=early))

    assert finding.culprit_ranks == ((2, 3) if returns else None)
    said = (
        "ranks 2-3 have come to this line again without that call: they may have left by "
        "`return` (job.py:4) under `if not len(rows)` (job.py:3)"
    )
    assert (said in finding.explanation) is returns


EPOCHS = """
def main():
    {again}
        for batch in loader:
            dist.all_reduce(loss)
        pending.join()
"""


@pytest.mark.parametrize("again", [True, False])
def test_who_is_held_up_between_two_epochs_has_left_no_loop(*, again: bool) -> None:
    """The others have come past it, and are in the next epoch."""
    stacks = dict.fromkeys((0, 2), f"{REDUCE}main (job.py:4)") | {1: f"{JOIN}main (job.py:5)"}

    finding = first(stacks, EPOCHS.format(again="for epoch in range(9):" if again else "if True:"))

    assert finding.culprit_ranks == (1,)
    assert (finding.signature == "uneven-inputs") is not again


EXCHANGE = """
def exchange():
    for peer in (left, right):
        if not incoming[peer]:
            continue
        comm.Recv(buffer, peer)
def main():
    for step in range(9):
        exchange()
        comm.Allreduce(energy, total)
"""


def test_a_receive_in_a_loop_waits_for_its_sender_alone() -> None:
    """It is no matter of how often the loop turns, and who did not send is not known."""
    stacks = dict.fromkeys((0, 2, 3), f"{SUM}main (job.py:9)")
    stacks |= {1: f"{RECV}exchange (job.py:5)\nmain (job.py:8)"}

    finding = first(stacks, EXCHANGE)

    assert (finding.category, finding.culprit_ranks) == ("mpi-mismatch", None)


POLL = """
def collect(round_):
    for rank in range(world):
        while not os.path.exists(path(round_, rank)):
            time.sleep(0.2)
"""


def _polls(counts: dict[int, int], *, lines: tuple[int, int] = (4, 4)) -> Report:
    """Return what is said of ranks that look for files, each in a round of its own.

    Their other variables change at each turn.
    """
    text = Excerpt(file="job.py", first_line=1, lines=tuple(POLL.strip("\n").split("\n")))
    facts: list[Fact] = [text]
    for fact in still(dict.fromkeys(counts, "collect (job.py:4)\nmain (job.py:9)")):
        if isinstance(fact, StackDump):
            inner, *callers = fact.threads[0].frames
            stack = (replace(inner, line=lines[fact.look]), *callers)
            fact = replace(fact, threads=(replace(fact.threads[0], frames=stack),))
        facts.append(fact)
    for rank, count in counts.items():
        who, source = Who(rank=rank, trust=Trust.ENVIRONMENT), Source(file="claims.json")
        facts += [Variables(checksum=turn, who=who, source=source) for turn in (1, 2)]
        facts.append(
            LoopCounter(
                name="round_",
                value=count,
                function="collect",
                file="job.py",
                who=who,
                source=Source(file="claims.json"),
            )
        )
    return report_of(facts)


@pytest.mark.parametrize(
    ("counts", "culprits"), [({0: 12, 1: 13, 2: 12}, (1,)), ({0: 12, 1: 12, 2: 12}, None)]
)
@pytest.mark.parametrize("lines", [(4, 4), (3, 4)])
def test_ranks_that_all_look_for_files(
    counts: dict[int, int], culprits: object, lines: tuple[int, int]
) -> None:
    """Who is in another round is apart; another line of the loop is no progress."""
    report = _polls(counts, lines=lines)
    assert report.verdict == "hung"
    finding = report.findings[0]
    assert (finding.signature, finding.culprit_ranks) == ("files-awaited", culprits)


HANDLER = """
def record(seconds):
    with self.lock:
        self.times.append(seconds)
def report(signum, frame):
    with self.lock:
        print(len(self.times))
"""


def test_a_handler_that_is_called_again_while_it_waits_for_its_own_thread_s_lock() -> None:
    """Its stack grows by a frame with each signal, and goes nowhere."""
    text = Excerpt(file="job.py", first_line=1, lines=tuple(HANDLER.strip("\n").split("\n")))
    facts: list[Fact] = [text]
    for fact in still({0: f"{REDUCE}main (job.py:30)", 1: "record (job.py:3)\nmain (job.py:29)"}):
        if isinstance(fact, StackDump) and fact.who.rank == 1:
            handlers = tuple(frames("report (job.py:5)")) * (3 + 2 * fact.look)
            own = fact.threads[0].frames
            fact = replace(fact, threads=(replace(fact.threads[0], frames=handlers + own),))
        facts.append(fact)

    finding = report_of(facts).findings[0]

    assert finding.culprit_ranks == (1,)
    assert finding.signature != "rank-spinning"


def test_a_comprehension_stands_in_none_of_the_loops_of_its_function() -> None:
    """Who is behind it has left it, and not the loop around both."""
    source = """
def fit():
    for epoch in range(9):
        losses = [step(batch) for batch in loader]
        dist.all_gather(every, losses)
def step(batch):
    dist.all_reduce(batch)
"""
    inside = f"{REDUCE}step (job.py:6)\n<listcomp> (job.py:3)\nfit (job.py:3)"
    stacks = dict.fromkeys((0, 2), inside) | {1: f"{GATHER}fit (job.py:4)"}

    finding = first(stacks, source)

    assert finding.culprit_ranks == (1,)
    assert "the loop `losses = [step(batch) for batch in loader]` (job.py:3)" in finding.title


def test_what_a_rank_without_a_process_said_last_and_how_it_may_have_ended() -> None:
    """It was started, and is gone before the call in which the others wait."""
    source = """
def main():
    files = mine(rank)
    if not files:
        return
    dist.init_process_group("gloo")
"""
    init = "init_process_group (torch/distributed/distributed_c10d.py:1700)\nmain (job.py:5)"
    text = Excerpt(file="job.py", first_line=1, lines=tuple(source.strip("\n").split("\n")))
    facts: list[Fact] = [text, *still(dict.fromkeys((0, 1), init), world=3)]
    facts = [
        replace(fact, environ={**fact.environ, "LOCAL_WORLD_SIZE": "3", "LOCAL_RANK": "0"})
        if isinstance(fact, Process) and fact.who.rank == 0
        else fact
        for fact in facts
    ]
    facts += reader().read(document("rank 0: 2 files\nrank 1: 1 files\nrank 2: 0 files\n", "j.log"))

    finding = report_of(facts).findings[0]

    assert (finding.signature, finding.culprit_ranks) == ("init-missing-rank", (2,))
    assert "The last that rank 2 said is “0 files”" in finding.explanation
    assert "by `return` (job.py:4) under `if not files` (job.py:3)." in finding.explanation


def test_a_rank_in_the_loop_that_makes_a_call_under_a_condition_is_told_of() -> None:
    """It is the others that may have left that call out; the one behind the loop is ahead."""
    source = """
def fit():
    for batch in loader:
        loss = step(batch)
    dist.all_gather(every, loss)
def step(batch):
    dist.all_reduce(batch)
    if spike(batch):
        dist.all_reduce(batch)
"""
    steps = {0: 6, 2: 8}
    stacks = {n: f"{REDUCE}step (job.py:{line})\nfit (job.py:3)" for n, line in steps.items()}

    finding = first(stacks | {1: f"{GATHER}fit (job.py:4)"}, source)

    said = (
        "Or the calls under a condition differ: rank 2 stands under `if spike(batch)` (job.py:7)."
    )
    assert finding.culprit_ranks == (1,)
    assert said in finding.explanation


TILES = """
def work(comm):
    while True:
        item = comm.recv(source=0)
        if item is None:
            return 0

def level(comm):
    if comm.Get_rank() == 0:
        found = feed(comm)
    else:
        found = work(comm)
    return comm.allreduce(found)
"""


@pytest.mark.parametrize(
    ("source", "ranks"),
    [
        (TILES, "ranks 1-2 have"),
        (TILES.replace("Get_rank() == 0", "idle"), "ranks 0-2 have"),
        (TILES.replace("== 0", "!= 3"), "ranks 0-2 have"),  # the others came by the feed
    ],
    ids=["by rank", "by another condition", "by the rank of this one"],
)
def test_a_rank_that_took_another_branch_has_not_come_past_the_call(
    source: str, ranks: str
) -> None:
    """``if rank == 0: … else: …``: whom the branch keeps out of the call has not left it."""
    stacks = dict.fromkeys(range(3), f"{SUM}level (job.py:12)")
    stacks[3] = f"{RECV}work (job.py:3)\nlevel (job.py:11)"

    finding = first(stacks, source)

    assert finding.category == "mpi-mismatch"
    assert (f"{ranks} come past that call" in finding.explanation) is ("!=" not in source)


@pytest.mark.parametrize(
    ("head", "is_out"),
    [
        ("if rank == 0:", True),
        ("if dist.get_rank() == 0:", True),
        ("if local_rank == 0:", False),  # true of a rank on each host
        ("if debug or rank == 0:", False),
    ],
)
def test_only_a_condition_on_the_rank_alone_keeps_a_rank_out(head: str, is_out: bool) -> None:
    """A local rank, or one condition of two, tells nothing of rank 8."""
    lines = ("def work(rank):", f"    {head}", "        dist.barrier()")
    text = dict(enumerate(lines, 1))
    frame = Frame(function="work", file="job.py", line=3)

    assert is_kept_out(8, [frame], lambda at: text.get(at.line or 0)) is is_out


@pytest.mark.parametrize(
    ("head", "body", "is_out"),
    [
        ("if rank != 0:", "return", True),
        ("if rank != 0:", "continue", True),
        ("if rank != 0: return", "log(rank)", True),
        ("if rank == 0:", "return", False),
        ("if rank != 0:", "log(rank)", False),
        ("if local_rank != 0:", "return", False),
    ],
)
def test_who_turns_off_above_does_not_come_below(head: str, body: str, *, is_out: bool) -> None:
    """An early return on the rank's number parts the ranks like a branch."""
    indent = "        " if head.endswith(":") else "    "
    lines = ("def work(rank):", f"    {head}", f"{indent}{body}", "    dist.barrier()")
    text = dict(enumerate(lines, 1))
    frame = Frame(function="work", file="job.py", line=4)

    assert is_kept_out(8, [frame], lambda at: text.get(at.line or 0)) is is_out


SAVES = """
def save(step):
    if rank > 1:
        return
    merge(opt)
def run():
    for step in steps:
        loss()
        if wanted(step):
            save(step)
"""


@pytest.mark.parametrize(("fewest", "culprits"), [((0,), (0,)), ((0, 1), (0, 1))])
def test_the_condition_by_which_others_leave_parts_the_ranks(
    fewest: tuple[int, ...], culprits: tuple[int, ...]
) -> None:
    """Not the one in the caller, which holds for all of them. At a tie it tells the odd side."""
    inside = "Barrier (mpi4py/MPI.so:1)\nsave (job.py:4)\nrun (job.py:9)"
    stacks = {rank: inside if rank in fewest else f"{SUM}run (job.py:7)" for rank in range(4)}

    finding = first(stacks, SAVES)

    assert finding.culprit_ranks == culprits
    assert "past `if rank > 1` (job.py:2), by which others leave" in finding.explanation
    assert "wanted" not in finding.explanation


EXIT_CALLS = "barrier (torch/distributed/distributed_c10d.py:4900)\nclose (job.py:4)"
RAISED = """[rank1]: Traceback (most recent call last):
[rank1]:   File "job.py", line 9, in <module>
[rank1]:     run()
[rank1]:   File "job.py", line 7, in run
[rank1]:     rates[name]
[rank1]: KeyError: 'chf'
"""


def test_a_rank_in_what_runs_at_exit_was_ended_by_the_exception_in_its_log() -> None:
    """Python has printed it and calls what was registered; below all stands no program any more."""
    facts = still({0: ALL_REDUCE, 1: EXIT_CALLS, 2: ALL_REDUCE})
    log = list(reader().read(document(RAISED, "job.log")))

    first, second = report_of([*facts, *log]).findings[:2]

    assert (first.category, first.culprit_ranks) == ("rank-died", (1,))
    assert (second.category, second.caused_by) == ("collective-mismatch", 0)
    assert "at the end of the program: Python has called close (job.py:4)" in second.explanation
    caught = still({0: ALL_REDUCE, 1: EXIT_CALLS + "\n<module> (job.py:9)", 2: ALL_REDUCE})
    assert report_of([*caught, *log]).findings[0].category == "collective-mismatch"


PHASES = """
class Phase:
    def __exit__(self, *error):
        dist.barrier()
def run():
    for step in steps:
        with Phase():
            loss()
            save(step)
"""


def test_who_is_at_the_end_of_a_block_has_left_it_before_the_others() -> None:
    """An exception in its body leads there as well, and is printed only afterwards."""
    stacks = dict.fromkeys(range(3), f"{SUM}run (job.py:7)")
    stacks[2] = "Barrier (mpi4py/MPI.so:1)\n__exit__ (job.py:3)\nrun (job.py:6)"

    finding = first(stacks, PHASES)

    said = "rank 2 has left `with Phase()` (job.py:6) that ranks 0-1 are still in, perhaps by an"
    assert finding.explanation.count(said) == 1
    stacks[2] = "Barrier (mpi4py/MPI.so:1)\n__enter__ (job.py:3)\nrun (job.py:6)"
    assert "still in" not in first(stacks, PHASES).explanation


RETRIES = """
def fetch():
    while True:
        try:
            return load()
        except OSError:
            time.sleep(5)
"""


def test_who_sleeps_in_a_handler_within_a_loop_tries_again() -> None:
    """What has failed stands above it; without the loop it only comes late."""
    nap = "fetch (job.py:6)\nrun (step.py:9)\n<module> (step.py:20)"
    stacks = {0: f"{SUM}run (step.py:10)\n<module> (step.py:20)", 1: nap}

    again = first(stacks, RETRIES).explanation
    once = first(stacks, RETRIES.replace("while True:", "if late:")).explanation
    below = RETRIES.replace("    time.sleep", "time.sleep").replace("Error:", "Error: log()\n")
    lower = {**stacks, 1: nap.replace("job.py:6", "job.py:7")}

    assert "tries again after an error: `except OSError" in first(lower, below).explanation
    assert "tries again" not in first(lower, below.replace("return ", "")).explanation
    assert "rank 1 tries again after an error: `except OSError` (job.py:5)" in again
    assert "tries again" not in once


ROUND = """
def collect(comm):
    return [comm.recv(source=worker) for worker in others]

def work(comm):
    return comm.recv(source=0)
"""


def await_each_other(source: str) -> Finding:
    stacks = {0: f"{RECV}collect (job.py:2)"} | dict.fromkeys((1, 2), f"{RECV}work (job.py:5)")
    claims = Source(file="claims.json")
    peers = [
        CallArgument(
            op="recv", name="source", value=str(peer), function="f", file="job.py", line=line,
            who=Who(rank=rank, trust=Trust.CONTENT), source=claims,
        )
        for rank, peer, line in ((0, 2, 2), (1, 0, 5), (2, 0, 5))
    ]  # fmt: skip
    return first(stacks, source, *peers)


def test_who_waits_for_whom_in_messages_of_mpi_is_told_by_the_arguments() -> None:
    """And where each stands: not all at the line of the first."""
    finding = await_each_other(ROUND)

    assert (finding.signature, finding.culprit_ranks) == ("mpi-all-await-messages", None)
    assert "ranks 0,2 for each other" in finding.title
    assert "rank 1 waits behind them" in finding.title
    assert "rank 0 at collect (job.py:2), ranks 1-2 at work (job.py:5)" in finding.explanation


def test_numbers_in_a_communicator_of_some_ranks_are_none_of_the_job() -> None:
    finding = await_each_other(ROUND.replace("comm.", "row."))

    assert "for each other" not in finding.title
