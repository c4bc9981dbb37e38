"""The launcher's table of failures has a row with SIGKILL.

A row with -9 is the kernel's out-of-memory killer or a limit of the job, unless the launcher
itself had to use force on a sibling that did not react to SIGTERM; it says so, and then such
rows mean nothing.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="failure-row-sigkill",
    category="rank-oom-killed",
    kind=Kind.CAUSE,
    title="{who} killed with SIGKILL, says the launcher's table",
    when=log(
        r"exitcode\s*: -9 \(pid: (?P<pid>\d+)\)",
        r"Signal 9 \(SIGKILL\) received by PID (?P<pid>\d+)",
        blames=Blames.NAMED,
    ),
    unless=log(
        r"forcefully exiting via SIGKILL",
        r"forcefully exitting via SIGKILL",
    ),
    means=(
        "The table of failures lists a process that ended by SIGKILL. On a training host that is "
        "mostly the kernel's out-of-memory killer."
    ),
    confidence=0.65,
    remedies=(
        (
            "Check the kernel log and the memory limit of the job; ask for more memory, or load "
            "on one rank at a time."
        ),
    ),
    next_steps=("dmesg -T | grep -i -E 'killed process|out of memory'  # on that host",),
    links=("https://pytorch.org/docs/stable/elastic/errors.html",),
    matches=(
        "  exitcode  : -9 (pid: 17506)  (SIGKILL)",
        "  traceback : Signal 9 (SIGKILL) received by PID 17506",
        "  exitcode : -9 (pid: 3867814)",
    ),
    misses=(
        "  exitcode  : -15 (pid: 17505)  (SIGTERM)",
        "  exitcode  : 1 (pid: 17477) ",
        (
            "W0621 15:10:29.000 4711 torch/distributed/elastic/multiprocessing/api.py:890] "
            "Unable to shutdown process 4712 via Signals.SIGTERM, forcefully exiting via "
            "SIGKILL"
        ),
        (
            "WARNING:torch.distributed.elastic.multiprocessing.api:Unable to shutdown process "
            "4712 via Signals.SIGTERM, forcefully exitting via SIGKILL"
        ),
    ),
    outranks=(
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)
