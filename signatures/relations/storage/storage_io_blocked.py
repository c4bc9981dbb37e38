"""A rank is blocked in file I/O: a mount that does not answer, a fifo, a full disk.

Reads and writes on a dead NFS or FUSE mount block for ever, often in uninterruptible sleep
(state D), where not even a debugger can look. A fifo without a writer does the same.
"""

from collections.abc import Iterable

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Moved, Signature, Status, WaitKind


def when(case: Case) -> Iterable[Hit]:
    return queries.merged(
        queries.lagging(
            case,
            WaitKind.FILE,
            besides=(WaitKind.DATASET, WaitKind.DATALOADER, WaitKind.CHECKPOINT),
            states=(Status.BLOCKED,),
        ),
        # Nobody waits for it: one that ran between the looks reads slowly, as at a cold start.
        queries.lagging(
            case,
            WaitKind.FILE,
            besides=(WaitKind.DATASET, WaitKind.DATALOADER, WaitKind.CHECKPOINT),
            states=(Status.BLOCKED,),
            moves=(Moved.STILL, Moved.UNKNOWN),
            alone=True,
        ),
    )


SIGNATURE = Signature(
    id="storage-io-blocked",
    category="storage-io-blocked",
    level="program",
    title="{who} {is} blocked {io} at {where}{waiting}",
    when=when,
    means=(
        "{who} {is} {does}{at} and {gets} no further. "
        "What it reads or writes, and not the program, holds the job."
    ),
    confidence="strong",
    remedies=(
        "Check the mount behind that path from the same host: does ls return?",
        "Stage data to local disk, or read with a timeout in a thread that may be given up.",
    ),
    next_steps=(
        "sudo cat /proc/{pid}/stack; ls -l /proc/{pid}/fd  # in which file system, on which file?",
        "timeout 5 stat PATH; df -h; dmesg -T",
    ),
)
