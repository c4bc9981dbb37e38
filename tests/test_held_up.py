"""Who holds the others up where the main thread does not tell: threads, pools, branches, locks."""

from __future__ import annotations

import pytest
from log_docs import read_log
from small_jobs import (
    ALL_REDUCE,
    BARRIER,
    BROADCAST,
    ELSEWHERE,
    LOADER,
    WORKER,
    case_of,
    dump,
    frames,
    process,
    report_of,
    still,
)

from whyhang.analyzer.commands.left_open import still_beside_others, with_a_stuck_worker
from whyhang.analyzer.commands.questions import their_workers
from whyhang.analyzer.facts import (
    Excerpt,
    Fact,
    LoopCounter,
    Process,
    Role,
    Source,
    StackDump,
    Thread,
    ThreadState,
    Trust,
    Who,
    replace,
)
from whyhang.analyzer.report import Finding

WRITER = """
_save_state_dict (torch/distributed/checkpoint/state_dict_saver.py:513)
save_wrapper (torch/distributed/checkpoint/_async_thread_executor.py:30)
run (concurrent/futures/thread.py:58)
_worker (concurrent/futures/thread.py:83)
run (threading.py:982)
"""
GATHERS = "gather_object (torch/distributed/distributed_c10d.py:3631)\n" + WRITER.strip()
WRITES = "write_data (tiered.py:11)\n" + WRITER.strip()


def beside(facts: list[Fact], threads: dict[int, str]) -> list[Fact]:
    """Give ranks a second thread each; one in the user's own code waits in the kernel."""
    changed: list[Fact] = []
    for fact in facts:
        rank = fact.who.rank if isinstance(fact, (StackDump, Process)) else None
        if isinstance(fact, StackDump) and rank in threads:
            thread = Thread(name="Writer_0", tid=77, frames=frames(threads[rank]))
            fact = replace(fact, threads=(*fact.threads, thread))
        elif isinstance(fact, Process) and rank in threads:
            sleeps = "wait_for_partner" if "tiered" in threads[rank] else "futex_wait_queue"
            state = ThreadState(tid=77, name="python", state="S", wchan=sleeps)
            fact = replace(fact, threads=(*fact.threads, state))
        changed.append(fact)
    return changed


def test_a_rank_whose_writer_is_held_is_the_one() -> None:
    """All main threads are in all_reduce; the writers of two wait for that of the third."""
    ranks = still(dict.fromkeys(range(3), ALL_REDUCE))

    finding = report_of(beside(ranks, {0: WRITES, 1: GATHERS, 2: GATHERS})).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("checkpoint-stall", (0,))
    assert finding.location is not None
    assert finding.location.function == "write_data"


@pytest.mark.parametrize(
    "threads",
    [{0: WRITES}, {0: WRITES, 1: WRITES, 2: WRITES}, {0: GATHERS, 1: GATHERS, 2: GATHERS}],
)
def test_threads_for_which_nobody_waits_blame_nobody(threads: dict[int, str]) -> None:
    """A thread that is held is somebody's fault only if the same thread of others waits."""
    ranks = still(dict.fromkeys(range(3), ALL_REDUCE))

    assert report_of(beside(ranks, threads)).findings[0].culprit_ranks is None


POOL = """
wait (threading.py:327)
get (multiprocessing/pool.py:768)
map (multiprocessing/pool.py:367)
tokenise (train.py:11)
<module> (train.py:60)
"""
IDLE = """
get (multiprocessing/queues.py:364)
worker (multiprocessing/pool.py:114)
run (multiprocessing/process.py:108)
"""
BUSY = "encode (train.py:7)\n" + IDLE.strip()


def pool(*stacks: str, late: float) -> list[Fact]:
    """Let rank 1 wait for its pool, the last worker of which was started later than the others."""
    facts = still({0: ALL_REDUCE, 1: POOL, 2: ALL_REDUCE})
    for number, stack in enumerate(stacks):
        pid, started = 4000 + number, 50.0 + late * (number == len(stacks) - 1)
        worker = replace(
            process(1, pid=pid),
            role=Role.DATALOADER_WORKER,
            ppid=1001,
            who=Who(pid=pid),
            started_at=started,
        )
        facts += [worker, dump(None, stack, pid=pid)]
    return facts


