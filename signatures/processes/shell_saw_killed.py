"""The shell that started the program says that it was killed.

"Killed" is what a shell prints for a child that SIGKILL ended. No program sends it to itself: on a
host where models are loaded it mostly is the kernel, out of memory.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="shell-saw-killed",
    category="rank-oom-killed",
    kind=Kind.CAUSE,
    title="The program was killed with SIGKILL, most often by the out-of-memory killer",
    when=log(r"^ *Killed *$", r"line \d+: +\d+ Killed\b", r"^\[\d+\][+-]? +Killed\b"),
    unless=log(r"Received sigquit from a child proces"),  # sglang then kills its own group
    means=(
        "The shell reports that its child was ended by SIGKILL. If nobody ended it by hand, the "
        "kernel did, because the host or the container ran out of memory."
    ),
    confidence=0.6,
    remedies=(
        "Look at the host's memory while it loads; ask for more, or load less at once.",
        "Lower the number of DataLoader workers and of processes that load a checkpoint at once.",
    ),
    next_steps=("dmesg -T | grep -i -E 'killed process|out of memory'  # on that host",),
    matches=(
        "Killed",
        "train.sh: line 12: 4711 Killed                  python train.py",
        "[1]+  Killed                  python train.py",
    ),
    misses=(
        "[2025-03-09 00:57:20] Received sigquit from a child proces. It usually means ...",
        "Killed process 4711 (python) total-vm:1kB",
        "srun: error: node1: tasks 2,6-7: Killed",
        "[2023-06-01 12:03:00,000] [INFO] [launch.py:428:sigkill_handler] Killing subprocess 17215",
    ),
    outranks=("launcher-exit-code", "slurm-task-failed"),
)
