"""A launcher reports that a worker crashed: SIGSEGV, SIGILL or SIGFPE.

A bug in native code: an extension built against another PyTorch, a library clash, memory
corruption, or a bad memory module if it moves around on one host. SIGILL means a binary for
another processor.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="launcher-saw-crash",
    category="rank-died",
    kind=Kind.CAUSE,
    title="{who} crashed in native code",
    when=log(
        r"failed \(exitcode: (?:-11|-4|-8|139)\) local_rank: \d+ \(pid: (?P<pid>\d+)\)",
        r"exitcode\s*: (?:-11|-4|-8) \(pid: (?P<pid>\d+)\)",
        r"Signal (?:11 \(SIGSEGV\)|4 \(SIGILL\)|8 \(SIGFPE\)) received by PID (?P<pid>\d+)",
        r"Child process with PID (?P<pid>\d+) terminated with code -11\.",
        blames=Blames.NAMED,
    ),
    unless=log(
        r"[Ww]atchdog caught collective operation timeout",
        r"watchdog thread terminated with exception",
        r"remote process exited or there was a network error",
        r"Connection closed by (?:remote )?peer ",
        blames=Blames.SPEAKER,
    ),
    means=(
        "The process ended by a signal of the processor (segmentation fault, illegal "
        "instruction, arithmetic). It could not say anything, and the others waited for it until "
        "they were ended too."
    ),
    confidence=0.8,
    remedies=(
        (
            "Set PYTHONFAULTHANDLER=1 to see the Python line of the crash, or take a core dump "
            "(ulimit -c unlimited)."
        ),
        "Rebuild extensions against the PyTorch that is installed.",
    ),
    next_steps=(
        "coredumpctl gdb PID  # or, with a core file: gdb python CORE",
        "dmesg -T | grep segfault  # on that host",
    ),
    links=("https://pytorch.org/docs/stable/elastic/errors.html",),
    matches=(
        (
            "E1121 02:13:05.765000 17510 torch/distributed/elastic/multiprocessing/api.py:1002] "
            "failed (exitcode: -11) local_rank: 1 (pid: 17525) of binary: /opt/env/bin/python3"
        ),
        "  exitcode  : -11 (pid: 17525)  (SIGSEGV)",
        "  traceback : Signal 11 (SIGSEGV) received by PID 17525",
        (
            "[rank: 2] Child process with PID 991 terminated with code -11. Forcefully "
            "terminating all other processes to avoid zombies"
        ),
    ),
    misses=(
        "  exitcode  : -6 (pid: 17525)  (SIGABRT)",
        "  exitcode  : -15 (pid: 17505)  (SIGTERM)",
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
