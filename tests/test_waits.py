"""What a thread waits for: how purposes, contexts, mechanisms and guesses are weighed."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whyhang.analyzer.facts import (
    Frame,
    Process,
    Source,
    StackDump,
    Thread,
    ThreadState,
    Who,
    replace,
)
from whyhang.analyzer.stacks import (
    Place,
    Scope,
    WaitKind,
    place_of,
    places_of,
    undecided,
)
from whyhang.analyzer.stacks.guesses import from_kernel, from_line
from whyhang.analyzer.stacks.index import symbol
from whyhang.signatures.frames import TABLE

SOURCE = Source(file="stacks.txt")
C10D = "torch/distributed/distributed_c10d.py"
STARTED = (
    "Thread.run (threading.py:982)",
    "Thread._bootstrap_inner (threading.py:1045)",
    "Thread._bootstrap (threading.py:1002)",
)


def stack(*lines: str) -> tuple[Frame, ...]:
    """Make frames of lines as py-spy prints them; a file without a line is native."""
    frames = []
    for line in lines:
        function, _, place = line.removesuffix(")").rpartition(" (")
        file, _, number = place.rpartition(":")
        native = not number.isdigit()
        frames.append(
            Frame(
                function=function,
                file=place if native else file,
                line=None if native else int(number),
                native=native,
            )
        )
    return tuple(frames)


def thread(*lines: str, name: str = "MainThread", tid: int = 10, **facts: bool | None) -> Thread:
    return Thread(frames=stack(*lines), name=name, tid=tid, **facts)


def dump(*threads: Thread) -> StackDump:
    return StackDump(who=Who(pid=10), tool="py-spy", threads=threads, source=SOURCE)


def process(state: str | None = "S", wchan: str | None = None, **facts: object) -> Process:
    made = Process(who=Who(pid=10), source=SOURCE, state=state, wchan=wchan)
    return replace(made, **facts)


def place(*lines: str, state: str | None = None, wchan: str | None = None) -> Place:
    return place_of(dump(thread(*lines)), process(state, wchan), TABLE)


def of_frames(frames: tuple[Frame, ...]) -> Place:
    """Place a thread of which nothing but its stack is known."""
    return place_of(dump(Thread(frames=frames, name="MainThread", tid=10)), None, TABLE)


def says(text: str) -> Callable[[Frame], str | None]:
    return lambda _: text


# --- purpose, context, mechanism ---


def test_collective_under_the_users_line() -> None:
    """A collective is named by torch's name, and the place to point at is the user's line."""
    found = place(f"all_reduce ({C10D}:3252)", "step (train.py:29)", "<module> (train.py:40)")
    assert (found.kind, found.scope, found.op) == (WaitKind.COLLECTIVE, Scope.RANKS, "all_reduce")
    assert found.user == stack("step (train.py:29)")[0]
    assert (str(found.says), found.certain) == ("in all_reduce", True)


def test_unqualified_names_of_old_pythons() -> None:
    """Python 3.10 prints last components only; both forms are read alike."""
    for name in ("_try_get_data", "_MultiProcessingDataLoaderIter._try_get_data"):
        found = place(
            "wait (threading.py:306)",
            "get (queue.py:179)",
            f"{name} (torch/utils/data/dataloader.py:1011)",
            "train (train.py:9)",
        )
        assert (found.kind, found.scope) == (WaitKind.DATALOADER, Scope.LOCAL)


def test_object_collective_keeps_both_names() -> None:
    """all_gather_object runs all_gather; the report says the one, the ledger needs the other."""
    found = place(f"all_gather ({C10D}:1)", f"all_gather_object ({C10D}:2)", "f (train.py:3)")
    assert (found.op, found.api, str(found.says)) == (
        "all_gather",
        "all_gather_object",
        "in all_gather_object",
    )


def test_store_barrier_belongs_to_whoever_opens_the_group() -> None:
    """The same inner frames mean start-up under init_process_group and a new group elsewhere."""
    inner = (f"_store_based_barrier ({C10D}:9)", f"_new_process_group_helper ({C10D}:8)")
    start = place(*inner, f"init_process_group ({C10D}:7)", "main (train.py:3)")
    later = place(*inner, f"new_group ({C10D}:7)", "main (train.py:3)")
    assert (start.kind, later.kind) == (WaitKind.INIT, WaitKind.GROUP)


def test_barrier_inside_new_group_is_the_group() -> None:
    """A collective that new_group runs for itself is not the user's collective."""
    found = place(f"barrier ({C10D}:9)", f"new_group ({C10D}:7)", "main (train.py:3)")
    assert found.kind is WaitKind.GROUP


