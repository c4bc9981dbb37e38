"""DeepSpeed, Accelerate or another launcher reports a child that was killed.

The line names no rank. The child wrote nothing, since SIGKILL cannot be caught. Exhausted host
memory while loading a checkpoint or offloading an optimizer to the CPU is the usual reason.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="launcher-child-sigkill",
    category="rank-oom-killed",
    kind=Kind.CAUSE,
    title="A process of the job was killed with SIGKILL, most often by the out-of-memory killer",
    when=log(
        r"exits with return code = -9",
        r"died with <Signals\.SIGKILL: 9>",
    ),
    means=(
        "The launcher saw a child end by SIGKILL. On a training host that is mostly the kernel's "
        "out-of-memory killer, or the job's memory limit."
    ),
    confidence=0.65,
    remedies=(
        (
            "Check the kernel log and the memory limit of the job; offload less to the CPU, or "
            "load on one rank at a time."
        ),
    ),
    next_steps=("dmesg -T | grep -i -E 'killed process|out of memory'  # on the hosts",),
    matches=(
        (
            "[2024-03-01 10:00:00,000] [ERROR] [launch.py:321:sigkill_handler] "
            "['/usr/bin/python', '-u', 'train.py', '--local_rank=0'] exits with return code = -9"
        ),
        (
            "subprocess.CalledProcessError: Command '['/usr/bin/python', 'train.py']' died with "
            "<Signals.SIGKILL: 9>."
        ),
    ),
    misses=(
        (
            "[ERROR] [launch.py:321:sigkill_handler] ['/usr/bin/python', 'train.py'] exits with "
            "return code = 1"
        ),
    ),
)
