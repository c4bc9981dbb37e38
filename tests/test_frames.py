"""The table of frames against real stacks, which ``tests/programs`` made and py-spy printed."""

from __future__ import annotations

import functools
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from stack_docs import document

from whyhang.analyzer.facts import Process, Record, StackDump
from whyhang.analyzer.stacks import Place, Scope, WaitKind, place_of, undecided
from whyhang.collectors.stacks import pyspy_text
from whyhang.signatures.frames import TABLE

HERE = Path(__file__).parent
DATA = HERE / "data" / "frames"
HEAD = re.compile(r"^== (\S+)(?: (child\d+))? \| (\S) (\S+)\n", re.MULTILINE)
K = WaitKind


class Case(Record):
    """One real stack: from which file, of which program, and the kernel's state then."""

    file: str
    name: str
    dump: StackDump
    process: Process

    @property
    def native(self) -> bool:
        """Whether the stack has native frames."""
        return "native" in self.file

    def __str__(self) -> str:
        return f"{self.file}:{self.name}"


def read_cases(file: str, text: str) -> Iterator[Case]:
    parts = HEAD.split(text)[1:]
    for name, child, state, wchan, stack in zip(*[iter(parts)] * 5, strict=True):
        dump = next(f for f in pyspy_text.READER.read(document(stack)) if isinstance(f, StackDump))
        kernel = None if wchan in {"0", "-"} else wchan
        yield Case(
            file=file,
            name=f"{name} {child}" if child else name,
            dump=dump,
            process=Process(who=dump.who, source=dump.source, state=state, wchan=kernel),
        )


@functools.cache
def all_cases() -> tuple[Case, ...]:
    files = sorted(DATA.glob("*.txt"))
    return tuple(case for file in files for case in read_cases(file.stem, file.read_text()))


def where(case: Case) -> Place:
    return place_of(case.dump, case.process, TABLE)


