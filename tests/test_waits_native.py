"""Where a thread stands, by its native frames."""

from __future__ import annotations

import pytest
from place_docs import C10D, of_frames, place, stack

from whyhang.analyzer.facts import Frame
from whyhang.analyzer.stacks import Scope, WaitKind, undecided
from whyhang.analyzer.stacks.rule_match import symbol


def test_native_frame_names_what_no_python_frame_does() -> None:
    """``work.wait()`` leaves no frame of torch in Python; the native stack has it."""
    spot = place(
        "pthread_cond_wait (libc.so.6)",
        "std::condition_variable::wait (libstdc++.so.6)",
        "c10d::Work::wait (libtorch_cpu.so)",
        "pybind11::cpp_function::dispatcher (libtorch_python.so)",
        "step (train.py:30)",
    )
    assert (spot.kind, spot.op, spot.scope) == (WaitKind.COLLECTIVE, None, Scope.RANKS)
    assert spot.native
    assert not undecided(spot)


def test_python_frame_gives_the_operation() -> None:
    """Under all_reduce the same native wait is that all_reduce."""
    spot = place("c10d::Work::wait (libtorch_cpu.so)", f"all_reduce ({C10D}:9)", "f (train.py:3)")
    assert (spot.kind, spot.op) == (WaitKind.COLLECTIVE, "all_reduce")


def test_ddps_reduction_in_backward() -> None:
    """DDP's wait for gradients shows in the native stack alone."""
    spot = place(
        "c10d::Work::wait (libtorch_cpu.so)",
        "c10d::Reducer::finalize_backward (libtorch_cpu.so)",
        "torch::autograd::Engine::execute_with_graph_task (libtorch_cpu.so)",
        "_engine_run_backward (torch/autograd/graph.py:979)",
        "train (train.py:5)",
    )
    assert (spot.kind, spot.op) == (WaitKind.COLLECTIVE, "all_reduce")
    assert str(spot.says) == "in DDP's gradient all_reduce"


def test_setting_nccl_up_inside_a_collective() -> None:
    """The first collective of a group sets its communicator up; both are said."""
    spot = place(
        "poll (libc.so.6)",
        "c10d::TCPStore::doWait (libtorch_cpu.so)",
        "c10d::ProcessGroupNCCL::broadcastUniqueNCCLID (libtorch_cuda.so)",
        "c10d::ProcessGroupNCCL::initNCCLComm (libtorch_cuda.so)",
        f"broadcast ({C10D}:9)",
        "f (train.py:3)",
    )
    assert (spot.kind, spot.op) == (WaitKind.COLLECTIVE, "broadcast")
    assert str(spot.says) == "in broadcast, setting up an NCCL communicator"


def test_waiting_for_the_gpu_inside_barrier_is_the_barrier() -> None:
    """A host that waits for the GPU in a collective waits for the collective."""
    spot = place("cudaStreamSynchronize (libcudart.so.12)", f"barrier ({C10D}:9)", "f (train.py:3)")
    assert (spot.kind, spot.op) == (WaitKind.COLLECTIVE, "barrier")


def test_item_waits_for_the_gpu() -> None:
    """``.item()`` leaves the caller's line in Python and the synchronize below it."""
    spot = place(
        "cuStreamSynchronize (libcuda.so.1)",
        "at::native::_local_scalar_dense_cuda (libtorch_cuda.so)",
        "train (train.py:3)",
    )
    assert (spot.kind, spot.scope) == (WaitKind.CUDA_SYNC, Scope.MAYBE)


def test_driver_without_symbols() -> None:
    """Inside the CUDA driver there are addresses only; that is a wait for the GPU, perhaps."""
    spot = place("0x7f12 (libcuda.so.1)", "0x7f13 (libcuda.so.1)", "train (train.py:3)")
    assert (spot.kind, spot.scope, spot.certain) == (WaitKind.CUDA_SYNC, Scope.MAYBE, False)


def test_mpi_call_without_python_frame() -> None:
    """mpi4py leaves no frame of its own; the MPI library's symbol names the call."""
    spot = place(
        "opal_progress (libopen-pal.so.40)",
        "ompi_comm_dup_with_info (libmpi.so.40)",
        "PMPI_Comm_dup (libmpi.so.40)",
        "main (solve.py:3)",
        state="R",
    )
    assert (spot.kind, spot.op, spot.scope) == (WaitKind.MPI, "comm_dup", Scope.RANKS)


@pytest.mark.parametrize(
    ("function", "op"),
    [
        ("PMPI_File_write_at_all", "file_write_at_all"),
        ("MPI_Neighbor_alltoall_c", "neighbor_alltoall"),
        ("PMPI_Init_thread", "init"),
    ],
)
def test_a_call_of_mpi_is_named_by_its_function_whatever_it_is_made_of(
    function: str, op: str
) -> None:
    """A write of all ranks is made of an allreduce, which is none of the program's."""
    spot = place(
        "ompi_coll_base_allreduce_intra_ring (libmpi.so.40)",
        f"{function} (libmpi.so.40)",
        "main (solve.py:3)",
    )
    assert (spot.kind, spot.op, spot.scope) == (WaitKind.MPI, op, Scope.RANKS)
    assert str(spot.says) == f"in {function.removeprefix('P').removesuffix('_c')}"


def test_program_without_python() -> None:
    """In a program of C or Fortran the place to point at is the caller of the MPI function."""
    spot = place(
        "opal_progress (libopen-pal.so)",
        "PMPI_Barrier (libmpi.so)",
        "pmpi_barrier__ (libmpi_fort.so)",
        "main (libsolver.so)",
    )
    assert (spot.op, spot.user) == ("barrier", None)
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
