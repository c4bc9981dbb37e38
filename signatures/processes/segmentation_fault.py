"""A process prints, in its last moment, that it crashed in native code.

faulthandler, UCX or Triton caught the signal. The Python stack that follows shows where. Usual
reasons: an extension that does not fit the PyTorch it runs with, two copies of a library, or a
bug in a kernel. A crash while a process is torn down after a failed collective is only its end,
and is left out here.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="segmentation-fault",
    category="rank-died",
    kind=Kind.CAUSE,
    title="{who} crashed with a segmentation fault",
    when=log(
        r"Fatal Python error: (?:Segmentation fault|Illegal instruction|Floating point exception)",
        r"Caught signal 11 \(Segmentation fault: ",
        r"(?:^|\d )Segmentation fault +\(core dumped\)",
        r"!!!!!!! Segfault encountered !!!!!!!",
        blames=Blames.SPEAKER,
        ends_process=True,
    ),
    unless=log(
        r"[Ww]atchdog caught collective operation timeout",
        r"watchdog thread terminated with exception",
        r"remote process exited or there was a network error",
        r"Connection closed by (?:remote )?peer ",
        blames=Blames.SPEAKER,
    ),
    means=(
        "Native code of this process accessed memory it must not. The process is dead, and the "
        "other ranks wait for it."
    ),
    confidence=0.85,
    everywhere="not-distributed",
    remedies=(
        (
            "Read the stack that follows; update or rebuild the library of the innermost native "
            "frame."
        ),
        "Run under gdb, or with a core dump, to see the native frame.",
    ),
    next_steps=(
        "coredumpctl gdb  # of the last crash; or run it again: gdb --args python SCRIPT",
        "dmesg -T | grep segfault  # on that host",
    ),
    matches=(
        "run.sh: line 12: 4711 Segmentation fault      (core dumped) python train.py",
        "Segmentation fault (core dumped)",
        "Fatal Python error: Segmentation fault",
        (
            "[node1:4711:0:4711] Caught signal 11 (Segmentation fault: address not mapped to "
            "object at address 0x8)"
        ),
        "!!!!!!! Segfault encountered !!!!!!!",
    ),
    misses=(
        "ERROR: Unexpected segmentation fault encountered in worker.",
        (
            "[rank3]:[E1206 18:44:16.997 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught "
            "collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, "
            "Timeout(ms)=600000) ran for 600012 milliseconds before timing out."
        ),
        (
            "[rank3]:[E1206 18:44:16.997 ProcessGroupNCCL.cpp:1895] [PG ID 0 PG GUID "
            "0(default_pg) Rank 3] Process group watchdog thread terminated with exception: "
            "NCCL error: remote process exited or there was a network error"
        ),
        (
            "node3:99:140 [1] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by "
            "remote peer node9<55912>"
        ),
    ),
    outranks=(
        "ras-process-missing",
        "launcher-saw-crash",
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)
