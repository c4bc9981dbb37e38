"""The condition and the loop that part the ranks, read off the source around where they stand."""

from __future__ import annotations

import pytest
from small_jobs import native, process, report_of, still

from whyhang.analyzer.facts import (
    NOBODY,
    Call,
    CallState,
    Excerpt,
    Fact,
    Group,
    NoInterpreter,
    Source,
    StoreView,
    Track,
    Who,
    replace,
)

KEEPER = """
def offer(self, model, loss):
    if loss < self.best:
        self.best = loss
        state = {
            "model": model,
        }
        save(state, self.path)

def main():
    for epoch in range(9):
        train(model)
        keeper.offer(model, evaluate(model))
"""
WARM = """
def mean(value):
    dist.all_reduce(value)
    return value / world

def calibrate(logits):
    while spread(logits) > 0.5:
        logits = logits * mean(logits)

def main():
    calibrate(logits)
    dist.barrier()
"""
COUNTER = """
def next_item(win):
    win.Lock(0)
    win.Get(number, 0)
    if number in done:
        return None
    win.Unlock(0)
    return number

def main():
    while True:
        item = next_item(win)
        if item is None:
            break
    comm.Barrier()
"""
SAVE = "gather (torch/distributed/distributed_c10d.py:3300)\nsave (torch/distributed/x.py:9)"
REDUCE = "all_reduce (torch/distributed/distributed_c10d.py:3100)"
BARRIER = "barrier (torch/distributed/distributed_c10d.py:4900)"


def line(source: str, words: str) -> int:
    """Return the number of the first line with these words."""
    return next(n for n, text in enumerate(source.split("\n")) if words in text)


def at(source: str, call: str, *places: tuple[str, str]) -> str:
    """Make a stack: a call, below it functions at the lines with these words, innermost first."""
    frames = (f"{name} (job.py:{line(source, words)})" for name, words in places)
    return "\n".join((call, *frames))


def facts(source: str, *stacks: str, of_mpi: bool = False) -> list[Fact]:
    """Make ranks that stand still in a program whose source is known."""
    lines = tuple(source.split("\n")[1:])
    job = still(dict(enumerate(stacks)))
    return [*(native(job) if of_mpi else job), Excerpt(file="job.py", first_line=1, lines=lines)]


def in_message(rank: int, op: str, peer: int) -> Track:
    """Make a send or receive that a stack shows."""
    call = Call(op=op, state=CallState.INSIDE, p2p=True, peer=peer)
    who, source = Who(rank=rank), Source(file=f"rank{rank}.json")
    return Track(who=who, group=Group(name=""), kind="stack", source=source, calls=(call,))


def test_the_condition_around_the_call_of_the_one_is_named() -> None:
    """It stands some lines above, in a function that the others are not in."""
    save = at(KEEPER, SAVE, ("offer", "save("), ("main", "keeper.offer"))
    train = at(KEEPER, REDUCE, ("main", "train("))

    finding = report_of(facts(KEEPER, save, train, train)).findings[0]

    assert finding.culprit_ranks == (0,)
    assert "rank 0 is there under `if loss < self.best` (job.py:2)" in finding.explanation


@pytest.mark.parametrize("condition", ["dist.is_initialized()", "world_size > 1", "self.training"])
def test_a_condition_that_is_alike_on_all_ranks_is_not(condition: str) -> None:
    """It sends nobody another way."""
    source = KEEPER.replace("loss < self.best", condition)
    save = at(source, SAVE, ("offer", "save("), ("main", "keeper.offer"))
    train = at(source, REDUCE, ("main", "train("))

    finding = report_of(facts(source, save, train, train)).findings[0]

    assert "is there under" not in finding.explanation


@pytest.mark.parametrize(
    ("inside", "signature", "culprit"),
    [(1, "loop-goes-on-for-some", 2), (2, "loop-ended-by-some", 0)],
)
def test_a_loop_of_the_caller_that_ends_by_a_condition(
    inside: int, signature: str, culprit: int
) -> None:
    """The call stands in a helper; whether the loop goes on, each rank decides for itself."""
    goes_on = at(
        WARM, REDUCE, ("mean", "dist.all"), ("calibrate", "* mean"), ("main", "calibrate(l")
    )
    stacks = [at(WARM, BARRIER, ("main", "dist.barrier"))] * (3 - inside) + [goes_on] * inside

    finding = report_of(facts(WARM, *stacks)).findings[0]

    assert (finding.signature, finding.culprit_ranks) == (signature, (culprit,))
    assert "`while spread(logits) > 0.5` (job.py:6)" in finding.title
    assert not any("DistributedSampler" in text for text in finding.remedies)


