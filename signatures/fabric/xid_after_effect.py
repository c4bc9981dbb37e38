"""Xids that follow from something else.

43 (a channel stopped after the program's fault) and 45 (channels removed when a process is
killed, interrupted or its GPU failed; many at the end of a job are ordinary).

The earlier Xid of the same GPU, or whatever killed the process, is the cause.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature
from whyhang.signatures._xid import WORDS, Blame, line_of

SIGNATURE = Signature(
    id="xid-after-effect",
    category="rank-died",
    kind=Kind.CONSEQUENCE,
    title="The driver cleaned up after a process on GPU {pci} (Xid {xid})",
    when=log(line_of(Blame.EFFECT), blames=Blames.NAMED, adds=WORDS),
    means=(
        "The driver tidied up after a process that had faulted or been killed. Look for what "
        "came before."
    ),
    confidence=0.4,
    links=("https://docs.nvidia.com/deploy/xid-errors/index.html",),
    matches=(
        "[12345.67] NVRM: Xid (PCI:0000:1b:00): 45, pid=48213, name=python3, Ch 00000010",
        "[12345.67] NVRM: Xid (PCI:0000:1b:00): 43, pid=48213, name=python3, Ch 00000010",
        (
            "[12345.67] NVRM: Xid (PCI:0000:1b:00): 45, pid='<unknown>', name=<unknown>, "
            "channel 0x0000001b"
        ),
    ),
    misses=(
        (
            "[12345.67] NVRM: Xid (PCI:0000:1b:00): 79, pid=48213, name=python3, GPU has "
            "fallen off the bus."
        ),
    ),
)