def test_users_hook_inside_backward_is_not_backward() -> None:
    """A purpose does not count when the user's own code runs inside it; the context stays."""
    backward = (
        "_engine_run_backward (torch/autograd/graph.py:979)",
        "backward (torch/autograd/__init__.py:395)",
        "train (train.py:5)",
    )
    assert place(*backward).kind is WaitKind.BACKWARD
    found = place("hook (train.py:77)", *backward, state="S", wchan="hrtimer_nanosleep")
    assert (found.kind, found.context) == (WaitKind.SLEEP, WaitKind.BACKWARD)
    assert found.user == stack("hook (train.py:77)")[0]


def test_collective_inside_a_hook_inside_backward() -> None:
    """The innermost collective is the wait, whatever the user's code around it does."""
    found = place(
        f"all_reduce ({C10D}:9)",
        "hook (train.py:77)",
        "_engine_run_backward (torch/autograd/graph.py:979)",
    )
    assert (found.kind, found.context) == (WaitKind.COLLECTIVE, WaitKind.BACKWARD)


DATASET = (
    "_MapDatasetFetcher.fetch (torch/utils/data/_utils/fetch.py:54)",
    "_worker_loop (torch/utils/data/_utils/worker.py:374)",
    "BaseProcess.run (multiprocessing/process.py:108)",
    "BaseProcess._bootstrap (multiprocessing/process.py:314)",
    "Popen._launch (multiprocessing/popen_fork.py:71)",
    "BaseProcess.start (multiprocessing/process.py:121)",
    "DataLoader.__iter__ (torch/utils/data/dataloader.py:505)",
    "train (train.py:9)",
)


def test_worker_busy_in_the_dataset() -> None:
    """A busy worker is placed in the dataset's line, with the dataset as context."""
    found = place("Images.__getitem__ (data.py:31)", *DATASET, state="S", wchan="nfs_wait_bit")
    assert (found.kind, found.context) == (WaitKind.FILE, WaitKind.DATASET)
    assert found.user == stack("Images.__getitem__ (data.py:31)")[0]


def test_worker_in_a_library_of_the_dataset() -> None:
    """A dataset without code of the user's own is still the dataset, not an idle worker."""
    found = place("pil_loader (torchvision/datasets/folder.py:247)", *DATASET, state="S")
    assert (found.kind, found.scope) == (WaitKind.DATASET, Scope.LOCAL)


def test_forked_worker_does_not_inherit_the_parents_place() -> None:
    """Frames below the fork are the parent's past: an idle worker has no line in train.py."""
    found = place(
        "_recv (multiprocessing/connection.py:390)",
        "Queue.get (multiprocessing/queues.py:113)",
        *DATASET[1:],
    )
    assert (found.kind, found.scope, found.user) == (WaitKind.IDLE, Scope.IDLE, None)


def test_forked_process_under_a_collective_of_its_parent() -> None:
    """What the parent was in when it forked says nothing about the child."""
    found = place(
        "work (pool.py:5)",
        "BaseProcess._bootstrap (multiprocessing/process.py:314)",
        "Popen._launch (multiprocessing/popen_fork.py:71)",
        f"barrier ({C10D}:9)",
        state="R",
    )
    assert (found.kind, found.user) == (WaitKind.WORK, stack("work (pool.py:5)")[0])


def test_context_keeps_the_purpose_inside_it() -> None:
    """A collective of a checkpoint is a collective, said to be part of the checkpoint."""
    found = place(
        f"gather ({C10D}:9)",
        "_DistWrapper.reduce_scatter (torch/distributed/checkpoint/utils.py:197)",
        "save (torch/distributed/checkpoint/state_dict_saver.py:196)",
        "train (train.py:9)",
    )
    assert (found.kind, found.op, found.context) == (
        WaitKind.COLLECTIVE,
        "gather",
        WaitKind.CHECKPOINT,
    )
    assert str(found) == "in DCP's agreement on the checkpoint, saving a checkpoint"


