"""Host memory of a process failed beyond correction.

The kernel found an uncorrectable error in a page of the process and killed it with SIGBUS. The
memory module is defective.

The pid is of the host's namespace. The rank ends without a message, or with "Bus error".
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="kernel-memory-failure",
    category="rank-died",
    kind=Kind.CAUSE,
    title="The kernel killed pid {pid}: its memory was corrupted by hardware",
    when=log(
        (
            r"Memory failure: 0x[0-9a-f]+: Killing (?P<task>[^:]+):(?P<pid>\d+) due to hardware "
            r"memory corruption"
        ),
        r"MCE 0x[0-9a-f]+: Killing (?P<task>[^:]+):(?P<pid>\d+) due to hardware memory corruption",
        blames=Blames.NAMED,
    ),
    means=(
        "This process was killed because the host's memory is defective; the other ranks wait "
        "for it."
    ),
    confidence=0.95,
    remedies=("Take the host out of the job and replace the memory module.",),
    next_steps=("ras-mc-ctl --errors; ipmitool sel list; dmesg -T | grep -iE 'mce|EDAC'",),
    matches=(
        (
            "[ 991.2] Memory failure: 0x10a2b3: Killing python3:48213 due to hardware memory "
            "corruption"
        ),
        "[ 991.2] MCE 0x10a2b3: Killing python:4711 due to hardware memory corruption",
    ),
    misses=("[ 991.2] EDAC MC0: 1 CE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0",),
    outranks=("launcher-exit-code",),
)
