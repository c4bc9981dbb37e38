"""Every line in which torch tells of trouble is known, in each wording it has had."""

from __future__ import annotations

import regex

from whyhang import signatures

TROUBLE = (
    (
        "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, "
        "OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600123 milliseconds before timing out."
    ),
    (
        "[Rank 0] Caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE, "
        "Timeout(ms)=600000) ran for 600123 milliseconds before timing out."
    ),
    "Work WorkNCCL(SeqNum=1, OpType=ALLREDUCE, Timeout(ms)=600000) timed out in call to wait().",
    (
        "Work WorkNCCL(SeqNum=1, OpType=ALLREDUCE) timed out in blocking wait "
        "(TORCH_NCCL_BLOCKING_WAIT=1)."
    ),
    "Work WorkNCCL(SeqNum=1, OpType=ALLREDUCE) timed out in blocking wait.",
    (
        "NCCL monitor thread timeout. Basically, this could be due to CUDA or NCCL calls being "
        "unexpectedly blocking, especially when your program enters a deadlock state"
    ),
    (
        "monitoring thread detects no heartbeat and will finally kill the process! "
        "terminateProcessGroup_ 0"
    ),
    (
        "Received a timeout signal from this local rank and will start to dump the debug info. "
        "Last enqueued NCCL work: 5, last completed NCCL work: 4."
    ),
    (
        "Received a global timeout from another rank and will start to dump the debug info. "
        "Last enqueued NCCL work: 5, last completed NCCL work: 4."
    ),
    "Observed flight recorder dump signal from another rank via TCPStore.",
    (
        "Received a dump signal due to a collective timeout from  rank 3 and we will try our "
        "best to dump the debug info. Last enqueued NCCL work: 5, last completed NCCL work: 4."
    ),
    (
        "Heartbeat monitor timed out! Process will be terminated after dumping debug info. "
        "workMetaList_.size() = 3"
    ),
    (
        "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in "
        "monitoring enqueued collectives. This typically indicates a NCCL/CUDA API"
    ),
    "Could not acquire GIL within 300 ms on exit, possible GIL induced hang",
    (
        "Terminating the process after attempting to dump debug info, due to collective "
        "timeout or exception."
    ),
    (
        "Terminating the process after attempting to dump debug info, due to ProcessGroupNCCL "
        "watchdog hang."
    ),
    (
        "ProcessGroupNCCL monitor thread is disabled, but would have terminated the process "
        "after attempting to dump debug info"
    ),
    "PGNCCL Monitor Thread is disabled, but would have killed this job:",
    (
        'Failed to check the "should dump" flag on TCPStore, (maybe TCPStore server has shut '
        "down too early), with error: Connection reset by peer"
    ),
    (
        'TCPStore check for dump key "exception_dump" failed (store unavailable, not absent '
        "key). Cannot detect remote dump signals. Error: Broken pipe"
    ),
    "[PG ID 0 PG GUID 0(default_pg) Rank 1]  remote error detected from rank: 3",
    (
        "[rank1]:[E] Collective WorkNCCL(SeqNum=1, OpType=ALLREDUCE) raised the following "
        "async exception: NCCL error: unhandled system error, NCCL version 2.21.5"
    ),
    (
        "[Rank 1] found async exception when checking for NCCL errors: NCCL error: remote "
        "process exited or there was a network error, NCCL version 2.18.1"
    ),
    (
        "NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1691, unhandled "
        "cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5"
    ),
    (
        "NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1691, internal "
        "error - please report this issue to the NCCL developers, NCCL version 2.21.5"
    ),
    (
        "NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1691, invalid "
        "usage (run with NCCL_DEBUG=WARN for details), NCCL version 2.21.5"
    ),
    (
        "NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1691, invalid "
        "argument (run with NCCL_DEBUG=WARN for details), NCCL version 2.21.5"
    ),
    "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.",
    "NCCL timeout in: ../torch/csrc/distributed/c10d/NCCLUtils.cpp:55",
    "NCCL timeout when waiting for nonblocking call to become successful.",
    (
        "NCCL communicator was aborted on rank 3.  Original reason for failure was: [Rank 3] "
        "Watchdog caught"
    ),
    "NCCL communicator encountered error set by ProcessGroupNCCL: timeout",
    (
        "[3] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d "
        "key-value store by key '0', but store->get('0') got error: Socket Timeout. This may "
        "indicate a possible application crash on rank 0 or a network set up issue."
    ),
    (
        "[3] is setting up NCCL communicators and retrieving ncclUniqueId(s) from roots via "
        "TCPStore by key '0', but store->get('0') got error: wait timeout after 600000ms, "
        "keys: /default_pg/0//cuda//0"
    ),
    (
        "Detected mismatch between collectives on ranks. Rank 0 is running collective: "
        "CollectiveFingerPrint(SequenceNumber=3, OpType=ALLREDUCE, TensorShape=[4]), but Rank "
        "1 is running collective: CollectiveFingerPrint(SequenceNumber=3OpType=BARRIER)."
    ),
    (
        "Error when verifying shape tensors for collective ALLREDUCE on rank 1. This likely "
        "indicates that input shapes into the collective are mismatched across ranks. Got "
        "shapes: "
    ),
    "[Rank 0]: Rank 1 failed to pass monitoredBarrier in 30000 ms",
    "[Rank 0]: Ranks 1, 2 failed to pass monitoredBarrier in 30000 ms",
    (
        "Rank 1 successfully reached monitoredBarrier, but received errors while waiting for "
        "send/recv from rank 0. Please check rank 0 logs for faulty rank."
    ),
    (
        "Expected to mark a variable ready only once. This error is caused by one of the "
        "following reasons"
    ),
    (
        "Your training graph has changed in this iteration, e.g., one parameter is unused in "
        "first iteration, but then got used in the second iteration. this is not compatible "
        "with static_graph set to True."
    ),
    "Rank 1 exhausted all inputs.",
    "Detected at least one rank that exhausted inputs. Throwing across all ranks.",
    "Timed out waiting 1800000ms for recv operation to complete",
    "Application timeout caused pair closure",
    "[/x/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]:3434",
    "[/x/gloo/transport/tcp/pair.cc:534] Read error [10.0.0.1]:3434: Connection reset by peer",
    "[/x/gloo/transport/tcp/pair.cc:534] writev [10.0.0.1]:3434: Broken pipe",
    "[/x/gloo/transport/tcp/pair.cc:534] Socket closed [10.0.0.1]:3434",
    "[/x/gloo/transport/tcp/pair.cc:534] Read timeout [10.0.0.1]:3434",
    "[enforce fail at /x/gloo/transport/tcp/pair.cc:446] op.preamble.length <= op.nbytes. 8 vs 4",
    (
        "Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pair.cc:144] "
        "no error"
    ),
    "[/x/gloo/transport/tcp/pair.h:301] Connect timeout [none]",
    "[/x/gloo/transport/tcp/pair.cc:799] connect [127.0.1.1]:45033: Connection refused",
    (
        "[enforce fail at /x/gloo/transport/tcp/device.cc:84] ifa != nullptr. Unable to find "
        "address for: eth7"
    ),
    "RuntimeError: Cannot resolve node7 to a (local) address",
    "RuntimeError: Unable to resolve hostname to a (local) address",
    "torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /default_pg/0//cpu//0/3",
    (
        "The server socket has failed to listen on any local network address. The server "
        "socket has failed to bind to [::]:29500 (errno: 98 - Address already in use)."
    ),
    (
        "The server socket has failed to listen on any local network address. port: 29500, "
        "useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"
    ),
    (
        "The IPv6 network addresses of (node9, 29500) cannot be retrieved (gai error: -2 - "
        "Name or service not known)."
    ),
    "The client socket has failed to connect to [node9]:29500 (errno: 111 - Connection refused).",
    "The client socket has timed out after 60s while trying to connect to (node9, 29500).",
    "The client socket has timed out after 60000ms while trying to connect to (node9, 29500).",
    "Ping failed, invalid nonce returned",
    "Ping failed, invalid value returned from server. Expected: 7, Got: 9",
    "Timed out after 61 seconds waiting for clients. 3/4 clients joined.",
    (
        "Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server "
        "shutdown or crash?"
    ),
    (
        "Failed to send, sent 0 bytes. Connection was likely closed. Did the remote server "
        "shutdown or crash?"
    ),
    (
        "recvValueWithTimeout failed on SocketImpl(fd=7, addr=[::1]:1, remote=[::1]:2): Failed "
        "to recv, got 0 bytes"
    ),
    (
        "Starting store with 1024 workers but somaxconn is 128.This might cause instability "
        "during bootstrap, consider increasing it."
    ),
    "TCPStoreMasterDaemon::run() failed with exception: Connection reset by peer",
    (
        "Timed out initializing process group in store based barrier on rank: 1, for key: "
        "store_based_barrier_key:1 (world_size=4, worker_count=3, timeout=0:30:00)"
    ),
    (
        "Timed out initializing process group in store based barrier on rank 1, for key: "
        "store_based_barrier_key:1 (world_size=4, num_workers_joined=3, timeout=0:30:00 "
        "error=x)"
    ),
    (
        "Waiting in store based barrier to initialize process group for rank: 1, key: "
        "store_based_barrier_key:1 (world_size=4, worker_count=3, timeout=0:30:00)"
    ),
    (
        "ValueError: Error initializing torch.distributed using env:// rendezvous: environment "
        "variable MASTER_ADDR expected, but not set"
    ),
    "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
    (
        "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to "
        "the C10d store has failed. See inner exception for details."
    ),
    "torch.distributed.elastic.rendezvous.api.RendezvousClosedError",
    (
        "torch.distributed.elastic.rendezvous.api.RendezvousGracefulExitError: Rendezvous "
        "gracefully exited: x"
    ),
    "[default] Worker group FAILED. 2/3 attempts left; will restart worker group",
    "[default] Detected 1 new nodes from group_rank=0; will restart worker group",
    "Error waiting on exit barrier. Elapsed: 300.1 seconds",
    "failed (exitcode: -9) local_rank: 1 (pid: 4242) of binary: /usr/bin/python3",
    "failed (exitcode: 1) local_rank: 1 (pid: 4242) of fn: trainer (start_method: spawn)",
    "Reaping worker_pid=[4242]. Expired timers: x",
    "DataLoader worker (pid 4242) is killed by signal: Killed. ",
    (
        "DataLoader worker (pid 4242) is killed by signal: Bus error. It is possible that "
        "dataloader's workers are out of shared memory. Please try to raise your shared memory "
        "limit."
    ),
    "DataLoader worker (pid 4242) is killed by signal: Segmentation fault. ",
    "DataLoader worker (pid 4242) is killed by signal: Aborted. ",
    (
        "DataLoader worker (pid 4242) exited unexpectedly with exit code 1. Details are lost "
        "due to multiprocessing. Rerunning with num_workers=0 may give better error trace."
    ),
    "DataLoader worker (pid(s) 4242, 4243) exited unexpectedly",
    "DataLoader timed out after 60 seconds",
    (
        "ERROR: Unexpected bus error encountered in worker. This might be caused by "
        "insufficient shared memory (shm)."
    ),
    "ERROR: Unexpected segmentation fault encountered in worker.",
    "ERROR: Unexpected floating-point exception encountered in worker.",
    "Caught ValueError in DataLoader worker process 3.",
    "Caught RuntimeError in pin memory thread for device 0.",
    (
        "Too many open files. Communication with the workers is no longer possible. Please "
        "increase the limit using `ulimit -n`"
    ),
    (
        "DDP expects same model across all ranks, but Rank 1 has 10 params, while rank 0 has "
        "inconsistent 12 params."
    ),
    (
        "Expected to have finished reduction in the prior iteration before starting a new one. "
        "This error indicates that your module has parameters that were not used in producing "
        "loss."
    ),
)
"""Lines of torch 1.13 to 2.15 and of gloo, without the envelope of the logger."""


def test_every_line_of_trouble_is_known() -> None:
    """Each line is that of a cause, a consequence or a noise, so that none is passed over."""
    patterns = [regex.compile(pattern) for s in signatures.load() for pattern in s.patterns]

    assert [line for line in TROUBLE if not any(p.search(line) for p in patterns)] == []