def test_the_lock_of_a_window_that_a_function_was_left_with() -> None:
    """Who is out of the loop of all that wait took the lock along; its ways out are shown."""
    waits = at(COUNTER, "PMPI_Win_lock (libmpi.so:1)", ("next_item", "Lock(0"), ("main", "item = "))
    gone = at(COUNTER, "PMPI_Barrier (libmpi.so:1)", ("main", "comm.Barrier"))

    finding = report_of(facts(COUNTER, waits, gone, waits, of_mpi=True)).findings[0]

    assert (finding.signature, finding.culprit_ranks) == ("mpi-window-kept", (1,))
    assert "between Lock and Unlock stands `return None` (job.py:5)" in finding.title


def test_a_rank_that_never_wanted_the_lock_of_a_window_is_not_to_blame() -> None:
    """One that waits may have kept it, and wants it again."""
    source = COUNTER + "\ndef serve():\n    comm.Barrier()\n"
    waits = at(source, "PMPI_Win_lock (libmpi.so:1)", ("next_item", "Lock(0"), ("main", "item = "))
    serves = f"PMPI_Barrier (libmpi.so:1)\nserve (job.py:{line(source, 'def serve') + 1})"

    report = report_of(facts(source, waits, serves, waits, of_mpi=True))

    assert report.findings[0].signature == "mpi-window-kept"
    assert {finding.culprit_ranks for finding in report.findings} == {None}


JOINED = """
def main():
    with Join([model]):
        for batch in part:
            model(batch).backward()
            dist.all_reduce(loss)
"""


@pytest.mark.parametrize(
    ("words", "call", "signature"),
    [
        ("dist.all_reduce", "all_reduce", "collective-beside-join"),
        ("model(batch)", "forward (torch/nn/parallel/distributed.py:1600)\nforward", None),
    ],
)
def test_a_collective_beside_join_is_made_by_those_with_data_alone(
    words: str, call: str, signature: str | None
) -> None:
    """Join makes up for the calls of its models, on the ranks that have none left."""
    join = "torch/distributed/algorithms/join.py"
    frames = f"{REDUCE}\n_get_num_nonjoined_procs ({join}:286)\n__exit__ ({join}:265)"
    through = at(JOINED, frames, ("main", "with Join"))
    calls = at(JOINED, REDUCE if call == "all_reduce" else f"{REDUCE}\n{call} (m.py:1)")
    calls = at(JOINED, calls, ("main", words))

    found = [each.signature for each in report_of(facts(JOINED, calls, through, through)).findings]

    assert (found[0] == "collective-beside-join") is (signature is not None)


@pytest.mark.parametrize(
    ("keys", "call", "group"),
    [
        (None, "dist.all_reduce(loss)", "default_pg"),
        (None, "dist.all_reduce(loss, group=self.tp_group)", "tp_group"),
        (None, "dist.all_reduce(loss, group=groups[rank % 2])", None),
        (None, "loss.backward()", None),
        (("default_pg/0//cpu//0/0", "default_pg/0//cpu//0/1"), "loss.backward()", "default_pg"),
        (("default_pg/0//cpu//0/0", "default_pg/0//1//cpu//0/0"), "loss.backward()", None),
    ],
)
def test_the_group_of_a_call_is_named_by_its_line_or_by_the_store(
    keys: tuple[str, ...] | None, call: str, group: str | None
) -> None:
    """Without a record of calls; where several groups may be meant, none is."""
    source = f"\ndef main():\n    {call}\n    load()\n"
    calls = at(source, REDUCE, ("main", call))
    elsewhere = f"load (data.py:3)\nmain (job.py:{line(source, 'load()')})"
    stored = StoreView(
        who=NOBODY, source=Source(file="s"), host="h", port=1, outcome="answered", keys=keys
    )

    finding = report_of([*facts(source, calls, elsewhere), stored]).findings[0]

    assert finding.collective is not None
    assert (finding.collective.op, finding.collective.group) == ("all_reduce", group)


LEVELS = """
def share(norm):
    if WORLD.rank == 0 and norm > 20:
        return WORLD.allreduce(norm)
    return norm

def total(part):
    NODE.Reduce(part, whole)
    if LEADERS != MPI.COMM_NULL:
        LEADERS.Allreduce(whole)
    NODE.Bcast(whole)

def main():
    for step in range(9):
        total(part)
        share(norm)
"""


