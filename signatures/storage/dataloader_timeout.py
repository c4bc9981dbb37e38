"""A DataLoader with a timeout did not get a batch in time.

A worker hangs or is slow: storage, a lock inherited by fork, a deadlock in a decoder, or a very
long sample. Batches come in order, so one stuck worker holds up all.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="dataloader-timeout",
    category="dataloader-blocked",
    kind=Kind.CAUSE,
    title="The DataLoader of {who} delivered nothing for {seconds} seconds",
    when=log(
        r"DataLoader timed out after (?P<seconds>\d+) seconds",
        blames=Blames.SPEAKER,
        ends_process=True,
    ),
    means=(
        "No worker finished its batch within the timeout that the program gave. The rank fails, "
        "and the others wait for it."
    ),
    confidence=0.92,
    remedies=(
        "Take the stacks of the worker processes while it hangs: py-spy dump --subprocesses.",
        "If it is only slow: more workers, faster storage, or a longer timeout.",
    ),
    next_steps=(
        "py-spy dump --subprocesses --pid PID  # of that rank",
        "iostat -x 1 5; df -h  # on that host",
    ),
    links=("https://pytorch.org/docs/stable/data.html",),
    matches=(
        "RuntimeError: DataLoader timed out after 2 seconds",
        "RuntimeError: DataLoader timed out after 600 seconds",
    ),
    misses=('    raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")',),
    outranks=(
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)
