"""A process aborted itself; launchers show exit code -6.

In NCCL jobs it is the watchdog after a timeout, so the rank is a victim. Without NCCL it is a
C++ exception that nobody caught ('terminate called') or heap damage, which have lines of their
own.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="sigabrt-row",
    category="rank-died",
    kind=Kind.CONSEQUENCE,
    title="A process ended itself with SIGABRT",
    when=log(
        r"failed \(exitcode: (?:-6|134)\) local_rank: \d+ \(pid: \d+\)",
        r"exitcode\s*: -6 \(pid: \d+\)",
        r"Signal 6 \(SIGABRT\) received by PID \d+",
        r"Fatal Python error: Aborted",
        r"^(?:.*line \d+: +\d+ )?Aborted +\(core dumped\)",
        r"Child process with PID \d+ terminated with code -6\.",
    ),
    means=(
        "SIGABRT is how a process ends after an error that it noticed itself: the NCCL watchdog "
        "after a timeout, a C++ exception, a failed assertion. The reason stands before it in "
        "that rank's log."
    ),
    confidence=0.5,
    gives_way=True,
    next_steps=("Read the lines before the end in that rank's log",),
    links=("https://pytorch.org/docs/stable/elastic/errors.html",),
    matches=(
        "failed (exitcode: -6) local_rank: 2 (pid: 4711) of binary: /opt/env/bin/python3",
        "  exitcode  : -6 (pid: 17525)  (SIGABRT)",
        "  traceback : Signal 6 (SIGABRT) received by PID 17525",
        "Fatal Python error: Aborted",
        "train.sh: line 184: 4711 Aborted                 (core dumped) python train.py",
        "Aborted (core dumped)",
        (
            "[rank: 1] Child process with PID 4711 terminated with code -6. Forcefully "
            "terminating all other processes to avoid zombies"
        ),
    ),
    misses=("  exitcode  : -9 (pid: 17506)  (SIGKILL)",),
)