# What each program waits for: kind, operation, and words of the phrase.
EXPECTED: dict[str, tuple[WaitKind, str | None, str]] = {
    # collectives and point-to-point
    "all_reduce": (K.COLLECTIVE, "all_reduce", "in all_reduce"),
    "broadcast": (K.COLLECTIVE, "broadcast", "in broadcast"),
    "reduce": (K.COLLECTIVE, "reduce", "in reduce"),
    "all_gather": (K.COLLECTIVE, "all_gather", "in all_gather"),
    "all_gather_into_tensor": (K.COLLECTIVE, "all_gather_into_tensor", "in all_gather"),
    "reduce_scatter_tensor": (K.COLLECTIVE, "reduce_scatter_tensor", "in reduce_scatter"),
    "gather": (K.COLLECTIVE, "gather", "in gather"),
    "scatter": (K.COLLECTIVE, "scatter", "in scatter"),
    "all_to_all_single": (K.COLLECTIVE, "all_to_all_single", "in all_to_all_single"),
    "barrier": (K.COLLECTIVE, "barrier", "in barrier"),
    "monitored_barrier": (K.COLLECTIVE, "monitored_barrier", "in monitored_barrier"),
    "all_gather_object": (K.COLLECTIVE, "all_gather", "in all_gather_object"),
    "gather_object": (K.COLLECTIVE, "all_gather", "in gather_object"),
    "broadcast_object_list": (K.COLLECTIVE, "broadcast", "in broadcast_object_list"),
    "scatter_object_list": (K.COLLECTIVE, "broadcast", "in scatter_object_list"),
    "functional": (K.COLLECTIVE, None, "functional collective"),
    "send": (K.P2P, "send", "in send"),
    "recv": (K.P2P, "recv", "in recv"),
    "recv_object_list": (K.P2P, "recv", "in recv_object_list"),
    "irecv_wait": (K.P2P, "recv", "in recv"),
    "isend_wait": (K.P2P, "send", "in send"),
    "batch_wait": (K.P2P, "recv", "in recv"),
    "work_wait": (K.COLLECTIVE, None, "asynchronous operation"),
    # start-up
    "init_group": (K.INIT, "init_process_group", "in init_process_group"),
    "file_store": (K.INIT, "init_process_group", "in init_process_group"),
    "rpc_init": (K.INIT, None, "init_rpc"),
    "new_group": (K.GROUP, "new_group", "creating a process group"),
    "store_get": (K.STORE, None, "waiting for a key of the store"),
    "store_wait": (K.STORE, None, "waiting for a key of the store"),
    # models
    "ddp_constructor": (K.COLLECTIVE, "all_gather", "DDP's check of parameter shapes"),
    "ddp_forward": (K.COLLECTIVE, "broadcast", "DDP's forward"),
    "ddp_buffers": (K.COLLECTIVE, "broadcast", "DDP's broadcast of buffers"),
    "ddp_backward": (K.COLLECTIVE, "all_reduce", "DDP's gradient all_reduce"),
    "ddp_unused": (K.COLLECTIVE, "all_reduce", "DDP's"),
    "ddp_join": (K.COLLECTIVE, "all_reduce", "DDP's gradient all_reduce"),
    "user_hook": (K.SLEEP, None, "in backward"),
    "fsdp1_forward": (K.COLLECTIVE, "all_gather", "FSDP's all-gather"),
    "fsdp1_backward": (K.COLLECTIVE, "reduce_scatter_tensor", "FSDP's reduction"),
    "fsdp2_forward": (K.COLLECTIVE, "all_gather_into_tensor", "FSDP's all-gather"),
    "fsdp2_backward": (K.COLLECTIVE, "reduce_scatter_tensor", "FSDP's reduction"),
    "dtensor_full": (K.COLLECTIVE, None, "in the redistribution of a DTensor"),
    "dtensor_distribute": (K.COLLECTIVE, "scatter", "in the distribution of a DTensor"),
    "pipeline_warmup": (K.P2P, "recv", "the pipeline's sends and receives"),
    "pipeline_step": (K.P2P, "batch_isend_irecv", "the pipeline's sends and receives"),
    "zero_step": (K.COLLECTIVE, "broadcast", "ZeroRedundancyOptimizer"),
    "checkpoint_save": (K.COLLECTIVE, "all_gather", "saving a checkpoint"),
    "checkpoint_async": (K.COLLECTIVE, "all_gather", "AsyncCheckpointExecutor_0"),
    "checkpoint_load": (K.COLLECTIVE, "all_gather", "loading a checkpoint"),
    "debug_elsewhere": (K.COLLECTIVE, "barrier", "torch.distributed.breakpoint"),
    "debug_terminal": (K.DEBUGGER, None, "at a breakpoint"),
    # input pipeline and files of torch
    "loader_workers": (K.DATALOADER, None, "waiting for its DataLoader workers"),
    "loader_spawn": (K.DATALOADER, None, "waiting for its DataLoader workers"),
    "loader_collate": (K.DATALOADER, None, "waiting for its DataLoader workers"),
    "loader_single": (K.SLEEP, None, "inside the dataset"),
    "loader_workers child1": (K.SLEEP, None, "inside the dataset"),
    "loader_spawn child2": (K.SLEEP, None, "inside the dataset"),
    "loader_collate child1": (K.SLEEP, None, "inside the dataset"),
    "loader_idle child1": (K.IDLE, None, "waiting for work from its rank"),
    "loader_shutdown": (K.TEARDOWN, None, "shutting its DataLoader workers down"),
    "torch_save": (K.FILE, None, "in torch.save"),
    "torch_load": (K.FILE, None, "in torch.load"),
    "lock_file": (K.LOCK, "file-lock", "waiting for a lock file"),
    "spawn": (K.IDLE, None, "waiting for the processes that it spawned"),
    "build_extension": (K.COMPILE, None, "building a C++ extension"),
    "compile_graph": (K.COMPILE, None, "compiling a graph"),
    "torchrun_rendezvous": (K.INIT, None, "torchrun's rendezvous"),
    "torchrun_watching": (K.IDLE, None, "watching its workers"),
    # threads
    "sleep": (K.SLEEP, None, "sleeping"),
    "loop": (K.WORK, None, "running its own code"),
    "event": (K.LOCK, None, "event or condition"),
    "condition": (K.LOCK, None, "event or condition"),
    "semaphore": (K.LOCK, None, "semaphore"),
    "barrier_of_threads": (K.LOCK, None, "event or condition"),
    "queue_get": (K.QUEUE, None, "waiting for an item of a queue"),
    "queue_put": (K.QUEUE, None, "waiting for room in a full queue"),
    "event_loop": (K.IDLE, None, "in its event loop"),
    "tqdm_lock": (K.LOCK, None, "tqdm's lock"),
    "log_lock": (K.LOCK, None, "lock of a log handler"),
    # processes
    "run_child": (K.SUBPROCESS, None, "waiting for a child process"),
    "child_output": (K.SUBPROCESS, None, "waiting for a child process"),
    "system": (K.SUBPROCESS, None, "waiting for a child process"),
    "mp_queue": (K.QUEUE, None, "multiprocessing queue"),
    "mp_pipe": (K.QUEUE, None, "another process"),
    "mp_lock": (K.LOCK, None, "shares with other processes"),
    "mp_pool": (K.FUTURE, None, "process pool"),
    "mp_process": (K.SUBPROCESS, None, "child process to end"),
    "joblib_pool": (K.FUTURE, None, "joblib"),
    # people
    "pdb_terminal": (K.DEBUGGER, None, "at a breakpoint"),
    "ipdb_terminal": (K.DEBUGGER, None, "at a breakpoint"),
    "console_terminal": (K.DEBUGGER, None, "interactive console"),
    "password_terminal": (K.INPUT, None, "waiting for a password"),
    # files
    "flock": (K.LOCK, "file-lock", "waiting for a file lock"),
    "lockf": (K.LOCK, "file-lock", "waiting for a file lock"),
    "filelock_package": (K.LOCK, "file-lock", "waiting for a lock file"),
    "fasteners_package": (K.LOCK, "file-lock", "waiting for a lock file"),
    "portalocker_package": (K.LOCK, "file-lock", "waiting for a lock file"),
    "path_read": (K.FILE, None, "reading or writing a file"),
    "gzip_read": (K.FILE, None, "compressed file"),
    "tar_read": (K.FILE, None, "tar file"),
    "numpy_load": (K.FILE, None, "numpy"),
    "pandas_read": (K.FILE, None, "pandas"),
    "image_open": (K.FILE, None, "reading an image"),
    "copy_file": (K.FILE, None, "copying"),
    "log_to_full_pipe": (K.FILE, None, "writing a log message"),
    "print_to_full_pipe": (K.FILE, None, "writing to a full pipe"),
    # modules
    "import_module": (K.SLEEP, None, "importing a module"),
    "import_lock": (K.LOCK, None, "import lock of a module"),
    # network
    "accept": (K.NETWORK, None, "waiting on a socket"),
    "select_file": (K.POLL, None, "file descriptor"),
    "urllib_open": (K.NETWORK, None, "HTTP request"),
    "requests_get": (K.NETWORK, None, "HTTP request"),
    "httpx_get": (K.NETWORK, None, "HTTP request"),
    "aiohttp_get": (K.IDLE, None, "in its event loop"),
    "hub_download": (K.NETWORK, None, "Hugging Face Hub"),
    "boto3_get": (K.NETWORK, None, "remote storage"),
    "s3fs_open": (K.NETWORK, None, "remote storage"),
    "grpc_call": (K.NETWORK, None, "gRPC"),
    "redis_get": (K.NETWORK, None, "Redis"),
}

