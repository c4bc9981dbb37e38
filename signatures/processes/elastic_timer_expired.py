"""torchelastic's timer server kills a process that overran its own deadline.

Code inside 'with timer.expires(after=...)' took too long: a hung read, a lock, a collective
that nobody else entered. The names of the timers tell which piece.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="elastic-timer-expired",
    category="rank-spinning",
    kind=Kind.CAUSE,
    title="{who} overran a timer and had to be reaped",
    when=log(
        r"Reaping worker_pid=\[(?P<pid>\d+)\]\. Expired timers: ",
        blames=Blames.NAMED,
    ),
    means=(
        "The program had set a timer around a piece of work, and this process did not come out "
        "of it in time. It was killed, and the others waited for it."
    ),
    confidence=0.6,
    remedies=(
        "Look at what the process did in that block; raise the time if the work is only slow.",
    ),
    links=("https://pytorch.org/docs/stable/elastic/timer.html",),
    matches=(
        (
            "INFO:torch.distributed.elastic.timer.api:Reaping worker_pid=[4711]. Expired timers: "
            "['train.py#42']"
        ),
        "Reaping worker_pid=[99]. Expired timers: ['load_batch']",
    ),
    misses=("Successfully reaped worker=[4711] with signal=9",),
    outranks=(
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)