def test_a_task_that_was_lost_with_its_worker() -> None:
    """All workers wait for tasks, one of them is younger: it replaces one that was killed."""
    finding = report_of(pool(IDLE, IDLE, late=40)).findings[0]

    assert (finding.signature, finding.culprit_ranks) == ("pool-task-lost", (1,))
    assert "process 4001 was started in place of one that ended" in finding.explanation


def test_a_pool_at_work_has_lost_nothing() -> None:
    """One worker is in a task; without a younger worker the loss is less sure."""
    assert report_of(pool(BUSY, IDLE, late=40)).findings[0].signature != "pool-task-lost"
    sure, unsure = (report_of(pool(IDLE, IDLE, late=late)).findings[0] for late in (40, 0.1))
    assert unsure.signature == "pool-task-lost"
    assert unsure.confidence < sure.confidence
    assert "in place of" not in unsure.explanation


def finding_at(head: str, last: str = "        dist.barrier()") -> Finding:
    """Let rank 0 be in a barrier below ``head``, and rank 1 in a broadcast."""
    lines = ("def main():", "  while True:", f"    {head}", last)
    source = Excerpt(file="train.py", first_line=52, lines=lines)
    return report_of([*still({0: BARRIER, 1: BROADCAST}), source]).findings[0]


@pytest.mark.parametrize(
    "head",
    [
        "if rank == 0:",
        "if step % 10 == 0 and self.trainer.is_global_zero:",
        "if accelerator.is_main_process:",
        "if dist.get_rank() == dist.get_world_size() - 1:",
        "elif not args.local_rank:",
        "if self.rank in writers:  # only these",
    ],
)
def test_of_two_calls_the_one_behind_a_condition_on_the_rank_is_too_many(head: str) -> None:
    """Two sides of one rank each; one of them is where only some ranks come."""
    finding = finding_at(head)

    assert (finding.category, finding.culprit_ranks) == ("collective-mismatch", (0,))
    assert head.partition("  #")[0].rstrip(":") in finding.explanation
    assert finding.location is not None
    assert finding.location.line == 55


@pytest.mark.parametrize(
    "head", ["if step == 10:", "if frank:", "while rank:", "with rank_zero_only():", "else:"]
)
def test_other_conditions_blame_nobody(head: str) -> None:
    """Every rank may come there; whose else it is, is not seen."""
    assert finding_at(head).culprit_ranks is None


def test_beside_a_branch_that_is_not_seen_whole_nobody_is_blamed() -> None:
    """The other rank may be in the else of the same condition."""
    lines = ("def train():", "    if True:", "    else:", "        dist.broadcast(x, 0)")
    others = Excerpt(file="train.py", first_line=39, lines=lines)
    mine = Excerpt(file="train.py", first_line=54, lines=("if rank == 0:", "    dist.barrier()"))

    facts = [*still({0: BARRIER, 1: BROADCAST}), others, mine]

    assert report_of(facts).findings[0].culprit_ranks is None


SQLITE = """
record (train.py:9)
train (train.py:22)
<module> (train.py:60)
"""
BUSY_HANDLER = tuple(
    replace(frame, native=True)
    for frame in frames(
        "clock_nanosleep (libc.so.6:0)\nusleep (libc.so.6:0)\n"
        "sqlite3InvokeBusyHandler (libsqlite3.so.0:0)\nsqlite3_step (libsqlite3.so.0:0)"
    )
)


def test_a_database_that_a_rank_has_locked_leads_to_it() -> None:
    """SQLite naps and tries again; the rank that polls has the file open that the other locked."""
    facts: list[Fact] = []
    for fact in still({0: ALL_REDUCE, 1: SQLITE}):
        if isinstance(fact, StackDump) and fact.who.rank == 1:
            main = fact.threads[0]
            fact = replace(fact, threads=(replace(main, frames=(*BUSY_HANDLER, *main.frames)),))
        elif isinstance(fact, Process) and fact.who.rank == 1:
            fact = replace(fact, descriptors=("/runs/results.db x2",))
        elif isinstance(fact, Process):
            fact = replace(fact, holds=("/runs/other.lock", "/runs/results.db"))
        facts.append(fact)

    finding = report_of(facts).findings[0]

    assert (finding.signature, finding.culprit_ranks) == ("file-lock-held-by-rank", (0,))
    assert "/runs/results.db" in finding.title