# Calls into C that leave no frame in Python: only native frames tell, or nothing does.
NATIVE_ONLY: dict[str, tuple[WaitKind, str | None, str]] = {
    "lock": (K.LOCK, None, "waiting for a lock"),
    "rlock": (K.LOCK, None, "waiting for a lock"),
    "simple_queue": (K.QUEUE, None, "item of a queue"),
    "gil": (K.GIL, None, "waiting for the GIL"),
    "join": (K.SLEEP, None, "waits for another thread to end"),
    "threads_at_exit": (K.SLEEP, None, "waits for its threads at exit"),
    "future": (K.SLEEP, None, "waits for a future"),
    "recv_tcp": (K.NETWORK, None, "waiting on a socket"),
    "input_terminal": (K.INPUT, None, "waiting for input"),
    "os_read": (K.FILE, None, "file, pipe or terminal"),
    "open_file": (K.FILE, None, "in file I/O"),
}
# The names of these differ between torch and plain sockets; the file tells which is meant.
SOCKETS: dict[str, tuple[WaitKind, str | None, str]] = {
    "recv": (K.NETWORK, None, "waiting on a socket")
}
MPI: dict[str, str] = {
    "allreduce_objects": "allreduce",
    "bcast_objects": "bcast",
    "gather_objects": "gather",
    "recv_objects": "recv",
}
# What a stack without native frames leaves open.
HIDDEN = frozenset(NATIVE_ONLY) | {
    "irecv_wait",
    "isend_wait",
    "batch_wait",
    "work_wait",
    "store_get",
    "store_wait",
    "input_pipe",
    "read_file",
    "zmq_recv",
}
# Seen in the native stack alone; the Python stack says no more than "in backward".
IN_BACKWARD = frozenset({"ddp_backward", "ddp_unused", "ddp_join"})