def test_program_started_by_an_import() -> None:
    """Module-level code is part of an import; a program that an import started is not."""
    outer = ("_find_and_load (<frozen importlib._bootstrap>:1178)", "<module> (run.py:3)")
    module = place("<module> (slow.py:2)", *outer, state="S", wchan="hrtimer_nanosleep")
    program = place("train (job.py:9)", "<module> (job.py:20)", *outer, state="R")
    assert (module.context, program.context) == (WaitKind.IMPORT, None)


def test_lock_is_a_mechanism() -> None:
    """threading.wait speaks only where nothing says what the wait is for."""
    waits = ("wait (threading.py:320)",)
    assert place(*waits, "f (train.py:1)").kind is WaitKind.LOCK
    assert place(*waits, "get (queue.py:171)", "f (train.py:1)").kind is WaitKind.QUEUE
    assert place(*waits, f"barrier ({C10D}:1)", "f (train.py:1)").kind is WaitKind.COLLECTIVE


def test_a_users_folder_is_not_the_package_of_its_name() -> None:
    """Rules for whole packages do not speak of the user's own files."""
    mine = place("fetch (/home/me/requests/train.py:3)", state="R")
    theirs = place("send (requests/adapters.py:3)", "fetch (train.py:3)", state="S")
    assert (mine.kind, theirs.kind) == (WaitKind.WORK, WaitKind.NETWORK)


# --- native frames ---


def test_native_frame_names_what_no_python_frame_does() -> None:
    """``work.wait()`` leaves no frame of torch in Python; the native stack has it."""
    found = place(
        "pthread_cond_wait (libc.so.6)",
        "std::condition_variable::wait (libstdc++.so.6)",
        "c10d::Work::wait (libtorch_cpu.so)",
        "pybind11::cpp_function::dispatcher (libtorch_python.so)",
        "step (train.py:30)",
    )
    assert (found.kind, found.op, found.scope) == (WaitKind.COLLECTIVE, None, Scope.RANKS)
    assert found.native
    assert not undecided(found)


def test_python_frame_gives_the_operation() -> None:
    """Under all_reduce the same native wait is that all_reduce."""
    found = place("c10d::Work::wait (libtorch_cpu.so)", f"all_reduce ({C10D}:9)", "f (train.py:3)")
    assert (found.kind, found.op) == (WaitKind.COLLECTIVE, "all_reduce")


def test_ddps_reduction_in_backward() -> None:
    """DDP's wait for gradients shows in the native stack alone."""
    found = place(
        "c10d::Work::wait (libtorch_cpu.so)",
        "c10d::Reducer::finalize_backward (libtorch_cpu.so)",
        "torch::autograd::Engine::execute_with_graph_task (libtorch_cpu.so)",
        "_engine_run_backward (torch/autograd/graph.py:979)",
        "train (train.py:5)",
    )
    assert (found.kind, found.op) == (WaitKind.COLLECTIVE, "all_reduce")
    assert str(found.says) == "in DDP's gradient all_reduce"


def test_setting_nccl_up_inside_a_collective() -> None:
    """The first collective of a group sets its communicator up; both are said."""
    found = place(
        "poll (libc.so.6)",
        "c10d::TCPStore::doWait (libtorch_cpu.so)",
        "c10d::ProcessGroupNCCL::broadcastUniqueNCCLID (libtorch_cuda.so)",
        "c10d::ProcessGroupNCCL::initNCCLComm (libtorch_cuda.so)",
        f"broadcast ({C10D}:9)",
        "f (train.py:3)",
    )
    assert (found.kind, found.op) == (WaitKind.COLLECTIVE, "broadcast")
    assert str(found.says) == "in broadcast, setting up an NCCL communicator"


def test_waiting_for_the_gpu_inside_barrier_is_the_barrier() -> None:
    """A host that waits for the GPU in a collective waits for the collective."""
    found = place(
        "cudaStreamSynchronize (libcudart.so.12)", f"barrier ({C10D}:9)", "f (train.py:3)"
    )
    assert (found.kind, found.op) == (WaitKind.COLLECTIVE, "barrier")