@pytest.mark.parametrize(
    ("loop", "signature"),
    [
        (
            (
                "        try:",
                "            fd = os.open(name, flags)",
                "        except FileExistsError:",
            ),
            "stale-lock-file",
        ),
        (("", "", "        while os.path.exists(lock_path):"), "stale-lock-file"),
        (("", "", "        while not os.path.exists(lock_path):"), "missing-rank-in-collective"),
        (("", "", "        while os.path.exists(run_file):"), "missing-rank-in-collective"),
    ],
    ids=["exclusive creation", "until it is gone", "until it is there", "a service"],
)
def test_a_file_that_must_be_gone_is_a_lock(loop: tuple[str, ...], signature: str) -> None:
    """Programs make locks of their own: who sleeps until a file is removed waits for its holder."""
    nap = "claim (cache.py:23)\n<module> (train.py:60)"
    lines = ("def claim(path):", *loop, "            time.sleep(0.2)")
    excerpt = Excerpt(file="cache.py", first_line=19, lines=lines)
    facts = [*still({0: ALL_REDUCE, 1: nap}), excerpt]

    finding = report_of(facts).findings[0]

    assert (finding.signature, finding.culprit_ranks) == (signature, (1,))


def test_a_worker_that_stands_in_the_dataset_is_asked_for_its_native_stack() -> None:
    """Its Python stack leaves open what it waits for; the native one says: a lock."""
    facts = still({0: ALL_REDUCE, 1: LOADER})
    for look in (0, 1):
        seen = process(1, pid=4000, look=look)
        facts.append(replace(seen, role=Role.DATALOADER_WORKER, ppid=1001, who=Who(pid=4000)))
        facts.append(dump(None, WORKER, pid=4000, look=look))
    case = case_of(facts)

    assert with_a_stuck_worker(case) == [1]
    assert [named.pid for named in their_workers(case, [1])] == [4000]

    wants = "__psynch (libc.so.6:0)\nlock_PyThread_acquire_lock (libpython3.so:0)" + WORKER.rstrip()
    deep = dump(None, wants, pid=4000, look=1)
    top = tuple(replace(frame, native=True) for frame in deep.threads[0].frames[:2])
    main = replace(deep.threads[0], frames=(*top, *deep.threads[0].frames[2:]))
    facts.append(replace(deep, threads=(main,)))

    assert with_a_stuck_worker(case_of(facts)) == []
    assert report_of(facts).findings[0].signature == "fork-deadlock"


def test_a_thread_that_stands_so_on_all_ranks_holds_nobody_up() -> None:
    """Every rank has a heartbeat between two beats; one has come to where it waits for its end."""
    beat = Thread(
        name="heartbeat",
        tid=7,
        frames=frames("wait (threading.py:331)\nrun (beat.py:12)\n_bootstrap (threading.py:1002)"),
    )
    ends = "join (threading.py:1119)\nfinish (train.py:84)\n<module> (train.py:90)"
    facts = [
        replace(fact, threads=(*fact.threads, beat)) if isinstance(fact, StackDump) else fact
        for fact in still({0: ALL_REDUCE, 1: ends, 2: ALL_REDUCE})
    ]

    finding = report_of(facts).findings[0]

    assert finding.culprit_ranks == (1,)
    assert finding.location is not None
    assert (finding.location.function, finding.location.line) == ("finish", 84)


RECEIVES = "manager (train.py:10)\nmain (train.py:30)\n<module> (train.py:60)"
IN_MPI = frames("PMPI_Recv (libmpi.so.40:0)")[0]
IN_BARRIER = frames("PMPI_Barrier (libmpi.so.40:0)")[0]


@pytest.mark.parametrize("head", ["for step in range(9):", "if rank == 0:"])
@pytest.mark.parametrize(
    "line", ["result = comm.recv(source=MPI.ANY_SOURCE)", "comm.Recv(halo, source=left)"]
)
def test_who_receives_beside_a_barrier_is_not_the_one(head: str, line: str) -> None:
    """One of the others may owe the message; that they are the most proves nothing.

    Nor that it receives in a branch of its own: that is what a master does.
    """
    facts: list[Fact] = [Excerpt(file="train.py", first_line=9, lines=(head, f"    {line}"))]
    for fact in still({0: RECEIVES, 1: ELSEWHERE, 2: ELSEWHERE}):
        if isinstance(fact, StackDump):
            call = replace(IN_BARRIER if fact.who.rank else IN_MPI, native=True)
            main = fact.threads[0]
            fact = replace(fact, threads=(replace(main, frames=(call, *main.frames)),))
        facts.append(fact)

    finding = report_of(facts).findings[0]

    assert (finding.signature, finding.culprit_ranks) == ("mpi-mismatch", None)