@pytest.mark.parametrize(
    ("condition", "culprits"), [("WORLD.rank == 0 and norm > 20", (0,)), ("norm > 20", None)]
)
def test_a_call_on_all_ranks_behind_a_condition_on_the_rank_is_the_odd_one(
    condition: str, culprits: tuple[int, ...] | None
) -> None:
    """Beside calls on parts of the job, which only some ranks come to by design."""
    source = LEVELS.replace("WORLD.rank == 0 and norm > 20", condition)
    places = {
        "WORLD.allr": "share",
        "NODE.Reduce": "total",
        "LEADERS.Allr": "total",
        "NODE.B": "total",
    }
    ops = ("Allreduce", "Reduce", "Allreduce", "Bcast")
    stacks = [
        at(source, f"PMPI_{op} (libmpi.so:1)", (function, words), ("main", f"    {function}("))
        for op, (words, function) in zip(ops, places.items(), strict=True)
    ]

    finding = report_of(facts(source, *stacks, of_mpi=True)).findings[0]

    assert (finding.signature, finding.culprit_ranks) == ("mpi-communicators-crossed", culprits)
    assert "rank 1 in reduce on NODE (job.py:7); rank 2 in allreduce on LEADERS" in finding.title
    assert "rank 3 in bcast on NODE (job.py:10)" in finding.title


def test_the_stage_that_went_round_its_loop_less_often_is_named() -> None:
    """Its partners on both sides are still in theirs, a function that is called by itself."""
    source = """
def forward(self):
    for m in range(self.micro):
        x = recv(self.rank - 1)
        send(x, self.rank + 1)

def backward(self):
    for x in reversed(self.outs):
        grad = recv(self.rank + 1)

def main():
    stage.forward()
    stage.backward()
"""
    sends = "send (torch/distributed/distributed_c10d.py:2753)"
    receives = "recv (torch/distributed/distributed_c10d.py:2799)"
    inside = (("forward", "x = recv"), ("main", "stage.forward"))
    stacks = [
        at(source, sends, ("forward", "send(x"), inside[1]),
        at(source, receives, ("backward", "grad ="), ("main", "stage.backward")),
        at(source, receives, *inside),
    ]
    peers = [in_message(*each) for each in ((0, "send", 1), (1, "recv", 2), (2, "recv", 1))]

    finding = report_of([*facts(source, *stacks), *peers]).findings[0]

    assert (finding.signature, finding.culprit_ranks) == ("p2p-mismatch", (1,))
    assert "rank 1 has left the loop `for m in range(self.micro)` (job.py:2)" in finding.title


EXCHANGE = """
def migrate(self):
    if not self.particles:
        return 0
    return sum(self.group.all_to_all(self.boxes()))

def main():
    for step in range(400):
        if self.is_due(step):
            migrate(self)
        dist.barrier()
"""
TO_ALL = "all_to_all (torch/distributed/distributed_c10d.py:4000)"


@pytest.mark.parametrize(
    ("left_out", "words"),
    [
        ("", "may have left by `return 0` (job.py:3) under `if not self.particles` (job.py:2)"),
        ("        return 0\n", "ranks 1-2 stand there under `if self.is_due(step)` (job.py:"),
    ],
)
def test_what_led_a_rank_past_the_call_of_the_others(left_out: str, words: str) -> None:
    """A return above it under a condition, or a condition around it."""
    source = EXCHANGE.replace(left_out, "") if left_out else EXCHANGE
    exchanges = at(source, TO_ALL, ("migrate", "all_to_all"), ("main", "    migrate(self)"))
    gone = at(source, BARRIER, ("main", "dist.barrier"))

    finding = report_of(facts(source, gone, exchanges, exchanges)).findings[0]

    assert finding.culprit_ranks == (0,)
    assert words in finding.explanation


