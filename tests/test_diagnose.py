"""The diagnosis of small jobs made of stacks and process states."""

from __future__ import annotations

import pytest
from small_jobs import (
    ALL_REDUCE,
    BARRIER,
    BROADCAST,
    ELSEWHERE,
    INIT,
    LOADER,
    WORKER,
    dump,
    process,
    report_of,
    still,
)

from whyhang.analyzer.facts import (
    Call,
    CallState,
    Excerpt,
    Fact,
    Frame,
    Group,
    Process,
    Role,
    Setting,
    Source,
    Track,
    Who,
    replace,
)
from whyhang.analyzer.report import Finding


def test_the_rank_in_another_function_is_blamed() -> None:
    """A rank that waits for nobody while the others wait in a collective is the culprit."""
    report = report_of(still({0: ALL_REDUCE, 1: ALL_REDUCE, 2: ELSEWHERE, 3: ALL_REDUCE}))

    assert report.verdict == "hung"
    assert report.findings[0].category == "missing-rank-in-collective"
    assert report.findings[0].culprit_ranks == (2,)
    assert report.findings[0].affected_ranks == (0, 1, 3)
    assert report.findings[0].location is not None
    assert report.findings[0].location.function == "evaluate"


def test_a_blocked_dataloader_names_the_line_in_the_worker() -> None:
    """The location of a blocked DataLoader is where its busy worker stands."""
    facts = still({0: ALL_REDUCE, 1: LOADER})
    worker = replace(
        process(1, pid=4000), role=Role.DATALOADER_WORKER, ppid=1001, who=Who(pid=4000)
    )
    facts += [worker, dump(None, WORKER, pid=4000)]

    finding = report_of(facts).findings[0]

    assert finding.category == "dataloader-blocked"
    assert finding.culprit_ranks == (1,)
    assert finding.location is not None
    assert (finding.location.function, finding.location.line) == ("__getitem__", 12)


def test_the_minority_of_two_operations_is_blamed() -> None:
    """Three ranks in all_reduce and one in broadcast are a mismatch, and the one is named."""
    finding = report_of(
        still({0: ALL_REDUCE, 1: BROADCAST, 2: ALL_REDUCE, 3: ALL_REDUCE})
    ).findings[0]

    assert finding.category == "collective-mismatch"
    assert finding.culprit_ranks == (1,)
    assert finding.collective is not None
    assert (finding.collective.op, finding.collective.others) == ("broadcast", "all_reduce")


def test_a_tie_names_nobody() -> None:
    """Two ranks against two: the mismatch is said, nobody is blamed."""
    finding = report_of(still({0: ALL_REDUCE, 1: BROADCAST, 2: ALL_REDUCE, 3: BROADCAST})).findings[
        0
    ]

    assert finding.category == "collective-mismatch"
    assert finding.culprit_ranks is None


def test_a_rank_past_the_loop_is_uneven_inputs() -> None:
    """A rank in the barrier behind the loop, the others still in a step: uneven inputs."""
    in_loop = ALL_REDUCE.replace("train (train.py:40)", "main (train.py:40)")
    source = (
        Excerpt(file="train.py", first_line=40, lines=("        dist.all_reduce(grad)",)),
        Excerpt(file="train.py", first_line=55, lines=("    dist.barrier()",)),
    )
    facts = still({0: in_loop, 1: in_loop, 2: BARRIER, 3: in_loop})

    finding = report_of([*facts, *source]).findings[0]

    assert finding.category == "uneven-inputs"
    assert finding.culprit_ranks == (2,)


@pytest.mark.parametrize(
    ("head", "category"),
    [
        ("    for batch in loader(rank, world):", "uneven-inputs"),
        ("    for parameter in model.parameters():", "collective-mismatch"),
        ("    if rank == 2:", "collective-mismatch"),
    ],
)
def test_a_rank_still_in_a_loop_over_data_has_more_of_it(head: str, category: str) -> None:
    """The many are in the barrier behind the loop: the one that is still inside is named."""
    in_loop = ALL_REDUCE.replace("train (train.py:40)", "main (train.py:40)")
    source = (
        Excerpt(file="train.py", first_line=39, lines=(head, "        dist.all_reduce(grad)")),
        Excerpt(file="train.py", first_line=55, lines=("    dist.barrier()",)),
    )
    facts = still({0: BARRIER, 1: BARRIER, 2: in_loop, 3: BARRIER})

    finding = report_of([*facts, *source]).findings[0]

    assert (finding.category, finding.culprit_ranks) == (category, (2,))