EXITING = """
_shutdown (threading.py:1553)
"""
POLLING = """
wait (threading.py:331)
wait (threading.py:629)
run (telemetry.py:8)
"""


def test_a_thread_that_does_not_end_keeps_its_rank() -> None:
    """The main program is through: there is no deadlock, only a thread that nobody stops."""
    facts = beside(still({0: ALL_REDUCE, 1: EXITING}), {1: POLLING})

    assert report_of(facts).findings[0].signature == "thread-keeps-rank-alive"


def test_an_exception_ended_the_program_whose_thread_does_not_end() -> None:
    """What is printed of it is the cause; of a rank that is still in its program it is none."""
    log = (
        '[rank1]: Traceback (most recent call last):\n[rank1]:   File "train.py", line 9, in main\n'
        "[rank1]: KeyError: 'tokens'\n"
    )
    for stack, signature in (
        (EXITING, "uncaught-exception"),
        (SLEEPS, "missing-rank-in-collective"),
    ):
        facts = beside(still({0: ALL_REDUCE, 1: stack}), {1: POLLING})
        assert report_of([*facts, *read_log(log)]).findings[0].signature == signature


SLEEPS = """
main (train.py:52)
<module> (train.py:60)
"""


def mesh(later: tuple[int, int], *, together: bool) -> list[Fact]:
    """Let ranks 1 and 3 wait, and 0 and 2 go on from step 20; ``together``: seen in all_reduce."""
    facts = still({1: ALL_REDUCE, 3: BROADCAST}, world=4)
    for rank in (0, 2):
        for look, text in enumerate((ALL_REDUCE if together else SLEEPS, SLEEPS)):
            facts += [process(rank, look=look, woke=9 * look), dump(rank, text, look=look)]
    steps = {0: (20, later[0]), 1: (16, 16), 2: (20, later[1]), 3: (15, 15)}
    for rank, values in steps.items():
        who = Who(rank=rank, trust=Trust.CONTENT, pid=1000 + rank)
        facts += [
            LoopCounter(
                name="step",
                value=value,
                function="main",
                file="train.py",
                who=who,
                source=Source(file="claims.json"),
            )
            for value in values
        ]
    return facts


@pytest.mark.parametrize("together", [True, False])
def test_ranks_that_go_on_leave_one_behind(together: bool) -> None:
    """Half of a mesh goes on: who counted least is in a call that the others did not make.

    That those make calls with each other is seen, or told by counts that stay alike.
    """
    report = report_of(mesh((90, 89), together=together))
    first = report.findings[0]

    assert (report.verdict, first.signature, first.culprit_ranks) == ("hung", "left-behind", (3,))
    assert first.affected_ranks == (1,)
    assert "step=15" in first.title
    assert "ranks 0,2 have gone on to step=90" in first.title
    assert {rank.rank: rank.activity for rank in report.ranks}[0] != "running in place"


def test_steps_are_asked_for_until_those_who_stand_have_given_theirs() -> None:
    """Whose steps were counted before is no reason to leave the others."""
    facts = mesh((90, 89), together=True)
    of_the_ahead = [f for f in facts if not isinstance(f, LoopCounter) or f.who.rank in {0, 2}]

    assert len(still_beside_others(case_of(of_the_ahead))) == 4
    assert not still_beside_others(case_of(facts))


@pytest.mark.parametrize(("later", "together"), [((20, 20), True), ((90, 60), False)])
def test_ranks_that_do_not_go_on_together_leave_nobody_behind(
    later: tuple[int, int], together: bool
) -> None:
    """Counters that stand still, or loops of work that each does alone, tell nothing."""
    report = report_of(mesh(later, together=together))

    assert all(finding.signature != "left-behind" for finding in report.findings)


LOCKED = """
handle (logging/__init__.py:978)
main (train.py:29)
<module> (train.py:60)
"""


@pytest.mark.parametrize(("looks", "verdict"), [(8, "hung"), (4, "slow")])
def test_a_hang_that_begins_while_it_is_looked_at(looks: int, verdict: str) -> None:
    """What moved before the first look and never since is no slow job, once that is long ago."""
    facts: list[Fact] = []
    for rank, text in ((0, ALL_REDUCE), (1, LOCKED), (2, ALL_REDUCE)):
        for look in range(looks):
            woke = 9 if look else 0
            facts += [process(rank, look=look, woke=woke), dump(rank, text, look=look)]

    assert report_of(facts).verdict == verdict
