"""DeepSpeed or the old torch launcher reports a child that crashed in native code.

Both print the command of the process that they started last, whichever ended, so the
--local_rank in such a line names nobody. SIGSEGV is a bug in native code: an extension built
against another PyTorch, a library clash, memory corruption; SIGILL a binary for another processor.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="launcher-child-crash",
    category="rank-died",
    kind=Kind.CAUSE,
    title="A process of the job crashed in native code",
    when=log(
        r"exits with return code = (?:-11|-4|-8)\b",
        r"died with <Signals\.(?:SIGSEGV: 11|SIGILL: 4|SIGFPE: 8)>",
    ),
    means=(
        "The launcher saw a child end by a signal of the processor (segmentation fault, illegal "
        "instruction, arithmetic). It prints the command of the child that it started last, so "
        "the local rank in that line is not the one that crashed."
    ),
    confidence=0.65,
    remedies=(
        (
            "Set PYTHONFAULTHANDLER=1 to see the Python line of the crash and whose it is, or take "
            "a core dump (ulimit -c unlimited)."
        ),
        "Rebuild extensions against the PyTorch that is installed.",
    ),
    next_steps=(
        "coredumpctl list; coredumpctl gdb PID  # on the hosts",
        "dmesg -T | grep segfault  # on the hosts",
    ),
    links=("https://docs.python.org/3/library/faulthandler.html",),
    matches=(
        (
            "[2024-03-01 10:00:00,000] [ERROR] [launch.py:324:sigkill_handler] "
            "['/usr/bin/python', '-u', 'train.py', '--local_rank=1'] exits with return code = -11"
        ),
        (
            "subprocess.CalledProcessError: Command '['/usr/bin/python', '-u', 'train.py', "
            "'--local_rank=7']' died with <Signals.SIGSEGV: 11>."
        ),
    ),
    misses=(
        (
            "[2024-03-01 10:00:00,000] [ERROR] [launch.py:324:sigkill_handler] "
            "['/usr/bin/python', '-u', 'train.py', '--local_rank=1'] exits with return code = -9"
        ),
        (
            "subprocess.CalledProcessError: Command '['/usr/bin/python', 'train.py']' died with "
            "<Signals.SIGKILL: 9>."
        ),
    ),
    gives_way=True,
)
