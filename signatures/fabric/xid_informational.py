"""Xids that need no action during a job.

38 (firmware watchdog notice), 61, 63 and 156 (a row or resource will be retired at the next
reset), 92 (many corrected errors), 121 (corrected link error), 137 (an application's privilege
error) and 141.

63 and 156 ask for a reset at a good time, not for a verdict on a hang.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature
from whyhang.signatures._xid import WORDS, Blame, line_of

SIGNATURE = Signature(
    id="xid-informational",
    category="healthy",
    kind=Kind.NOISE,
    title="Informational Xid {xid} on GPU {pci}",
    when=log(line_of(Blame.NOTE), adds=WORDS),
    means="The driver notes something that does not stop the GPU.",
    confidence=0.9,
    links=("https://docs.nvidia.com/deploy/xid-errors/index.html",),
    matches=(
        (
            "[12345.67] NVRM: Xid (PCI:0000:1b:00): 63, pid=48213, name=python3, Row Remapper: "
            "New row (0x00000) marked for remapping, reset gpu to activate."
        ),
        (
            "[12345.67] NVRM: Xid (PCI:0009:01:00): 121, pid='<unknown>', name=<unknown>, C2C "
            "Link corrected error"
        ),
    ),
    misses=(
        "[12345.67] NVRM: Xid (PCI:0000:1b:00): 64, pid=48213, name=python3, Row remapper failure",
    ),
)
