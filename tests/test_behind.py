"""What stands behind the main thread: pools that wait for themselves, calls that are served."""

from __future__ import annotations

import pytest
from place_docs import STARTED, dump, process, thread

from whyhang.analyzer.facts import SHARED_FUTEX, ThreadState, replace
from whyhang.analyzer.queries.waits.states import is_shared_lock
from whyhang.analyzer.rank_state.over_time.motion import Moved, motion_of_thread
from whyhang.analyzer.stacks import BLOCKED_POOL, PROCESS_POOL, Scope, WaitKind, place_of
from whyhang.signatures.frames import TABLE

FUTURE = ("wait (threading.py:327)", "Future.result (concurrent/futures/_base.py:451)")
POOLED = ("run (concurrent/futures/thread.py:58)", "_worker (concurrent/futures/thread.py:83)")
IDLE_WORKER = ("_worker (concurrent/futures/thread.py:81)", *STARTED)
RPC = "torch/distributed/rpc/"


def test_a_pool_whose_threads_all_wait_for_its_tasks() -> None:
    """Every thread of the pool waits for a future: no thread is left to run the tasks."""
    main = thread(*FUTURE, "load_all (train.py:9)")
    inner = [
        thread(*FUTURE, "load_shard (train.py:5)", *POOLED, *STARTED, tid=tid) for tid in (11, 12)
    ]
    spot = place_of(dump(main, *inner), process(), TABLE)

    assert (spot.kind, spot.scope, spot.op) == (WaitKind.FUTURE, Scope.LOCAL, BLOCKED_POOL)
    assert spot.user is not None
    assert spot.user.function == "load_shard"


def test_a_pool_with_an_idle_thread_can_run_its_tasks() -> None:
    """One thread without work: the others wait for something else."""
    main = thread(*FUTURE, "load_all (train.py:9)")
    inner = thread(*FUTURE, "load_shard (train.py:5)", *POOLED, *STARTED, tid=11)
    idle = thread(*IDLE_WORKER, tid=12)

    assert place_of(dump(main, inner, idle), process(), TABLE).op != BLOCKED_POOL


def test_a_future_of_a_pool_of_processes_is_no_task_of_the_threads() -> None:
    """Processes end futures as well, so threads that all wait for some may be served."""
    main = thread(*FUTURE, "load_all (train.py:9)")
    inner = thread(*FUTURE, "load_shard (train.py:5)", *POOLED, *STARTED, tid=11)
    manager = thread("run (concurrent/futures/process.py:349)", *STARTED, tid=12)

    assert place_of(dump(main, inner, manager), process(), TABLE).op != BLOCKED_POOL


def test_a_thread_that_sleeps_ends_no_future_of_a_pool_of_processes() -> None:
    """A thread of the program that reports now and then is not what its main thread waits for."""
    main = thread(*FUTURE, "load_all (train.py:9)")
    reports = thread("report (train.py:23)", *STARTED, tid=11)
    manager = thread("run (concurrent/futures/process.py:349)", *STARTED, tid=12)
    asleep = ThreadState(tid=11, name="report", state="S", wchan="hrtimer_nanosleep")
    spot = place_of(dump(main, reports, manager), replace(process(), threads=(asleep,)), TABLE)

    assert (spot.kind, spot.op) == (WaitKind.FUTURE, PROCESS_POOL)


def test_a_server_stands_where_the_call_does_that_it_serves() -> None:
    """A parameter server waits at the end of its program; what it serves holds the others up."""
    main = thread(
        "wait (threading.py:327)",
        f"_all_gather ({RPC}api.py:257)",
        f"shutdown ({RPC}api.py:382)",
        "main (train.py:17)",
    )
    served = thread(
        "wait (threading.py:327)",
        "push (train.py:6)",
        f"_run_function ({RPC}internal.py:209)",
        tid=11,
    )
    spot = place_of(dump(main, served), process(), TABLE)
    alone = place_of(dump(main), process(), TABLE)

    assert (spot.kind, spot.scope) == (WaitKind.LOCK, Scope.LOCAL)
    assert spot.user is not None
    assert spot.user.function == "push"
    assert alone.scope is Scope.RANKS


