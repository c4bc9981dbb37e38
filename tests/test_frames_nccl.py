"""Native stacks of NCCL's threads: what each state of a communicator looks like from outside.

The stacks follow NCCL's source; no machine with a GPU was at hand to record them.
"""

from __future__ import annotations

import pytest
from place_docs import place as place_at

from whyhang.analyzer.stacks import Place, Scope, WaitKind

K = WaitKind
PYTHON = ("all_reduce (torch/distributed/distributed_c10d.py:3100)", "train (train.py:40)")
TORCH = "c10d::ProcessGroupNCCL::allreduce (libtorch_cuda.so)"
STATES = [
    (
        (
            "poll ncclSocketProgressOpt bootstrapRecv bootstrapAllGather bootstrapInit "
            "ncclCommInitRankFunc"
        ),
        K.NCCL_INIT,
        "setting up an NCCL communicator",
    ),
    (
        (
            "ncclPollProxyResponse ncclProxyCallBlocking ncclTransportP2pSetup "
            "ncclTransportRingConnect ncclCollPreconnectFunc ncclAsyncJobMain"
        ),
        K.NCCL_INIT,
        "proxy thread",
    ),
    ("sched_yield waitWorkFifoAvailable uploadWork groupLaunch", K.COLLECTIVE, "launch of an NCCL"),
    ("sched_yield ncclLocalOpAppend ncclProxyStart groupLaunch", K.COLLECTIVE, "launch of an NCCL"),
    ("clock_nanosleep usleep asyncJobLaunch", K.COLLECTIVE, "launch of an NCCL"),
    ("cuMulticastBindMem ncclNvlsBufferSetup initTransportsRank", K.NCCL_INIT, "NVLS"),
    ("commDestroySync ncclCommDestroy", K.TEARDOWN, "shutting a communicator down"),
    ("pthread_join ncclProxyStop commReclaim", K.TEARDOWN, "shutting a communicator down"),
    ("cuLibraryLoadData", K.CUDA_SYNC, "setting up the GPU"),
    ("ioctl ibv_modify_qp", K.NETWORK, "InfiniBand"),
]
THREADS = [
    "sched_yield sendProxyProgress progressOps ncclProxyProgress",
    "sched_yield recvProxyProgress progressOps ncclProxyProgress",
    "pthread_cond_wait ncclProxyGetPostedOps ncclProxyProgress",
    "poll ncclProxyService",
    "poll ncclProxyServiceUDS",
    "poll rasThreadMain",
    "poll ncclIbAsyncThreadMain",
    "pthread_cond_wait persistentSocketThread",
    "pthread_cond_timedwait c10d::ProcessGroupNCCL::HeartbeatMonitor::runLoop",
    "pthread_cond_timedwait c10d::ProcessGroupNCCL::Watchdog::runLoop",
]


def where(functions: str, *outer: str) -> Place:
    """Classify a stack of NCCL's functions, innermost first."""
    lines = [f"{name} (libnccl.so.2)" for name in functions.split()]
    return place_at(*lines, *outer)


@pytest.mark.parametrize(("functions", "kind", "says"), STATES)
def test_a_state_of_nccl_is_recognized_by_its_functions(
    functions: str, kind: WaitKind, says: str
) -> None:
    """Each state that NCCL's source knows has a name of its own in the table."""
    spot = where(functions)

    assert spot.kind is kind
    assert says in str(spot.says)


@pytest.mark.parametrize("blocked", ["waitWorkFifoAvailable", "ncclLocalOpAppend"])
def test_a_full_queue_is_reported_where_nothing_tells_the_operation(blocked: str) -> None:
    """A launch that waits for room says that earlier operations do not finish."""
    spot = where(f"sched_yield {blocked}")

    assert "full queue" in str(spot.says)


@pytest.mark.parametrize("functions", THREADS)
def test_threads_that_serve_are_not_taken_for_waits(functions: str) -> None:
    """NCCL's proxy, RAS and network threads spin and poll in every healthy job."""
    spot = where(functions)

    assert spot.kind is K.IDLE
    assert spot.scope is Scope.IDLE


@pytest.mark.parametrize(("functions", "kind", "says"), STATES[:4])
def test_the_collective_of_the_program_still_has_the_word(
    functions: str, kind: WaitKind, says: str
) -> None:
    """Below torch's all_reduce the rank waits for others, whatever NCCL does there."""
    del kind, says
    assert where(functions, TORCH, *PYTHON).scope is Scope.RANKS
