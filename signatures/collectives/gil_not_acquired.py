"""A thread of a rank holds the GIL for good, seen by PyTorch's own check at the end.

Before it ends a process, the heartbeat monitor tries for 300 ms to get the GIL. A rank that
merely waits in a collective has released it. One that cannot be had is held by a thread that
blocks in C or C++ without releasing it: an extension, a destructor that calls CUDA, a lock
taken in the opposite order. A rank that had itself timed out in a collective says so too at
times, so only ranks that did not are blamed.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="gil-not-acquired",
    category="gil-or-lock-deadlock",
    kind=Kind.CAUSE,
    title="{who} could not get Python's GIL when it was asked to dump",
    when=log(
        r"Could not acquire GIL within \d+ ms on exit, possible GIL induced hang",
        blames=Blames.SPEAKER,
    ),
    unless=log(
        r"[Ww]atchdog caught collective operation timeout",
        blames=Blames.SPEAKER,
    ),
    means=(
        "Some thread of this process holds the GIL and does not let go, most likely while it "
        "blocks in a CUDA or NCCL call. Nothing in Python can run there, so the rank never "
        "reaches its next collective."
    ),
    confidence=0.65,
    remedies=(
        "Find the thread that holds the GIL in the native stacks of that rank.",
        (
            "Release the GIL around blocking calls in extensions (py::gil_scoped_release), and "
            "keep CUDA calls out of destructors."
        ),
    ),
    next_steps=(
        "py-spy dump --native --pid PID  # shows '+gil' at the holder",
        "gdb -p PID -batch -ex 'thread apply all bt'  # where py-spy cannot",
    ),
    matches=(
        (
            "[E1206 18:44:18.1 ProcessGroupNCCL.cpp:1364] [PG ID 0 PG GUID 0(default_pg) Rank 3] "
            "Could not acquire GIL within 300 ms on exit, possible GIL induced hang"
        ),
        "Could not acquire GIL within 300 ms on exit, possible GIL induced hang",
    ),
    misses=(
        "WARNING: GIL contention is high",
        (
            "[rank3]:[E1206 18:44:16.997 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught "
            "collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, "
            "Timeout(ms)=600000) ran for 600012 milliseconds before timing out."
        ),
    ),
    outranks=("watchdog-stuck",),
)