def test_item_waits_for_the_gpu() -> None:
    """``.item()`` leaves the caller's line in Python and the synchronize below it."""
    found = place(
        "cuStreamSynchronize (libcuda.so.1)",
        "at::native::_local_scalar_dense_cuda (libtorch_cuda.so)",
        "train (train.py:3)",
    )
    assert (found.kind, found.scope) == (WaitKind.CUDA_SYNC, Scope.MAYBE)


def test_driver_without_symbols() -> None:
    """Inside the CUDA driver there are addresses only; that is a wait for the GPU, perhaps."""
    found = place("0x7f12 (libcuda.so.1)", "0x7f13 (libcuda.so.1)", "train (train.py:3)")
    assert (found.kind, found.scope, found.certain) == (WaitKind.CUDA_SYNC, Scope.MAYBE, False)


def test_mpi_call_without_python_frame() -> None:
    """mpi4py leaves no frame of its own; the MPI library's symbol names the call."""
    found = place(
        "opal_progress (libopen-pal.so.40)",
        "ompi_comm_dup_with_info (libmpi.so.40)",
        "PMPI_Comm_dup (libmpi.so.40)",
        "main (solve.py:3)",
        state="R",
    )
    assert (found.kind, found.op, found.scope) == (WaitKind.MPI, "comm_dup", Scope.RANKS)


def test_program_without_python() -> None:
    """In a program of C or Fortran the place to point at is the caller of the MPI function."""
    found = place(
        "opal_progress (libopen-pal.so)",
        "PMPI_Barrier (libmpi.so)",
        "pmpi_barrier__ (libmpi_fort.so)",
        "main (libsolver.so)",
    )
    assert (found.op, found.user) == ("barrier", None)
    caller = Frame(function="init", file="init.f90", line=62, native=True)
    frames = (*stack("PMPI_Barrier (libmpi.so)", "pmpi_barrier__ (solver)"), caller)
    assert of_frames(frames).user == caller
    interpreter = Frame(function="_PyEval_Vector", file="Python/ceval.c", line=6, native=True)
    assert of_frames((*frames[:2], interpreter, caller)).user is None


@pytest.mark.parametrize(
    ("printed", "name"),
    [
        ("__GI___poll", "poll"),
        ("pthread_cond_wait@@GLIBC_2.3.2", "pthread_cond_wait"),
        ("___pthread_cond_timedwait64", "pthread_cond_timedwait"),
        ("do_futex_wait.constprop.0", "do_futex_wait"),
        ("__libc_recv", "recv"),
        ("c10d::Work::wait(std::chrono::duration<long>)", "c10d::Work::wait"),
        ("c10d::f<c10d::g>", "c10d::f"),
    ],
)
def test_symbols_of_all_tools(printed: str, name: str) -> None:
    """Of one symbol gdb prints glibc's inner names and arguments, py-spy does not."""
    assert symbol(printed) == name


# --- state and source ---


@pytest.mark.parametrize(
    ("wchan", "kind", "scope"),
    [
        ("hrtimer_nanosleep", WaitKind.SLEEP, Scope.LOCAL),
        ("do_wait", WaitKind.SUBPROCESS, Scope.LOCAL),
        ("locks_lock_inode_wait", WaitKind.LOCK, Scope.LOCAL),
        ("rpc_wait_bit_killable", WaitKind.FILE, Scope.LOCAL),
        ("folio_wait_bit_common", WaitKind.FILE, Scope.LOCAL),
        ("autofs_wait", WaitKind.FILE, Scope.LOCAL),
        ("n_tty_read", WaitKind.INPUT, Scope.LOCAL),
        ("anon_pipe_read", WaitKind.POLL, Scope.LOCAL),
        ("futex_wait_queue_me", WaitKind.POLL, Scope.MAYBE),
        ("poll_schedule_timeout.constprop.0", WaitKind.POLL, Scope.MAYBE),
        ("inet_csk_accept", WaitKind.NETWORK, Scope.MAYBE),
        ("0", WaitKind.POLL, Scope.MAYBE),
        (None, WaitKind.POLL, Scope.MAYBE),
    ],
)
def test_kernel_speaks_where_no_frame_does(wchan: str | None, kind: WaitKind, scope: Scope) -> None:
    """The kernel's function tells a sleep from a file; what may be other ranks stays a maybe."""
    found = place("f (train.py:3)", state="S", wchan=wchan)
    assert (found.kind, found.scope, found.certain) == (kind, scope, False)
    assert undecided(found)


