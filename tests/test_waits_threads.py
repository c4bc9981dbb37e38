"""Where a process stands that has many threads, and what no evidence tells."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from place_docs import C10D, SOURCE, STARTED, dump, of_frames, process, says, stack, thread

from whyhang.analyzer.facts import Frame, StackDump, Thread, ThreadState, Who, replace
from whyhang.analyzer.stacks import Scope, WaitKind, place_of, places_of, undecided
from whyhang.analyzer.stacks.place import from_kernel, from_line
from whyhang.signatures.frames import TABLE

# --- threads ---


def test_main_waits_for_a_thread_in_a_collective() -> None:
    """An asynchronous checkpoint: the main thread waits for the thread that is in all_gather."""
    spot = place_of(
        dump(
            thread(
                "Condition.wait (threading.py:327)",
                "Future.result (concurrent/futures/_base.py:451)",
                "train (train.py:9)",
            ),
            thread(
                f"all_gather ({C10D}:9)",
                "save (torch/distributed/checkpoint/state_dict_saver.py:196)",
                "_worker (concurrent/futures/thread.py:83)",
                *STARTED,
                name="AsyncCheckpointExecutor_0",
                tid=11,
            ),
        ),
        process(),
        TABLE,
    )
    assert (spot.kind, spot.thread) == (WaitKind.COLLECTIVE, "AsyncCheckpointExecutor_0")
    assert spot.user == stack("train (train.py:9)")[0]
    assert spot.through is not None
    assert spot.through.startswith('on thread "AsyncCheckpointExecutor_0"')


def test_training_on_another_thread() -> None:
    """Ray Train runs the loop on a thread: its wait may be on ranks, so the rank is not guilty."""
    spot = place_of(
        dump(
            thread("wait (threading.py:327)", "Thread.join (threading.py:9)", "main (run.py:5)"),
            thread("loop (train.py:8)", *STARTED, name="train", tid=11, active=False),
            thread("wait (threading.py:327)", "run (tqdm/_monitor.py:60)", *STARTED, tid=12),
        ),
        process("S", "futex_do_wait"),
        TABLE,
    )
    assert (spot.scope, spot.user) == (Scope.MAYBE, stack("loop (train.py:8)")[0])


def test_bare_lock_is_not_followed() -> None:
    """A lock may be held by anyone: another thread in a collective is not taken for its holder."""
    spot = place_of(
        dump(
            thread("PyThread_acquire_lock_timed (libpython3.11.so)", "f (train.py:5)"),
            thread(f"barrier ({C10D}:9)", "g (train.py:8)", *STARTED, tid=11),
        ),
        process(),
        TABLE,
    )
    assert (spot.kind, spot.user) == (WaitKind.LOCK, stack("f (train.py:5)")[0])


def test_backward_on_an_engine_thread() -> None:
    """On a GPU the hooks of backward run on the engine's threads; Python's own are not asked."""
    backward = thread("_engine_run_backward (torch/autograd/graph.py:979)", "f (train.py:5)")
    hook = (f"all_reduce ({C10D}:9)", "_reduce_grad (torch/distributed/fsdp/_runtime_utils.py:1)")
    engine = thread(*hook, name="pt_autograd_0", tid=11)
    other = thread(f"barrier ({C10D}:9)", "g (train.py:8)", *STARTED, tid=12)
    assert place_of(dump(backward, engine), process(), TABLE).op == "all_reduce"
    assert place_of(dump(backward, other), process(), TABLE).kind is WaitKind.BACKWARD


def test_gil_held_by_a_thread_that_sleeps() -> None:
    """Nobody else can run Python: the place says who holds the GIL."""
    holder = thread("call (native.py:3)", *STARTED, name="holder", tid=11, holds_gil=True)
    main = thread("wait (threading.py:327)", "f (train.py:5)")
    asleep = place_of(dump(main, replace(holder, active=False)), process(), TABLE)
    busy = place_of(dump(main, replace(holder, active=True)), process(), TABLE)
    assert (asleep.kind, asleep.scope) == (WaitKind.GIL, Scope.LOCAL)
    assert '"holder"' in (asleep.through or "")
    assert (asleep.user and asleep.user.function) == "call"
    assert busy.kind is WaitKind.LOCK


def test_gil_in_py_spys_native_stack() -> None:
    """py-spy leaves take_gil out: a timed condition right under Python is that wait."""
    main = thread("pthread_cond_timedwait (libc.so.6)", "f (train.py:5)")
    timed = thread(
        "pthread_cond_timedwait (libc.so.6)",
        "gloo::transport::tcp::UnboundBuffer::waitRecv (libtorch_cpu.so)",
        "f (train.py:5)",
    )
    bound = thread("pthread_cond_timedwait (libc.so.6)", "f (libtorch_python.so)", "f (train.py:5)")
    spot = place_of(dump(main), process(), TABLE)
    assert (spot.kind, spot.certain) == (WaitKind.GIL, False)
    assert place_of(dump(bound), process(), TABLE).kind is not WaitKind.GIL
    assert place_of(dump(timed), process(), TABLE).kind is not WaitKind.GIL


def test_kernel_state_of_each_thread() -> None:
    """Each thread is judged by its own state, not by the main thread's."""
    stacks = dump(
        thread(f"all_reduce ({C10D}:9)", "f (train.py:3)"),
        thread("g (train.py:4)", *STARTED, name="helper", tid=11),
    )
    states = (ThreadState(tid=11, name="helper", state="S", wchan="hrtimer_nanosleep"),)
    places = places_of(stacks, process("S", threads=states), TABLE)
    assert [p.kind for p in places] == [WaitKind.COLLECTIVE, WaitKind.SLEEP]