@pytest.mark.parametrize(("others", "culprits"), [(2, (2,)), (1, None)])
def test_a_rank_that_compiles_alone_is_told_apart(
    others: int, culprits: tuple[int, ...] | None
) -> None:
    """A collective made while compiling meets no call of ranks that have compiled before."""
    compiling = BROADCAST.replace(
        "train (train.py:42)",
        "tuned (train.py:12)\n_compile (torch/_dynamo/convert_frame.py:900)\ntrain (train.py:42)",
    )
    facts = still({**dict.fromkeys(range(others), ALL_REDUCE), others: compiling})

    finding = report_of(facts).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("compile-divergence", culprits)
    assert "compiling alone and waits in broadcast at tuned (train.py:12)" in finding.title


def test_ranks_may_meet_at_a_barrier_of_multiprocessing() -> None:
    """It is no lock of their own: the one that is in another barrier is where to look."""
    meets = """
Condition.wait (multiprocessing/synchronize.py:268)
Condition.wait_for (multiprocessing/synchronize.py:320)
Barrier._wait (threading.py:732)
Barrier.wait (threading.py:697)
learn (train.py:21)
<module> (train.py:60)
"""
    finding = report_of(still({0: meets, 1: meets, 2: meets, 3: BARRIER})).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("collective-mismatch", (3,))
    assert "ranks 0-2 in a meeting of processes" in finding.title


def test_a_debugger_of_the_programs_own_is_one() -> None:
    """A class made from Pdb waits for somebody to connect; no library's frame tells."""
    waits = """
accept (socket.py:294)
RemotePdb.__init__ (train.py:12)
check (train.py:22)
<module> (train.py:60)
"""
    finding = report_of(still({0: ALL_REDUCE, 1: ALL_REDUCE, 2: waits})).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("rank-stopped", (2,))
    assert "in a debugger" in finding.title


def test_without_the_source_a_barrier_further_down_is_a_mismatch() -> None:
    """The barrier may be the bug itself: nothing is said of a loop that nobody saw."""
    in_loop = ALL_REDUCE.replace("train (train.py:40)", "main (train.py:40)")

    finding = report_of(still({0: in_loop, 1: in_loop, 2: BARRIER, 3: in_loop})).findings[0]

    assert finding.category == "collective-mismatch"
    assert finding.culprit_ranks == (2,)


def test_a_stopped_process_is_blamed_whatever_its_stack_says() -> None:
    """A rank in state T is the cause even inside the same collective as the others."""
    facts = still({0: ALL_REDUCE, 1: ALL_REDUCE, 2: ALL_REDUCE})
    facts = [replace(f, state="T") if f.who.rank == 1 and hasattr(f, "state") else f for f in facts]

    finding = report_of(facts).findings[0]

    assert finding.category == "rank-stopped"
    assert finding.culprit_ranks == (1,)


def test_a_rank_without_process_died() -> None:
    """On a host whose processes were read, an expected rank that is not there has died."""
    report = report_of(still({0: ALL_REDUCE, 1: ALL_REDUCE, 3: ALL_REDUCE}, world=4))

    assert report.findings[0].category == "rank-died"
    assert report.findings[0].culprit_ranks == (2,)
    assert next(r for r in report.ranks if r.rank == 2).state == "missing"


def test_absent_evidence_is_no_guilt() -> None:
    """With stacks of three of 64 ranks, all in one collective, nobody is blamed."""
    facts = [dump(rank, ALL_REDUCE) for rank in (0, 1, 2)]

    report = report_of(facts)

    assert all(finding.culprit_ranks is None for finding in report.findings)
    assert report.verdict in {"hung", "inconclusive"}


def test_a_rank_late_for_init_is_named() -> None:
    """While the others wait in the rendezvous, the one elsewhere is the missing rank."""
    finding = report_of(still({0: INIT, 1: INIT, 2: ELSEWHERE})).findings[0]

    assert finding.category == "init-missing-rank"
    assert finding.culprit_ranks == (2,)


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
    assert _of_loop(head, "    dist.barrier()").category == "uneven-inputs"


def test_behind_an_if_of_the_same_loop_is_not_past_it() -> None:
    """A call further down in the body of the loop is no end of it, whatever ifs it has left."""
    found = _of_loop("    for batch in loader:", "        dist.barrier()")

    assert found.category == "collective-mismatch"
    assert found.culprit_ranks == (2,)