@pytest.mark.parametrize(
    ("text", "certain"),
    [("time.sleep(30)", True), ("work.wait()", False), ("poll_forever(path)", False)],
)
def test_what_the_kernel_and_the_line_both_say_is_certain(text: str, certain: bool) -> None:
    """A Python without symbols shows no native frame that would say it a third time."""
    kernel = process("S", "hrtimer_nanosleep")
    found = place_of(dump(thread("f (train.py:3)")), kernel, TABLE, says(text))
    assert (found.kind, found.certain) == (WaitKind.SLEEP, certain)


def test_running_is_work() -> None:
    """A thread on the CPU in the user's code waits for nothing."""
    found = place("f (train.py:3)", state="R")
    assert (found.kind, found.scope) == (WaitKind.WORK, Scope.WORK)


def test_py_spys_guess_when_proc_said_nothing() -> None:
    """An archived dump has py-spy's idle and active only."""
    idle = place_of(dump(thread("f (train.py:3)", active=False)), None, TABLE)
    busy = place_of(dump(thread("f (train.py:3)", active=True)), None, TABLE)
    silent = place_of(dump(thread("f (train.py:3)")), None, TABLE)
    assert (idle.kind, idle.scope) == (WaitKind.POLL, Scope.MAYBE)
    assert (busy.kind, busy.scope) == (WaitKind.WORK, Scope.WORK)
    assert (silent.kind, silent.scope) == (WaitKind.WORK, Scope.MAYBE)


def test_running_without_the_gil_may_be_a_spinning_wait() -> None:
    """A Python loop holds the GIL; a wait for the GPU burns CPU without it."""
    loop = thread("f (train.py:3)", active=True, holds_gil=True)
    spin = thread("f (train.py:3)", active=True, holds_gil=False)
    assert place_of(dump(loop), process("R"), TABLE).scope is Scope.WORK
    assert place_of(dump(spin), process("R"), TABLE).scope is Scope.MAYBE


@pytest.mark.parametrize(
    ("text", "kind", "scope"),
    [
        ("work.wait()", WaitKind.COLLECTIVE, Scope.MAYBE),
        ("    send_req.wait()", WaitKind.P2P, Scope.MAYBE),
        ("store.get('key')", WaitKind.STORE, Scope.MAYBE),
        ("with self._lock:", WaitKind.LOCK, Scope.LOCAL),
        ("cache_lock.acquire()", WaitKind.LOCK, Scope.LOCAL),
        ("answer = input('go on? ')", WaitKind.INPUT, Scope.LOCAL),
        ("breakpoint()", WaitKind.DEBUGGER, Scope.LOCAL),
        ("total += loss.item()", WaitKind.CUDA_SYNC, Scope.MAYBE),
        ("data = conn.recv(4096)", WaitKind.NETWORK, Scope.LOCAL),
        ("comm.Allreduce(a, b)", WaitKind.MPI, Scope.MAYBE),
        ("x = model(x)", WaitKind.POLL, Scope.MAYBE),
    ],
)
def test_line_of_source_speaks_of_calls_into_c(text: str, kind: WaitKind, scope: Scope) -> None:
    """Where a futex could be anything, the line of source says which call it is."""
    stacks = dump(thread("f (train.py:3)"))
    found = place_of(stacks, process("S", "futex_do_wait"), TABLE, says(text))
    assert (found.kind, found.scope, found.certain) == (kind, scope, False)


def test_kernel_outranks_the_line() -> None:
    """A thread that sleeps in a child's wait is not in the lock that its line mentions."""
    stacks = dump(thread("f (train.py:3)"))
    found = place_of(stacks, process("S", "do_wait"), TABLE, says("with lock: os.system(c)"))
    assert found.kind is WaitKind.SUBPROCESS


def test_running_thread_does_not_sleep() -> None:
    """On the CPU only waits that spin are believed from a line of source."""
    stacks = dump(thread("f (train.py:3)"))
    assert place_of(stacks, process("R"), TABLE, says("time.sleep(1)")).kind is WaitKind.WORK
    spins = place_of(stacks, process("R"), TABLE, says("loss.item()"))
    assert spins.kind is WaitKind.CUDA_SYNC