def test_main_thread_without_names() -> None:
    """A faulthandler dump names no thread: the one that runs the program decides."""
    stacks = StackDump(
        who=Who(),
        tool="faulthandler",
        source=SOURCE,
        threads=(
            Thread(frames=stack("wait (threading.py:327)", *STARTED)),
            Thread(frames=stack(f"barrier ({C10D}:9)", "<module> (train.py:3)")),
        ),
    )
    assert place_of(stacks, None, TABLE).op == "barrier"


def test_nothing_to_see() -> None:
    """A dump without threads, or a thread without frames, is an uncertain place, not an error."""
    for stacks in (dump(), dump(thread())):
        spot = place_of(stacks, None, TABLE)
        assert (spot.scope, spot.certain, spot.user) == (Scope.MAYBE, False, None)
    assert of_frames(()).certain is False


KNOWN = st.sampled_from([(f, r.file, r.native) for r in TABLE for f in r.functions])
WORDS = st.text(alphabet="ab_.:</>*()@ 0x", max_size=12)
FRAMES = st.lists(
    st.one_of(KNOWN, st.tuples(WORDS, WORDS, st.booleans())).map(
        lambda parts: Frame(function=parts[0], file=parts[1], native=parts[2])
    ),
    max_size=8,
)


@given(frames=FRAMES, state=st.sampled_from("RSDTtZX?"), text=WORDS)
def test_no_stack_is_too_odd(frames: list[Frame], state: str, text: str) -> None:
    """Whatever frames meet in whatever order, there is a place, and it has words."""
    stacks = dump(Thread(frames=tuple(frames), tid=10))
    spot = place_of(stacks, process(state, "futex"), TABLE, says(text))
    assert spot.says
    assert str(spot)
    assert spot.user is None or spot.user in frames


# --- undecided, speed ---


def test_undecided_asks_for_native_stacks_where_they_help() -> None:
    """Backward, GPU waits and guesses are worth a native stack; a named collective is not."""
    backward = stack("_engine_run_backward (torch/autograd/graph.py:979)", "f (train.py:5)")
    named = stack(f"all_reduce ({C10D}:9)", "f (train.py:5)")
    assert undecided(of_frames(backward))
    assert undecided(of_frames(stack("f (train.py:5)")))
    assert not undecided(of_frames(named))


