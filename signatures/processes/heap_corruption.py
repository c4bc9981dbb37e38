"""The C library aborts a process because its heap or stack is damaged.

A bug in native code wrote outside of its memory some time before. Mixed libraries (two copies
of libstdc++, OpenMP or protobuf), an extension built for another version, or unsafe use of a
library after fork are usual. At the very end of a program it may come from the order of
unloading, after all work was done.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="heap-corruption",
    category="rank-died",
    kind=Kind.CAUSE,
    title="{who} aborted: memory was corrupted",
    when=log(
        r"double free or corruption",
        r"free\(\): invalid (?:pointer|size|next size)",
        r"munmap_chunk\(\): invalid pointer",
        r"corrupted size vs\. prev_size",
        r"malloc\(\): (?:corrupted|invalid|unsorted|unaligned|mismatching)",
        r"\*\*\* stack smashing detected \*\*\*",
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
        "The C library found its bookkeeping of memory damaged and ended the process (SIGABRT). "
        "The other ranks wait for it."
    ),
    confidence=0.85,
    everywhere="not-distributed",
    remedies=(
        (
            "Look for extensions or libraries that do not fit the PyTorch they run with; rebuild "
            "them."
        ),
        "Run under AddressSanitizer or valgrind, or bisect by removing extensions.",
    ),
    next_steps=("coredumpctl gdb PID  # or, with a core file: gdb python CORE",),
    matches=(
        "double free or corruption (!prev)",
        "free(): invalid pointer",
        "munmap_chunk(): invalid pointer",
        "corrupted size vs. prev_size",
        "malloc(): unsorted double linked list corrupted",
        "*** stack smashing detected ***: terminated",
    ),
    misses=(
        "free(): all workers are idle",
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
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)
