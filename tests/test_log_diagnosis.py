"""From a few lines of a log to the diagnosis: lines of real gloo and torchrun runs, cut down."""

from __future__ import annotations

import pytest
from gloo_docs import MEMBER, RESET, SHAPE, raised, table
from log_docs import diagnosed

MISSED = (
    "[E1121 02:08:47.48 ProcessGroupGloo.cpp:67] "
    "[Rank 0]: Rank 1 failed to pass monitoredBarrier in 4000 ms"
)
ECHO = (
    "RuntimeError: Rank {} successfully reached monitoredBarrier, but received errors while "
    "waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank.\n"
    " Original exception:\n"
    "[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:129] "
    "Timed out waiting 4000ms for send operation to complete"
)
KEY = "torch.distributed.DistStoreError: wait timeout after 4000ms, keys: /default_pg/0//cpu//0/{}"
JOINED = (
    "torch.distributed.DistStoreError: "
    "Timed out after 5 seconds waiting for clients. 2/3 clients joined."
)
NCCL_ID = (
    "torch.distributed.DistBackendError: [1] is setting up NCCL communicator and retrieving "
    "ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: "
    "wait timeout after 600000ms, keys: /default_pg/0//cuda//0"
)
OLD_ID = (
    "[rank{}]: torch.distributed.DistBackendError: [{}] is setting up NCCL communicator and "
    "retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got "
    "error: Socket Timeout\n"
)
REMOTE = (
    "[rank0]:[E722 08:55:15.724116323 ProcessGroupNCCL.cpp:1605] [PG ID 0 PG GUID 0(default_pg) "
    "Rank 0] Process group watchdog thread terminated with exception: NCCL error: remote process "
    "exited or there was a network error, NCCL version 2.22.3\n"
)
CRASHED = "[node1:1 :0:98] Caught signal 11 (Segmentation fault: Sent by the kernel)"
ELASTIC = "torch/distributed/elastic/multiprocessing/api.py"
TORCHRUN = (
    f"W1121 02:13:03.592000 17493 {ELASTIC}:1028] Sending process 17505 closing signal SIGTERM\n"
    f"E1121 02:13:03.595000 17493 {ELASTIC}:1002] failed (exitcode: {{code}}) local_rank: 1 "
    "(pid: 17506) of binary: /opt/env/bin/python3\n"
    """\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
Failures:
[1]:
  time      : 2026-11-21_02:13:03
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 17505)  (SIGTERM)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 17505
Root Cause (first observed failure):
[0]:
  time      : 2026-11-21_02:13:03
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : {code} (pid: 17506)
  error_file: <N/A>
"""
)
CHECKPOINT = (
    "torch.distributed.checkpoint.api.CheckpointException: CheckpointException "
    "ranks:dict_keys([1])\nOSError: [Errno 28] No space left on device"
)
CLOSED = """\
Traceback (most recent call last):
  File "/srv/app/relay.py", line 52, in hand_over
    dist.{call}
  File "/opt/torch/distributed/distributed_c10d.py", line 2100, in {op}
    default_pg.{op}([tensor], peer, tag).wait()
RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:35612
"""
SLURM_OOM = (
    "slurmstepd: error: Detected 1 oom_kill event in StepId=194.0. "
    "Some of the step tasks have been OOM Killed.\n"
)


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has"
GLOO_LATE = (
    "{} RuntimeError: [unbound_buffer.cc:81] Timed out waiting 5000ms for recv operation "
    "to complete\n"
)
LATE = (
    "[rank{0}]:[E1206 18:44:16.9 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
    "Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n"
)
INIT = "{0}:{1}:9 [0] NCCL INFO comm 0x5{1} rank {1} nranks 4 cudaDev 0 busId 1e0 - Init COMPLETE\n"
NODES = "".join(INIT.format(f"gpu{1 + rank // 2}", rank) for rank in range(4))
REFUSED = (
    "gpu1:1:9 [0] NCCL WARN socketStartConnect: Connect to 10.0.0.2<41033> failed : "
    "Connection refused\n"
)
CLOSING = "W1121 api.py:1028] Sending process 17476 closing signal SIGTERM\n"
BOX = "=   RANK {0} PID 23{0} RUNNING AT n1\n=   KILLED BY SIGNAL: 9 (Killed)\n"
RESTART = "[default] Worker group FAILED. 3/3 attempts left; will restart worker group\n"
MESH = "RuntimeError: Gloo connectFullMesh failed with [pair.cc:144] no error"
STALLED = (
    "One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks "
    "and are waiting for remainder of ranks for more than 60 seconds.\n"
)
CASES: dict[str, tuple[dict[int | None, str], str, tuple[int, ...] | None]] = {
    "the rank that rank 0 misses in a monitored barrier, though it has no log": (
        {0: MISSED},
        "monitored-barrier-missing-rank",
        (1,),
    ),
    "all that failed in the moment in which one of them says that memory ran out": (
        {None: raised(OOM, rank=1) + table(0, 1, 2, 3)},
        "cuda-out-of-memory",
        (0, 1, 2, 3),
    ),
    "only the one that says so, if the end of a peer brought the others down": (
        {None: raised(OOM, rank=1) + RESET + "\n" + table(0, 1)},
        "cuda-out-of-memory",
        (1,),
    ),
    "only the one that says so, if the others failed in NCCL": (
        {None: raised(OOM, rank=1) + "[rank0]: ncclSystemError: failed\n" + table(0, 1)},
        "cuda-out-of-memory",
        (1,),
    ),
    "the only one that failed, where a traceback without prefix names nobody": (
        {None: raised("ValueError: bad sample") + table(2)},
        "uncaught-exception",
        (2,),
    ),
    "nobody, if every rank raised the same": (
        {None: 2 * raised("KeyError: 'x'") + table(0, 1)},
        "plain-exception",
        None,
    ),
    "the only one that raised, where its launcher says that it ended others": (
        {None: raised("PermissionError: no", rank=0) + CLOSING + table(0)},
        "uncaught-exception",
        (0,),
    ),
    "nobody, if as many processes raised as the job has ranks": (
        {None: "Starting with 2 processes\nworld_size=2\n" + 2 * raised("KeyError: 'x'")},
        "plain-exception",
        None,
    ),
    "nobody, if as many processes say so as their launcher has, though it saw one fail": (
        {None: 3 * raised(OOM) + CLOSING + CLOSING.replace("17476", "17477") + table(2)},
        "cuda-out-of-memory",
        None,
    ),
    "nobody, if all raised at one place, each with another name": (
        {
            None: raised("ValueError: layers.0.q has no device", rank=0)
            + raised("ValueError: embed.tokens has no device", rank=1)
            + table(0, 1)
        },
        "plain-exception",
        None,
    ),
    "the task with an exit code, while another lost its peer and was aborted": (
        {
            None: "n2:9:9 [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by "
            "remote peer n1<45074>\n[rank1]: ncclRemoteError: A call failed\n"
            "srun: error: n1: task 0: Exited with exit code 1\n"
            "srun: error: n2: task 1: Exited with exit code 134\n"
        },
        "slurm-task-failed",
        (0,),
    ),
    "an error within the task that a task of Ray waited for, at the end of all": (
        {
            None: raised("ray.exceptions.RayTaskError(ActorDiedError): ray::Runner.run() (pid=7)")
            + '  File "/w/main.py", line 13, in run\n    ray.get(sync.start.remote())\n'
            "ray.exceptions.ActorDiedError: The actor died because of an error raised in its "
            "creation task, ray::Sync.__init__() (pid=8, ip=10.0.0.7)\n"
            '  File "/w/sync.py", line 53, in __init__\n    make_group()\n'
            "RuntimeError: NCCL is not available.\n"
        },
        "plain-exception",
        None,
    ),
    "who failed, where the launcher killed itself with the rest": (
        {
            None: raised("KeyError: 'tokens'", rank=1) + "[rank: 1] Child process with PID 4 "
            "terminated with code 1. Forcefully terminating all other processes\nKilled\n"
        },
        "uncaught-exception",
        (1,),
    ),
    "the rank of a send that torch found in a wrong state of its own": (
        {
            0: "step 1 loss 0.3\n",
            1: 'Traceback (most recent call last):\n  File "/w/ring.py", line 5, in f\n'
            '  File "/opt/torch/distributed/distributed_c10d.py", line 9, in isend\n'
            "RuntimeError: ncclComm != nullptr INTERNAL ASSERT FAILED at ProcessGroupNCCL.cpp:43\n",
            2: "step 1 loss 0.3\n",
        },
        "uncaught-exception",
        (1,),
    ),
    "the task that a Slurm of another name saw end, not those that it killed": (
        {
            None: "yhrun: error: n1: task 0: Exited with exit code 174\n"
            "yhrun: error: n1: tasks 1-35: Killed\n"
        },
        "failure-row-exit-code",
        (0,),
    ),
    "the one rank that gave MPI what it refuses": (
        {
            None: "Abort(4) on node 3 (rank 3 in comm 0): Fatal error in PMPI_Send: Invalid tag, "
            "error stack:\n"
        },
        "mpi-invalid-argument",
        (3,),
    ),
    "nobody, if the program does not take its command line": (
        {
            None: 4 * "usage: t.py [-h] config\nt.py: error: unrecognized arguments: --x\n"
            + table(0)
        },
        "usage-error",
        None,
    ),
    "nobody, if the launcher of MPI killed all that it reports": (
        {
            None: "Error text: an illegal memory access was encountered\n"
            + BOX.format(0)
            + BOX.format(1)
        },
        "cuda-illegal-access",
        None,
    ),
    "the one that speaks of something else while all others wait": (
        {None: "rank 1: returned\n" + GLOO_LATE.format("rank 0:")},
        "rank-not-waiting",
        (1,),
    ),
    "nobody, if all that speak waited": (
        {None: GLOO_LATE.format("[rank0]:") + GLOO_LATE.format("[rank1]:")},
        "gloo-timeout",
        None,
    ),
    "all ranks of a host that Slurm says has failed": (
        {None: NODES + "srun: error: Node failure on gpu2\n"},
        "slurm-node-failure",
        (2, 3),
    ),
    "nobody for a refused connection, if the peer had been there before": (
        {None: NODES + REFUSED},
        "nccl-connect-refused-later",
        None,
    ),
    "the first to fail, and not what the next attempt ran into": (
        {None: raised("ValueError: bad", rank=1) + RESTART + raised(MESH, rank=0)},
        "uncaught-exception",
        (1,),
    ),
    "the ranks for which Horovod's coordinator waits, not the coordinator": (
        {None: "[1,0]<stderr>:" + STALLED + "[1,0]<stderr>:avg_loss [missing ranks: 1, 3]\n"},
        "horovod-missing-ranks",
        (1, 3),
    ),
    "the one whose own log has no time-out, while all others ran into one": (
        {0: LATE.format(0), 1: LATE.format(1), 2: "step 7 loss 0.5\n", 3: LATE.format(3)},
        "rank-log-without-timeout",
        (2,),
    ),
    "the one of which there is no such line, though it may only be cut off": (
        {None: "[rank2]: step 7 loss 0.5\n" + "".join(LATE.format(n) for n in (0, 1, 3))},
        "waits-for-silent-rank",
        (2,),
    ),
    "the rank of the process that raised, as other lines of that process tell": (
        {
            None: "(RayTrainWorker pid=7, ip=10.0.0.1) [rank1] step 1\n"
            "(RayTrainWorker pid=6, ip=10.0.0.1) [rank0] step 1\n"
            + "".join(
                f"(RayTrainWorker pid=7, ip=10.0.0.1) {line}\n"
                for line in raised("ValueError: bad").splitlines()
            )
        },
        "uncaught-exception",
        (1,),
    ),
    "the one that had come to its end when the others lost it": (
        {None: "rank 1: loop finished\n" + f"rank 0: {RESET}\n"},
        "rank-finished-early",
        (1,),
    ),
    "the one whose words stop in the middle, where all write to one log": (
        {
            None: "".join(f"[rank{n}]: step 9\n" for n in range(3))
            + f"[rank0]: {RESET}\n[rank2]: {RESET}\n"
        },
        "rank-went-silent",
        (1,),
    ),
    "the rank that a table of failures shows, if nothing but that is left": (
        {None: table(5, code=3)},
        "failure-row-exit-code",
        (5,),
    ),
    "the one that raised first, and not who crashed after it": (
        {
            None: raised("KeyError: 'x'", rank=2)
            + "[rank1]: Fatal Python error: Segmentation fault\n"
        },
        "uncaught-exception",
        (2,),
    ),
    "the task that raised, between the lines of srun itself": (
        {
            None: "0: step 1\n1: step 1\n2: step 1\n"
            + "".join(f"2: {line}\n" for line in raised("ValueError: bad").splitlines())
            + "srun: error: n3: task 2: Exited with exit code 1\n"
            + "srun: error: n1: tasks 0-1: Terminated\n"
        },
        "uncaught-exception",
        (2,),
    ),
    "nothing, if the job got over its trouble at the start": (
        {
            None: "[W1 socket.cpp:663] [c10d] The IPv6 network addresses of (node1, 29500) cannot "
            "be retrieved (gai error: -2 - Name or service not known).\n"
            "epoch 3 step 100 loss 0.31\ntraining done\n"
        },
        "quiet-log",
        None,
    ),
    "what stopped it at its start, though a scheduler speaks of steps after it": (
        {
            None: "RuntimeError: The server socket has failed to listen on any local network "
            "address. The server socket has failed to bind to [::]:29500 (errno: 98 - Address "
            "already in use).\nslurmstepd: error: *** JOB 52 ON n1 CANCELLED AT 2024-10-09 ***\n"
            "slurmstepd: error: *** STEP 52.1 ON n1 CANCELLED AT 2024-10-09T23:25:32 ***\n"
            "$ python train.py --epochs 10 --lr 0.1\n"
        },
        "port-in-use",
        None,
    ),
    "the one task that Slurm says ran out of memory": (
        {None: SLURM_OOM + "srun: error: n3: task 2: Out Of Memory\n"},
        "slurm-out-of-memory",
        (2,),
    ),
    "nobody, if several tasks ended with their step's memory": (
        {None: SLURM_OOM + "srun: error: n3: tasks 0-3: Out Of Memory\n"},
        "slurm-out-of-memory",
        None,
    ),
    "the tasks that ran out of memory, where the others did not": (
        {None: SLURM_OOM + "srun: error: n3: tasks 1-2: Out Of Memory\n"},
        "slurm-out-of-memory",
        (1, 2),
    ),
    "nobody, if several tasks ended with an exit code beside one that had no memory": (
        {None: SLURM_OOM + "srun: error: n3: tasks 1-2: Exited with exit code 1\n"},
        "slurm-out-of-memory",
        None,
    ),
    "the one task that was killed, where the lines on memory name no task": (
        {None: SLURM_OOM + "srun: error: n3: task 2: Killed\n"},
        "slurm-out-of-memory",
        (2,),
    ),
    "nobody, if several were killed and the lines on memory name no task": (
        {None: SLURM_OOM + "srun: error: n3: tasks 1-2: Killed\n"},
        "slurm-out-of-memory",
        None,
    ),
    "the tasks that did not come, and not the traceback that says so": (
        {
            None: raised("jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: no barrier")
            + "/job:jax_worker/replica:0/task:2\n/job:jax_worker/replica:0/task:5\n"
        },
        "coordination-barrier",
        (2, 5),
    ),
    "the tasks that did not come to the barrier at which they connect": (
        {
            None: raised("jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: no barrier")
            + "Barrier timed out. Barrier_id: PjRT_Client_Connect. Timed out task names:\n"
            "/job:jax_worker/replica:0/task:1\n/job:jax_worker/replica:0/task:3\n"
        },
        "coordination-tasks-never-came",
        (1, 3),
    ),
    "nobody, if a collective of a library failed in an exception": (
        {0: raised("RuntimeError: InnerRunOpApi: HcclBroadcast, error code is 9")},
        "hccl-call-failed",
        None,
    ),
    "the rank that the world size has no place for": (
        {
            None: "".join(
                "Waiting in store based barrier to initialize process group for rank: "
                f"{rank}, key: store_based_barrier_key:1 (world_size=4, worker_count=6, "
                "timeout=0:30:00)\n"
                for rank in (0, 1, 6)
            )
        },
        "store-barrier-overfull",
        (6,),
    ),
    "the rank of the launcher's tag, whose process a native handler names": (
        {
            None: "[1,4]<stderr>:[gpu-a7:20931] *** Process received signal ***\n"
            "[1,4]<stderr>:[gpu-a7:20931] Signal: Segmentation fault (11)\n"
        },
        "mpi-process-crashed",
        (4,),
    ),
    "the layer of NCCL that an unknown warning before a lost peer names": (
        {
            None: "n1:77:81 [0] fabricx_plugin.c:91 NCCL WARN fabricx: cannot pin 0x7f0 (err 22)\n"
            "n1:77:80 [0] misc/socket.cc:57 NCCL WARN socketProgress: Connection closed by remote "
            "peer n1<35187>\nn1: Test NCCL failure common.cu:12 'internal error'\n"
        },
        "nccl-failed-in-network",
        None,
    ),
    "the layer of NCCL, and not the crash that comes of it": (
        {
            None: "n1:77:81 [0] graph/rings.cc:38 NCCL WARN Error : ring 2 skips rank 5\n"
            "Fatal Python error: Segmentation fault\n" + TORCHRUN.format(code=-11)
        },
        "nccl-failed-in-paths",
        None,
    ),
    "the exception, where a warning of NCCL was nobody's trouble": (
        {
            None: "n1:77:81 [0] graph/rings.cc:38 NCCL WARN Error : ring 2 skips rank 5\n"
            + raised("KeyError: 'tokens'")
            + TORCHRUN.format(code=1)
        },
        "uncaught-exception",
        (1,),
    ),
    "the actor that Ray lost, by the place in its name": (
        {
            None: "ray.exceptions.ActorDiedError: The actor died unexpectedly.\n"
            "\tclass_name: make.<locals>.RolloutWorker\n\tpid: 812\n"
            "\tname: k3TfRolloutWorker_0:5\n\tip: 10.0.0.7\n"
        },
        "ray-actor-died",
        (5,),
    ),
    "nobody, where the lost actor is on a later node of unknown size": (
        {
            None: "ray.exceptions.ActorDiedError: The actor died unexpectedly.\n"
            "\tname: k3TfRolloutWorker_2:5\n\tip: 10.0.0.9\n"
        },
        "ray-actor-died",
        None,
    ),
    "all tasks that crashed, for a crash is nobody's echo": (
        {
            None: "srun: error: n7: task 1: Segmentation fault (core dumped)\n"
            "srun: error: n6: task 0: Segmentation fault (core dumped)\n"
        },
        "slurm-task-failed",
        (0, 1),
    ),
    "the rank that a receive was from, when the connection is closed": (
        {None: CLOSED.format(call="recv(buffer, src=2)", op="recv")},
        "gloo-peer-gone",
        (2,),
    ),
    "nobody, where calls with two ranks failed": (
        {
            None: CLOSED.format(call="recv(buffer, src=2)", op="recv")
            + CLOSED.format(call="send(buffer, 0)", op="send")
        },
        "gloo-peer-gone",
        None,
    ),
    "who is not among those that came, of as many as each of them tells": (
        {None: "".join(MEMBER.format(rank, rank + 1) for rank in (0, 1, 3))},
        "lightning-members-missing",
        (2, 4),
    ),
    "nobody, where two have one number": (
        {None: "".join(MEMBER.format(rank, rank + 1) for rank in (0, 1, 1))},
        "lightning-members-missing",
        None,
    ),
    "nobody, where the log is that of one rank": (
        {0: MEMBER.format(0, 1)},
        "lightning-members-missing",
        None,
    ),
    "the rank that ended itself first, if nothing says why": (
        {None: TORCHRUN.format(code=-6)},
        "launcher-saw-abort",
        (1,),
    ),
    "that a communicator was aborted, and no error of its own, up to torch 1.6": (
        {None: raised("RuntimeError: NCCL communicator was aborted.")},
        "communicator-aborted",
        None,
    ),
    "the same, where the others only echo it": (
        {0: MISSED, 2: ECHO.format(2), 3: ECHO.format(3)},
        "monitored-barrier-missing-rank",
        (1,),
    ),
    "rank 0, if all others reached the barrier and nobody is named": (
        {1: ECHO.format(1), 2: ECHO.format(2)},
        "monitored-barrier-rank-zero-absent",
        (0,),
    ),
    "the rank whose address never appeared in the store": (
        {0: KEY.format(2), 1: KEY.format(2)},
        "gloo-rank-never-came",
        (2,),
    ),
    "nobody, if rank 0 itself waits for clients": (
        {0: JOINED, 1: KEY.format(0)},
        "store-clients-missing",
        None,
    ),
    "the rank whose model differs, and not the one that lost it": (
        {0: RESET, 1: SHAPE},
        "ddp-parameter-shape-differs",
        (1,),
    ),
    "rank 0, if it never published the NCCL id of the default group": (
        {1: NCCL_ID},
        "nccl-id-of-rank-zero-missing",
        (0,),
    ),
    "the same by torch 2.2, if the waiter counts alike in its group and in the job": (
        {None: OLD_ID.format(3, 3)},
        "nccl-id-of-rank-zero-missing",
        (0,),
    ),
    "nobody, if it counts otherwise in its group": (
        {None: OLD_ID.format(3, 1)},
        "nccl-id-never-came",
        None,
    ),
    "rank 0, whose seed a DataLoader waited for": (
        {
            None: raised(
                "RuntimeError: Timed out receiving the shared seed from the distribtued store on "
                "Rank 2. (world_size=4, timeout=1800)"
            )
        },
        "shared-seed-never-came",
        (0,),
    ),
    "nobody, if a rank crashed only after its peer had gone": (
        {0: REMOTE + CRASHED},
        "communicator-aborted",
        None,
    ),
    "the rank that the launcher saw killed, and not its siblings": (
        {None: TORCHRUN.format(code=-9)},
        "launcher-saw-sigkill",
        (1,),
    ),
    "the rank that crashed, by the launcher's table": (
        {None: TORCHRUN.format(code=-11)},
        "launcher-saw-crash",
        (1,),
    ),
    "the one that was killed, where Slurm says why": (
        {None: SLURM_OOM + TORCHRUN.format(code=-9)},
        "slurm-out-of-memory",
        (1,),
    ),
    "nobody by name, where Slurm says so and no rank was killed": (
        {None: SLURM_OOM + TORCHRUN.format(code=1)},
        "slurm-out-of-memory",
        None,
    ),
    "the rank of the prefix, whose DataLoader worker was killed": (
        {None: "[rank3]: RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed. "},
        "dataloader-worker-killed",
        (3,),
    ),
    "the rank that lost its GPU memory": (
        {
            2: "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 2 has",
            0: RESET,
            1: RESET,
        },
        "cuda-out-of-memory",
        (2,),
    ),
    "a failed checkpoint's rank, though all ranks raise": (
        {0: CHECKPOINT, 1: CHECKPOINT},
        "distributed-checkpoint-failed",
        (1,),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_log_blames(name: str) -> None:
    """The first finding is the cause, and it blames the right rank and no other."""
    logs, expected, culprits = CASES[name]

    report = diagnosed(logs)

    first, *others = report.findings
    assert (first.signature, first.culprit_ranks) == (expected, culprits)
    innocent = [
        finding
        for finding in others
        if finding.caused_by is None
        and finding.confidence >= 0.5
        and set(finding.culprit_ranks or ()) - set(culprits or finding.culprit_ranks or ())
    ]
    assert innocent == []