def _of_loop(head: str, last: str) -> Finding:
    inside = ALL_REDUCE.replace("train (train.py:40)", "main (train.py:40)")
    lines = (head, "", "        with maybe_sync():", "            dist.all_reduce(grad)")
    facts = still({0: inside, 1: inside, 2: BARRIER, 3: inside})
    source = (
        Excerpt(file="train.py", first_line=37, lines=lines),
        Excerpt(file="train.py", first_line=55, lines=(last,)),
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

    found = [f.category for f in report_of(looks).findings]

    assert found.count("storage-io-blocked") == times


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


DDP_REDUCTION = """
_engine_run_backward (torch/autograd/graph.py:979)
backward (torch/autograd/__init__.py:395)
train (train.py:39)
<module> (train.py:60)
"""
REDUCE = ALL_REDUCE.replace("all_reduce", "reduce")
GATHER = ALL_REDUCE.replace("all_reduce", "all_gather").replace(":40)", ":44)")
RECV = """
recv (torch/distributed/distributed_c10d.py:2700)
exchange (train.py:30)
<module> (train.py:60)
"""


def test_ddps_all_reduce_and_the_loss_cannot_meet() -> None:
    """One operation called from two places of which one is DDP's backward is a mismatch."""
    facts = still({0: DDP_REDUCTION, 1: DDP_REDUCTION, 2: ALL_REDUCE, 3: DDP_REDUCTION})
    reducer = Frame(
        function="c10d::Reducer::finalize_backward", file="libtorch_cpu.so", native=True
    )
    for rank in (0, 1, 3):
        last = dump(rank, DDP_REDUCTION, look=1)
        inner = (reducer, *last.threads[0].frames)
        facts.append(replace(last, threads=(replace(last.threads[0], frames=inner),)))

    finding = report_of(facts).findings[0]

    assert finding.category == "collective-mismatch"
    assert finding.culprit_ranks == (2,)
    assert "DDP's gradient all_reduce" in finding.title


def test_one_operation_at_two_lines_may_be_one_call() -> None:
    """Rank 0 may take part in a collective from a branch of its own: nobody is blamed for that."""
    own = ALL_REDUCE.replace("train.py:40", "train.py:44")

    findings = report_of(still({0: own, 1: ALL_REDUCE, 2: ALL_REDUCE})).findings

    assert all(f.culprit_ranks is None for f in findings)


def test_of_several_behind_a_reduce_nobody_is_blamed() -> None:
    """A rank that did its part of a reduce goes on before the others; one alone did not."""
    two = report_of(still({0: REDUCE, 1: REDUCE, 2: GATHER, 3: REDUCE, 4: GATHER})).findings[0]
    one = report_of(still({0: REDUCE, 1: REDUCE, 2: GATHER, 3: REDUCE, 4: REDUCE})).findings[0]

    assert (two.category, two.culprit_ranks) == ("collective-mismatch", None)
    assert (one.category, one.culprit_ranks) == ("collective-mismatch", (2,))


def test_a_receive_that_nobody_sends_to() -> None:
    """One rank receives and all others, the sender among them, are in a barrier."""
    report = report_of(still({0: BARRIER, 1: BARRIER, 2: RECV, 3: BARRIER}))

    assert report.verdict == "hung"
    assert report.findings[0].category == "p2p-mismatch"
    assert report.findings[0].culprit_ranks is None
    assert "no rank sends" in report.headline


def test_sends_and_receives_at_once_may_be_on_their_way() -> None:
    """While one rank sends and one receives, nothing is said of a call that is missing."""
    send = RECV.replace("recv", "send")

    findings = report_of(still({0: BARRIER, 1: send, 2: RECV, 3: BARRIER})).findings

    assert all(f.category != "p2p-mismatch" for f in findings)


def _receives_from(peer: int) -> Track:
    call = Call(op="recv", state=CallState.INSIDE, p2p=True, peer=peer, tag=7)
    source = Source(file="rank2.peers.json")
    group = Group(name="")
    return Track(who=Who(rank=2), group=group, kind="stack", source=source, calls=(call,))


def test_a_send_and_a_receive_that_face_each_other_and_do_not_end_do_not_fit() -> None:
    """The arguments of one of them name the other; over NCCL the path may be broken instead."""
    facts = still({0: BARRIER, 1: RECV.replace("recv", "send"), 2: RECV, 3: BARRIER})
    nccl = Setting(name="backend", value="nccl", who=Who(), source=Source(file="rank2.log"))

    finding = report_of([*facts, _receives_from(1)]).findings[0]
    others = [
        report_of([*facts, _receives_from(0)]).findings,
        report_of([*facts, _receives_from(1), nccl]).findings,
    ]

    assert (finding.category, finding.culprit_ranks) == ("p2p-mismatch", None)
    assert finding.title.startswith("Rank 2 waits to receive and rank 1 to send to it")
    assert all(f.category != "p2p-mismatch" for each in others for f in each)


POOL = """
get (multiprocessing/pool.py:768)
map (multiprocessing/pool.py:367)
train (train.py:35)
<module> (train.py:60)
"""
POOLED = """
acquire (logging/__init__.py:914)
tokenize (data.py:7)
mapstar (multiprocessing/pool.py:48)
worker (multiprocessing/pool.py:125)
"""
SHARED = """
__enter__ (multiprocessing/synchronize.py:95)
tokenize (data.py:7)
mapstar (multiprocessing/pool.py:48)
worker (multiprocessing/pool.py:125)
"""


@pytest.mark.parametrize(
    ("woke", "other", "verdict"),
    [(33, LOADER, "healthy"), (2, LOADER, "hung"), (33, ALL_REDUCE, "hung")],
)
def test_ranks_that_wait_for_data_and_are_given_it(woke: int, other: str, verdict: str) -> None:
    """Both looks may find them in the wait; where it ended in between they go on.

    Not where another rank has waited for them all the time.
    """
    environ = {"WORLD_SIZE": "2"}
    facts: list[Fact] = []
    for look in (0, 1):
        for rank, stack in ((0, LOADER), (1, other)):
            times = woke if look and stack is LOADER else 0
            facts += [process(rank, look=look, environ=environ, woke=times)]
            facts += [dump(rank, stack, look=look)]

    assert report_of(facts).verdict == verdict


MANAGER = """
wait (threading.py:331)
wait (threading.py:629)
serve_forever (multiprocessing/managers.py:176)
_run_server (multiprocessing/managers.py:600)
main (data.py:20)
"""


def test_a_manager_beside_the_workers_waits_for_no_lock() -> None:
    """The process of a multiprocessing manager is a child of the rank like its workers."""
    asks = "_callmethod (multiprocessing/managers.py:822)\n" + WORKER.strip()
    facts = still({0: ALL_REDUCE, 1: LOADER})
    for pid, stack in ((4000, MANAGER), (4001, asks)):
        child = replace(process(1, pid=pid), role=Role.DATALOADER_WORKER, ppid=1001)
        facts += [replace(child, who=Who(pid=pid)), dump(None, stack, pid=pid)]

    finding = report_of(facts).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("dataloader-blocked", (1,))
    assert "multiprocessing manager" in finding.title


@pytest.mark.parametrize(("stack", "category"), [(POOLED, True), (SHARED, False)])
def test_a_pools_worker_may_wait_for_a_lock_copied_by_fork(stack: str, *, category: bool) -> None:
    """What a DataLoader's worker may fall into, a pool's may: not for a lock that they share."""
    facts = still({0: ALL_REDUCE, 1: POOL})
    worker = replace(
        process(1, pid=4000), role=Role.DATALOADER_WORKER, ppid=1001, who=Who(pid=4000)
    )
    facts += [worker, dump(None, stack, pid=4000)]

    finding = report_of(facts).findings[0]

    assert (finding.category == "fork-deadlock") is category
    assert finding.culprit_ranks == (1,)
    assert finding.location is not None
    assert finding.location.function == "tokenize"


@pytest.mark.parametrize(
    ("head", "category"),
    [
        ("    for batch in part:", "uneven-inputs"),
        ("    for parameter in part.parameters():", "collective-mismatch"),
        ("    if part:", "collective-mismatch"),
    ],
)
def test_back_from_a_function_is_past_its_loop(head: str, category: str) -> None:
    """The others are in a loop of the function that one rank has come back from."""
    inner = ALL_REDUCE.replace("train (train.py:40)", "epoch (train.py:12)\nmain (train.py:50)")
    last = BARRIER.replace("main (train.py:55)", "main (train.py:51)")
    source = (
        Excerpt(
            file="train.py",
            first_line=10,
            lines=("def epoch(part):", head, "        dist.all_reduce(grad)"),
        ),
        Excerpt(
            file="train.py",
            first_line=49,
            lines=("    for number in range(9):", "        epoch(part)", "        dist.barrier()"),
        ),
    )

    finding = report_of([*still({0: inner, 1: inner, 2: last, 3: inner}), *source]).findings[0]

    assert finding.category == category
    assert finding.culprit_ranks == (2,)