def test_a_server_whose_call_waits_for_another_waits_there() -> None:
    """Its program is at its end; the call that it serves asks a third one, and has no answer."""
    main = thread(
        "wait (threading.py:327)",
        f"_all_gather ({RPC}api.py:257)",
        f"shutdown ({RPC}api.py:382)",
        "main (train.py:17)",
    )
    asks = thread(
        f"rpc_sync ({RPC}api.py:842)",
        "push (train.py:6)",
        f"_run_function ({RPC}internal.py:209)",
        tid=11,
    )
    spot = place_of(dump(main, asks), process(), TABLE)
    answer = place_of(
        dump(thread("wait_all (torch/futures/__init__.py:334)", "main (train.py:18)")),
        process(),
        TABLE,
    )

    assert (spot.op, spot.scope) == ("rpc", Scope.RANKS)
    assert spot.user is not None
    assert spot.user.function == "push"
    assert (answer.op, answer.scope) == ("rpc", Scope.MAYBE)


def test_a_server_at_work_on_a_call_is_at_work() -> None:
    """A worker computes what another rank asked for, while its program is at its end."""
    main = thread(
        "wait (threading.py:327)",
        f"_all_gather ({RPC}api.py:257)",
        f"shutdown ({RPC}api.py:382)",
        "main (train.py:17)",
    )
    served = thread("observe (train.py:6)", f"_run_function ({RPC}internal.py:209)", tid=11)
    at_work = replace(served, active=True)
    held = thread(
        "wait (threading.py:327)",
        "push (train.py:6)",
        f"_run_function ({RPC}internal.py:209)",
        tid=12,
    )

    assert place_of(dump(main, at_work), process(), TABLE).kind is WaitKind.WORK
    assert place_of(dump(main, at_work, held), process(), TABLE).kind is WaitKind.LOCK


@pytest.mark.parametrize(
    ("ticks", "woke", "there", "moved"),
    [
        ((5, 55), 9, True, Moved.IN_PLACE),
        ((5, 5), 0, True, Moved.STILL),
        ((5, 5), 5, True, Moved.STIRRED),
        ((5, 5), 0, False, Moved.ON),
    ],
)
def test_a_thread_beside_the_main_one_has_its_own_motion(
    ticks: tuple[int, int], woke: int, there: bool, moved: Moved
) -> None:
    """Its CPU time tells, how often it woke up, and that it was not there before."""
    served = thread("observe (train.py:6)", f"_run_function ({RPC}internal.py:209)", tid=11)
    main = thread("shutdown (train.py:17)")
    dumps = (dump(main, served) if there else dump(main), dump(main, served))
    processes = tuple(
        process(
            taken_at=float(look),
            threads=(ThreadState(tid=11, name="", state="S", cpu_ticks=used, woke=woke),),
        )
        for look, used in enumerate(ticks)
    )

    assert motion_of_thread(11, dumps, processes).moved is moved


def test_a_thread_that_is_joined_and_waits_for_work_is_pointed_at() -> None:
    """Nobody told it that there is no more; a future of a pool is not waited for so."""
    main = thread("_shutdown (threading.py:1590)")
    consumer = thread("get (queue.py:171)", "consume (train.py:6)", *STARTED, tid=11)
    spot = place_of(dump(main, consumer), process(), TABLE)

    assert spot.user is not None
    assert spot.user.function == "consume"
    assert spot.main_op == "exit"


def test_a_future_of_a_pool_of_processes_leads_to_its_workers() -> None:
    """Nothing in the process ends such a future; its workers are looked at."""
    main = thread(*FUTURE, "load (train.py:12)")
    manager = thread(
        "wait_result_broken_or_wakeup (concurrent/futures/process.py:400)",
        "run (concurrent/futures/process.py:349)",
        *STARTED,
        tid=12,
    )
    spot = place_of(dump(main, manager), process(), TABLE)

    assert (spot.kind, spot.scope, spot.op) == (WaitKind.FUTURE, Scope.LOCAL, PROCESS_POOL)


@pytest.mark.parametrize(("call", "shared"), [(SHARED_FUTEX, True), ("futex", False)])
def test_the_kernel_tells_a_lock_that_processes_share(call: str, *, shared: bool) -> None:
    """A semaphore of multiprocessing leaves no frame of its own."""
    waits = ThreadState(tid=10, name="python", state="S", wchan="futex_do_wait", syscall=call)
    main = thread("__getitem__ (train.py:18)")
    spot = place_of(
        dump(main), replace(process(), threads=(waits,)), TABLE, lambda _: "self.slots.acquire()"
    )

    assert spot.kind is WaitKind.LOCK
    assert is_shared_lock(spot) is shared
