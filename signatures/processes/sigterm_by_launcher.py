"""Processes end with SIGTERM because their launcher stops the job.

The rows with -15 in the table of failures belong to ranks that were healthy. The cause is the
process that ended before, or whoever sent SIGTERM to the launcher.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="sigterm-by-launcher",
    category="rank-died",
    kind=Kind.CONSEQUENCE,
    title="The launcher ended the remaining processes",
    when=log(
        r"Sending process \d+ closing signal SIG(?:TERM|INT|KILL)",
        r"exitcode\s*: -15 \(pid: \d+\)",
        r"Signal 15 \(SIGTERM\) received by PID \d+",
        r"Unable to shutdown process \d+ via .*, forcefully exit",
        r"Terminating process \d+ via signal SIG(?:TERM|INT)",
        r"Killing subprocess \d+",
        r"failed \(exitcode: -15\) local_rank: \d+",
    ),
    means=(
        "After one process failed, or the job was cancelled, its siblings are ended with "
        "SIGTERM. None of them is a cause."
    ),
    confidence=0.8,
    gives_way=True,
    next_steps=("Look for the first process that ended without SIGTERM",),
    links=("https://pytorch.org/docs/stable/elastic/errors.html",),
    matches=(
        (
            "W1121 02:12:57.420000 17467 torch/distributed/elastic/multiprocessing/api.py:1028] "
            "Sending process 17476 closing signal SIGTERM"
        ),
        "  exitcode  : -15 (pid: 17476)  (SIGTERM)",
        "  traceback : Signal 15 (SIGTERM) received by PID 17476",
        "Unable to shutdown process 17476 via Signals.SIGTERM, forcefully exiting via SIGKILL",
        (
            "W1121 02:11:00.3 16479 torch/multiprocessing/spawn.py:165] Terminating process "
            "16481 via signal SIGTERM"
        ),
        (
            "[2024-03-01 10:00:00,000] [INFO] [launch.py:315:sigkill_handler] Killing subprocess "
            "12345"
        ),
        "failed (exitcode: -15) local_rank: 0 (pid: 4711) of binary: /opt/env/bin/python3",
    ),
    misses=(
        (
            "E1121 02:13:03.5 17493 torch/distributed/elastic/multiprocessing/api.py:1002] "
            "failed (exitcode: -9) local_rank: 1 (pid: 17506)"
        ),
    ),
)