ROUND = """
def step(self, batch):
    if world_size == 1:
        return
    if batch is None:
        return
    with sync:
        dist.all_reduce(self.loss(batch))

def main():
    for batch in loader():
        if batch.empty: continue
        for part in batch:
            if part is None:
                continue
        try:
            step(batch)
        except ValueError as error:
            raise
        except KeyboardInterrupt:
            log()
        except Exception as error:
            log(error)
    dist.barrier()
"""


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("", "", "by `if batch is None` (job.py:4) or `except Exception as error` (job.py:21);"),
        ("is None:\n        return", "is None:\n        log()", "or `if batch.empty: continue` ("),
        ("    with sync:", "    with self.model.no_sync():", "by `with self.model.no_sync()` ("),
    ],
)
def test_what_has_a_turn_of_a_loop_go_by_without_the_call(old: str, new: str, words: str) -> None:
    """A return or continue above it, a handler that goes on.

    None that raises, that belongs to a loop within, or that is left alike by all ranks.
    """
    source = ROUND.replace(old, new)
    inside = at(source, REDUCE, ("step", "dist.all_reduce"), ("main", "    step(batch)"))
    left = at(source, BARRIER, ("main", "dist.barrier"))

    finding = report_of(facts(source, left, inside, inside)).findings[0]

    assert (finding.signature, finding.culprit_ranks) == ("uneven-inputs", (0,))
    assert words in finding.explanation
    assert "world_size" not in finding.explanation
    assert "part is None" not in finding.explanation


STRAIGHT = """
def main():
    for batch in loader():
        dist.all_reduce(f(batch))
    dist.barrier()
"""


def test_a_loop_with_no_way_round_its_call_tells_of_none() -> None:
    """There are different numbers of batches then."""
    inside = at(STRAIGHT, REDUCE, ("main", "dist.all_reduce"))
    left = at(STRAIGHT, BARRIER, ("main", "dist.barrier"))

    finding = report_of(facts(STRAIGHT, left, inside, inside)).findings[0]

    assert finding.signature == "uneven-inputs"
    assert "without that call" not in finding.explanation


PUSHES = """
def run(self, steps):
    for i in range(steps):
        for part in self.parts():
            if part is None:
                break
        if self.stop(loss):
            break
        new = push(gradient)

def main():
    run(100000)
    shutdown()
"""


def test_a_break_above_the_call_of_the_others_is_a_way_past_it() -> None:
    """Not one that leaves a loop within."""
    pushes = at(PUSHES, REDUCE, ("run", "push("), ("main", "    run("))
    through = at(PUSHES, SAVE, ("main", "shutdown"))

    finding = report_of(facts(PUSHES, through, pushes, pushes)).findings[0]

    assert finding.culprit_ranks == (0,)
    assert "left by `break` (job.py:7) under `if self.stop(loss)` (job.py:6)" in finding.explanation
    assert "part is None" not in finding.explanation


PART = """
def train(part, epochs):
    if part == MPI.COMM_NULL:
        return None
    for epoch in range(epochs):
        WORLD.Allreduce(norm, spread)

def main():
    report(train(split(WORLD), 50))
"""


def test_a_return_is_the_way_of_who_came_to_the_end_of_its_program() -> None:
    """Its interpreter has ended; where the others wait, a condition may have led past the call."""
    calls = at(PART, "PMPI_Allreduce (libmpi.so:1)", ("train", "WORLD.All"), ("main", "report"))
    job = facts(PART, calls, calls, of_mpi=True)
    environ = {"OMPI_COMM_WORLD_RANK": "2"}
    ended = [replace(process(2, look=look, environ=environ), started_at=900.0) for look in (0, 1)]
    gone = NoInterpreter(who=ended[0].who, source=Source(file="p"))

    finding = report_of([*job, *ended, gone]).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("mpi-missing-rank", (2,))
    assert (
        "Rank 2 may have come past train (job.py:5) by `return None` (job.py:3) "
        "under `if part == MPI.COMM_NULL` (job.py:2)."
    ) in finding.explanation


@pytest.mark.parametrize("unlocked", [True, False])
def test_a_return_with_the_unlock_above_it_keeps_no_lock(unlocked: bool) -> None:
    """Of the ways out of the function only those that leave the window locked are named."""
    undo = "        win.Unlock(0)\n" if unlocked else ""
    source = COUNTER.replace("        return None", f"{undo}        return None")
    waits = at(source, "PMPI_Win_lock (libmpi.so:1)", ("next_item", "win.Lock"), ("main", "item ="))
    beyond = at(source, "PMPI_Barrier (libmpi.so:1)", ("main", "Barrier"))

    finding = report_of(facts(source, beyond, waits, waits, of_mpi=True)).findings[0]

    assert finding.signature == "mpi-window-kept"
    assert ("return None" in finding.title) is not unlocked