def expected(case: Case) -> tuple[WaitKind, str | None, str] | None:
    if case.file.startswith("mpi"):
        op = MPI.get(case.name, case.name)
        return (K.MPI, op, "mpi4py")
    if case.name in {"sleep", "import_module"} and case.file in {"python-3.8", "python-3.10"}:
        return None  # time.sleep was a select until 3.11
    if case.name == "recv" and case.file.startswith("python"):
        return SOCKETS["recv"] if case.native else None
    if case.native and case.name in NATIVE_ONLY:
        return NATIVE_ONLY[case.name]
    if not case.native and case.name in HIDDEN:
        return None
    if not case.native and case.name in IN_BACKWARD:
        return (K.BACKWARD, None, "in backward")
    return EXPECTED.get(case.name)


def is_expected(spot: Place, case: Case) -> bool:
    wanted = expected(case)
    if wanted is None:
        return spot.scope is not Scope.RANKS
    kind, op, words = wanted
    return spot.kind is kind and op in {None, spot.op} and words in str(spot)


def test_real_stacks() -> None:
    """Each real stack is read as what its program waits for; none is made a wait on ranks."""
    places = [(case, where(case)) for case in all_cases()]
    wrong = [f"{case}: {spot}" for case, spot in places if not is_expected(spot, case)]
    assert not wrong, "\n".join(wrong)


def test_data_covers_the_programs() -> None:
    """Every expectation has a real stack behind it."""
    seen = {case.name for case in all_cases()}
    assert seen >= set(EXPECTED) | set(NATIVE_ONLY) | set(SOCKETS)


def test_hidden_waits_ask_for_a_native_stack() -> None:
    """A wait that Python cannot show is worth a native stack, and is nobody's fault until then."""
    for case in all_cases():
        spot = where(case)
        if case.name in HIDDEN - {"gil"} and not case.native and spot.through is None:
            assert undecided(spot), str(case)
            assert spot.scope in {Scope.MAYBE, Scope.LOCAL}, str(case)


def test_the_users_frame_of_a_stack() -> None:
    """In every stack of a program that runs, the place to point at is a line of that program."""
    for case in all_cases():
        spot = where(case)
        if "child" not in case.name and spot.kind is not K.IDLE and spot.user is not None:
            assert spot.user.file.startswith(("wait_", "slow_module")), str(case)


LIVE = {"wait_python.py": ["lock", "flock"], "wait_torch.py": ["irecv_wait", "ddp_backward"]}


@pytest.mark.live
@pytest.mark.skipif(not Path("/proc/self/wchan").exists(), reason="needs Linux")
@pytest.mark.parametrize("program", LIVE)
def test_live_programs(program: str, tmp_path: Path) -> None:
    """The programs still make the stacks that are kept here, with the torch that is installed."""
    if program == "wait_torch.py" and importlib.util.find_spec("torch") is None:
        pytest.skip("needs torch")
    out = tmp_path / "live-native.txt"
    capture = [sys.executable, str(HERE / "programs" / "capture.py"), str(out), program]
    subprocess.run([*capture, "--native", *LIVE[program]], check=True, timeout=600)
    cases = [c for c in read_cases(out.stem, out.read_text()) if "child" not in c.name]
    assert {case.name for case in cases} == set(LIVE[program])
    for case in cases:
        assert is_expected(where(case), case), str(where(case))
