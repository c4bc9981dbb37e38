"""A DataLoader worker is gone and left no exception.

It called exit, was killed, or crashed in native code; with several pids all of them went at
once, which hints at memory. The line before often names the signal.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="dataloader-worker-exited",
    category="dataloader-worker-died",
    kind=Kind.CAUSE,
    title="A DataLoader worker of {who} ended unexpectedly",
    when=log(
        r"DataLoader worker \(pid(?:\(s\))? (?P<worker>\d+)(?:, \d+)*\) exited unexpectedly",
        blames=Blames.SPEAKER,
        ends_process=True,
    ),
    means=(
        "Worker process {worker} is gone without having raised in Python. Its batch never comes; "
        "this rank fails and the others wait for it."
    ),
    confidence=0.85,
    remedies=(
        "Run with num_workers=0 to see the true error.",
        "Check host memory and /dev/shm on that host.",
    ),
    next_steps=("dmesg -T | grep -i -E 'killed process|segfault'  # on that host",),
    links=("https://pytorch.org/docs/stable/data.html",),
    matches=(
        "RuntimeError: DataLoader worker (pid(s) 1285) exited unexpectedly",
        "RuntimeError: DataLoader worker (pid(s) 31, 32, 33) exited unexpectedly",
        (
            "RuntimeError: DataLoader worker (pid 16412) exited unexpectedly with exit code 3. "
            "Details are lost due to multiprocessing. Rerunning with num_workers=0 may give "
            "better error trace."
        ),
    ),
    misses=(
        (
            "    raise RuntimeError(f'DataLoader worker (pid(s) {pids_str}) exited "
            "unexpectedly') from e"
        ),
    ),
    outranks=(
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)
