"""From a few lines of a log to who failed first, cut down from real runs."""

from __future__ import annotations

import pytest
from gloo_docs import RESET, SHAPE, raised, table
from log_docs import TWO_NODES, Blame, blamed_besides, diagnosed

REMOTE = (
    "[rank0]:[E722 08:55:15.724116323 ProcessGroupNCCL.cpp:1605] [PG ID 0 PG GUID 0(default_pg) "
    "Rank 0] Process group watchdog thread terminated with exception: NCCL error: remote process "
    "exited or there was a network error, NCCL version 2.22.3\n"
)
CRASHED = "[node1:1 :0:98] Caught signal 11 (Segmentation fault: Sent by the kernel)"
ELASTIC = "torch/distributed/elastic/multiprocessing/api.py"
ROW = """\
[0]:
  time      : 2026-11-21_{}
  host      : n1
  rank      : {} (local_rank: 0)
  exitcode  : {} (pid: {})
  error_file: <N/A>
"""
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
SLURM_OOM = (
    "slurmstepd: error: Detected 1 oom_kill event in StepId=194.0. "
    "Some of the step tasks have been OOM Killed.\n"
)
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has"
CLOSING = "W1121 api.py:1028] Sending process 17476 closing signal SIGTERM\n"
BOX = "=   RANK {0} PID 23{0} RUNNING AT n1\n=   KILLED BY SIGNAL: 9 (Killed)\n"
RESTART = "[default] Worker group FAILED. 3/3 attempts left; will restart worker group\n"
MESH = "RuntimeError: Gloo connectFullMesh failed with [pair.cc:144] no error"
CASES: dict[str, Blame] = {
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
    "some rank of a job of MPI, where the words of MPI are all that tells of one": (
        {None: raised("mpi4py.MPI.Exception: MPI_ERR_RANK: invalid rank")},
        "uncaught-exception",
        None,
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
    "all ranks of a host that Slurm says has failed": (
        {None: TWO_NODES + "srun: error: Node failure on gpu2\n"},
        "slurm-node-failure",
        (2, 3),
    ),
    "the first to fail, and not what the next attempt ran into": (
        {None: raised("ValueError: bad", rank=1) + RESTART + raised(MESH, rank=0)},
        "uncaught-exception",
        (1,),
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
    "nobody, if a collective of a library failed in an exception": (
        {0: raised("RuntimeError: InnerRunOpApi: HcclBroadcast, error code is 9")},
        "hccl-call-failed",
        None,
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
    "the actor that Ray lost, of which the first line is lost": (
        {
            None: "(Task pid=7)   pid: 812\n(Task pid=7)   name: k3TfWorkerDict_0:5\n"
            "(Task pid=7) The actor is dead because its worker process has died. Worker exit type: "
            "SYSTEM_ERROR\n(Task pid=7) Training completed or interrupted\n"
        },
        "ray-actor-died",
        (5,),
    ),
    "the actor that Ray lost, by the pid that Ray Train gave a rank": (
        {
            None: "- (node_id=3d1f, ip=10.0.0.4, pid=811) world_rank=0, local_rank=0, node_rank=0\n"
            "- (node_id=92ee, ip=10.0.0.7, pid=812) world_rank=1, local_rank=0, node_rank=1\n"
            "ray.exceptions.ActorDiedError: The actor died unexpectedly.\n"
            "\tclass_name: RayTrainWorker\n\tpid: 812\n\tip: 10.0.0.7\n"
        },
        "ray-actor-died",
        (1,),
    ),
    "nobody, where no line tells whose the pid of the lost actor was": (
        {
            None: "- (node_id=3d1f, ip=10.0.0.4, pid=811) world_rank=0, local_rank=0, node_rank=0\n"
            "- (node_id=92ee, ip=10.0.0.7, pid=812) world_rank=1, local_rank=0, node_rank=1\n"
            "ray.exceptions.ActorDiedError: The actor died unexpectedly.\n"
            "\tclass_name: RayTrainWorker\n\tpid: 977\n\tip: 10.0.0.7\n"
        },
        "ray-actor-died",
        None,
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
        "slurm-task-crashed",
        (0, 1),
    ),
    "no task, where nearly all crashed": (
        {None: "srun: error: n7: tasks 0-5,7: Segmentation fault (core dumped)\n"},
        "slurm-task-crashed",
        None,
    ),
    "the rank that failed, not whom the launcher used force on after its grace": (
        {None: ROW.format("10:03:29", 0, -9, 4710) + ROW.format("10:02:58", 3, 1, 4713)},
        "failure-row-exit-code",
        (3,),
    ),
    "the rank that was killed, where another failed at the same time": (
        {None: ROW.format("10:02:59", 0, -9, 4710) + ROW.format("10:02:58", 3, 1, 4713)},
        "failure-row-sigkill",
        (0,),
    ),
    "the rank that aborted, by its row alone": (
        {
            None: ROW.format("10:02:58", 3, -6, 4713) + "  traceback : Signal 6 (SIGABRT) received "
            "by PID 4713\n"
        },
        "launcher-saw-abort",
        (3,),
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
    "the rank whose model differs, and not the one that lost it": (
        {0: RESET, 1: SHAPE},
        "ddp-parameter-shape-differs",
        (1,),
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

    first = report.findings[0]
    assert (first.signature, first.culprit_ranks) == (expected, culprits)
    assert blamed_besides(report, culprits) == []