def test_line_of_a_library_is_not_asked_for() -> None:
    """Only the user's innermost line is a hint; a library's line is not."""
    stacks = dump(thread("linear (torch/nn/functional.py:9)", "f (train.py:3)"))
    found = place_of(stacks, process("S", "futex_do_wait"), TABLE, says("x.wait()"))
    assert found.kind is WaitKind.POLL


def test_input_at_a_terminal() -> None:
    """wait_woken is a terminal or a socket; an open terminal makes it likely the former."""
    stacks = dump(thread("f (train.py:3)"))
    with_terminal = process("S", "wait_woken", descriptors=("/dev/pts/3 x3",))
    assert place_of(stacks, with_terminal, TABLE).kind is WaitKind.INPUT
    assert place_of(stacks, process("S", "wait_woken"), TABLE).kind is WaitKind.NETWORK


def test_uninterruptible_sleep() -> None:
    """State D without a kernel function is I/O."""
    assert place("f (train.py:3)", state="D").kind is WaitKind.FILE


def test_stopped_keeps_its_stack() -> None:
    """A stopped process is said to be stopped; where it stands is kept, guesses are not made."""
    found = place(f"all_reduce ({C10D}:9)", "f (train.py:3)", state="T")
    assert (found.stopped, found.kind) == (True, WaitKind.COLLECTIVE)
    assert place("f (train.py:3)", state="t").stopped


# --- threads ---


def test_main_waits_for_a_thread_in_a_collective() -> None:
    """An asynchronous checkpoint: the main thread waits for the thread that is in all_gather."""
    found = place_of(
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
    assert (found.kind, found.thread) == (WaitKind.COLLECTIVE, "AsyncCheckpointExecutor_0")
    assert found.user == stack("train (train.py:9)")[0]
    assert found.through is not None
    assert found.through.startswith('on thread "AsyncCheckpointExecutor_0"')


def test_training_on_another_thread() -> None:
    """Ray Train runs the loop on a thread: its wait may be on ranks, so the rank is not guilty."""
    found = place_of(
        dump(
            thread("wait (threading.py:327)", "Thread.join (threading.py:9)", "main (run.py:5)"),
            thread("loop (train.py:8)", *STARTED, name="train", tid=11, active=False),
            thread("wait (threading.py:327)", "run (tqdm/_monitor.py:60)", *STARTED, tid=12),
        ),
        process("S", "futex_do_wait"),
        TABLE,
    )
    assert (found.scope, found.user) == (Scope.MAYBE, stack("loop (train.py:8)")[0])


def test_bare_lock_is_not_followed() -> None:
    """A lock may be held by anyone: another thread in a collective is not taken for its holder."""
    found = place_of(
        dump(
            thread("PyThread_acquire_lock_timed (libpython3.11.so)", "f (train.py:5)"),
            thread(f"barrier ({C10D}:9)", "g (train.py:8)", *STARTED, tid=11),
        ),
        process(),
        TABLE,
    )
    assert (found.kind, found.user) == (WaitKind.LOCK, stack("f (train.py:5)")[0])


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
    found = place_of(dump(main), process(), TABLE)
    assert (found.kind, found.certain) == (WaitKind.GIL, False)
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
        found = place_of(stacks, None, TABLE)
        assert (found.scope, found.certain, found.user) == (Scope.MAYBE, False, None)
    assert of_frames(()).certain is False


KNOWN = st.sampled_from([(f, r.file, r.native) for r in TABLE for f in r.functions])
WORDS = st.text(alphabet="ab_.:</>*()@ 0x", max_size=12)
FRAMES = st.lists(
    st.one_of(KNOWN, st.tuples(WORDS, WORDS, st.booleans())).map(
        lambda parts: Frame(function=parts[0], file=parts[1], native=parts[2])
    ),
    max_size=8,
)


@settings(max_examples=300, deadline=None)
@given(frames=FRAMES, state=st.sampled_from("RSDTtZX?"), text=WORDS)
def test_no_stack_is_too_odd(frames: list[Frame], state: str, text: str) -> None:
    """Whatever frames meet in whatever order, there is a place, and it has words."""
    stacks = dump(Thread(frames=tuple(frames), tid=10))
    found = place_of(stacks, process(state, "futex"), TABLE, says(text))
    assert found.says
    assert str(found)
    assert found.user is None or found.user in frames


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
