"""Errors that the hardware corrected by itself.

Corrected AER messages of PCIe, corrected memory errors (CE), machine check notices without
"Uncorrected". They are logged for statistics; a flood of them is a reason to look at the host
later.

They stop no process.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="kernel-noise-corrected",
    category="healthy",
    kind=Kind.NOISE,
    title="Corrected hardware errors",
    when=log(
        r"AER: (?:Multiple )?Correct(?:ed|able) error",
        r"PCIe Bus Error: severity=Correct(?:ed|able)",
        r"EDAC (?:\w+ )?MC\d+: \d+ CE ",
        r"mce: \[Hardware Error\]: Machine check events logged",
        r"\[Hardware Error\]: event severity: corrected",
    ),
    means="The hardware corrected these errors; no process noticed.",
    confidence=0.9,
    matches=(
        "[ 991.2] pcieport 0000:3a:00.0: AER: Corrected error received: 0000:3b:00.0",
        "[ 991.2] EDAC MC0: 1 CE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0",
        "[ 991.2] pcieport 0000:3a:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer",
        "[ 991.2] mce: [Hardware Error]: Machine check events logged",
        "[ 991.2] {1}[Hardware Error]: event severity: corrected",
    ),
    misses=("[ 991.2] EDAC MC0: 1 UE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0",),
)
