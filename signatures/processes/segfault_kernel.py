"""The kernel logs a crash of a process.

A segmentation or general protection fault in native code: an extension, CUDA's or the network
library, a mismatched pair of libraries. The text names the library and the address. The process
ends with signal 11 and prints little or nothing.

The pid is of the host's namespace and of the thread that crashed. A crash during the exit of a
failed job is only an effect: compare the times.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="segfault-kernel",
    category="rank-died",
    kind=Kind.CAUSE,
    title="{task} (pid {pid}) crashed in native code",
    when=log(
        r"(?P<task>[\w./:+-]+)\[(?P<pid>\d+)\]: segfault at [0-9a-f]+ ip ",
        r"traps: (?P<task>[\w./:+-]+)\[(?P<pid>\d+)\] (?:general protection|trap \w+)",
        blames=Blames.NAMED,
    ),
    means="This process crashed in native code and is gone; the other ranks wait for it.",
    confidence=0.87,
    remedies=(
        "Run with PYTHONFAULTHANDLER=1 to see the Python line, and keep a core file for gdb.",
        "Check that the extension in the named library was built for this torch and CUDA.",
    ),
    next_steps=(
        "coredumpctl info PID  # or, with a core file: gdb python CORE",
        "Compare the time with the first error of the other ranks",
    ),
    matches=(
        (
            "[ 991.2] python3[48213]: segfault at 0 ip 00007f3c1a2b sp 00007ffd error 4 in "
            "libcuda.so.550.54.15[7f3c19000000+1a00000]"
        ),
        (
            "[ 991.2] pt_main_thread[4711]: segfault at 18 ip 00007f3c1a2b sp 00007ffd error 4 "
            "in libtorch_cpu.so[7f3c+1a]"
        ),
        (
            "[ 991.2] traps: python3[48213] general protection fault ip:7f3c sp:7ffd error:0 "
            "in libc.so.6[7f3c+1a]"
        ),
    ),
    misses=("Fatal Python error: Segmentation fault",),
    outranks=(
        "ras-process-missing",
        "launcher-saw-crash",
        "launcher-exit-code",
    ),
)