def test_ten_thousand_processes_are_placed_in_seconds() -> None:
    """Stacks of a big job are mostly alike; placing them costs microseconds each."""
    dumps = [
        StackDump(
            who=Who(pid=10, rank=rank),
            tool="py-spy",
            source=SOURCE,
            threads=tuple(
                thread(f"all_reduce ({C10D}:9)", f"step (train.py:{rank % 50})", tid=10 + n)
                for n in range(8)
            ),
        )
        for rank in range(2_000)
    ]
    begin = time.process_time()
    for stacks in dumps:
        places_of(stacks, None, TABLE)
    assert time.process_time() - begin < 2.0  # 10,000 in 10 s at the very worst


def test_guesses_say_nothing_of_nothing() -> None:
    """No kernel function, an unknown one and a plain line are no guess."""
    assert from_kernel(None) is None
    assert from_kernel("0") is None
    assert from_kernel("something_new") is None
    assert from_line("x = 1") is None
    assert from_line("x = 1  # then lock.acquire()") is None


HOOK = ("readinto (socket.py:706)", "urlopen (urllib/request.py:216)", "report (train.py:9)")
IN_BACKWARD = (
    "_engine_run_backward (torch/autograd/graph.py:979)",
    "backward (torch/autograd/__init__.py:395)",
    "main (train.py:41)",
)


@pytest.mark.parametrize(
    ("frames", "kind", "function"),
    [
        (HOOK, WaitKind.NETWORK, "report"),
        (("acquire (filelock/_api.py:200)", "guard (hooks.py:4)"), WaitKind.LOCK, "guard"),
        (("save (torch/serialization.py:900)", "dump (taps.py:7)"), WaitKind.FILE, "dump"),
    ],
)
def test_a_hook_on_autograds_own_thread_is_where_the_backward_is(
    frames: tuple[str, ...], kind: WaitKind, function: str
) -> None:
    """On a GPU hooks run on a thread that no Python started; main only waits for the backward."""
    engine = thread(*frames, name="", tid=11)
    place = place_of(dump(thread(*IN_BACKWARD), engine), process("S"), TABLE)

    assert kind in {place.kind, place.context}
    assert place.user is not None
    assert place.user.function == function
    assert "while the main thread is in backward" in (place.through or "")


def test_a_thread_beside_a_backward_is_not_taken_for_autograds() -> None:
    """An uploader that Python started, or a callback of another library, holds up no backward."""
    started = ("run (threading.py:982)", "_bootstrap (threading.py:1002)")
    uploads = thread(*HOOK, *started, name="uploader", tid=11)
    callback = thread(*HOOK, name="", tid=12)
    named = tuple(
        ThreadState(tid=tid, name=name, state="S")
        for tid, name in ((10, "python"), (12, "grpc_poll"), (13, "pt_autograd_0"))
    )
    beside = place_of(dump(thread(*IN_BACKWARD), uploads), process("S"), TABLE)
    among = place_of(
        dump(thread(*IN_BACKWARD), callback), replace(process("S"), threads=named), TABLE
    )

    assert (beside.kind, among.kind) == (WaitKind.BACKWARD, WaitKind.BACKWARD)


@pytest.mark.parametrize(
    "text",
    ["print(loss.item(), flush=True)", "out.write(weights.numpy())", "log.info(norm.tolist())"],
)
def test_who_sleeps_in_a_pipe_waits_for_no_gpu(text: str) -> None:
    """The kernel's word goes before that of the line: nobody reads the pipe any more."""
    stacks = dump(thread("main (train.py:3)"))
    writes = place_of(stacks, process("S", "anon_pipe_write"), TABLE, says(text))

    assert (writes.kind, writes.scope) == (WaitKind.FILE, Scope.LOCAL)
    assert str(writes.says) == "writing to a full pipe"


def test_without_a_gpu_nothing_waits_for_one() -> None:
    """A process whose open files are known and have no GPU among them; near miss: with one."""
    stacks = dump(thread("main (train.py:3)"))
    line = says("loss.item()")
    plain = process("S", "futex_do_wait", descriptors=("pipe x3", "/data/a.bin"))
    with_gpu = process("S", "futex_do_wait", descriptors=("/dev/nvidia0 x4", "/dev/nvidiactl"))

    assert place_of(stacks, plain, TABLE, line).kind is WaitKind.POLL
    assert place_of(stacks, with_gpu, TABLE, line).kind is WaitKind.CUDA_SYNC
