"""CPU or memory of a host reports an uncorrected error.

A machine check or an EDAC "UE": processes on the host may be killed (SIGBUS), the host may
reboot. Corrected errors (CE) do not stop a job and are not meant here.

No process is named.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="kernel-machine-check",
    category="rank-died",
    kind=Kind.CAUSE,
    title="A host reports uncorrected hardware errors",
    when=log(
        r"EDAC (?:\w+ )?MC\d+: \d+ UE ",
        r"mce: \[Hardware Error\]: .*(?:Uncorrected|uncorrected|PCC|Processor context corrupt)",
        r"mce: Uncorrected hardware memory error",
        r"\[Hardware Error\]: event severity: fatal",
    ),
    means="Hardware of this host failed beyond correction; its ranks may die without a word.",
    confidence=0.7,
    remedies=("Take the host out of the job and have CPU and memory checked.",),
    next_steps=("ipmitool sel list; ras-mc-ctl --errors  # on that host",),
    matches=(
        "[ 991.2] EDAC MC0: 1 UE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0",
        "[ 991.2] mce: [Hardware Error]: Machine check: Processor context corrupt",
        "[ 991.2] {1}[Hardware Error]: event severity: fatal",
        "[ 991.2] mce: Uncorrected hardware memory error in user-access at 3f1c2a40",
    ),
    misses=(
        "[ 991.2] EDAC MC0: 1 CE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0",
        "[ 991.2] mce: [Hardware Error]: Machine check events logged",
    ),
    outranks=("launcher-exit-code",),
)
