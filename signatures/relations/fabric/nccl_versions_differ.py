"""Ranks of one job have different NCCL libraries loaded.

NCCL talks a protocol of its own between ranks that changes from release to release. Since 2.23
it refuses other versions at the first communicator; before, the job hangs there or later, or
messages are cut off. Mixed images, a system library in front of the wheel's (LD_LIBRARY_PATH,
LD_PRELOAD) and half-updated environments do it.

The fewest ranks are named; with two halves nobody is.
"""

from whyhang.analyzer.match import Kind, Signature, unlike

SIGNATURE = Signature(
    id="nccl-versions-differ",
    category="nccl-version-mismatch",
    kind=Kind.CAUSE,
    level="setup",
    title="{who} runs NCCL {theirs}, the others {usual}",
    when=unlike("nccl", numbers=2),
    means="Ranks with different NCCL releases cannot talk to each other.",
    confidence="likely",
    remedies=(
        "Start all ranks from one image or environment; look at LD_LIBRARY_PATH and LD_PRELOAD.",
    ),
    next_steps=("grep libnccl /proc/PID/maps  # on every host",),
    explains=("ras-all-even", "ras-nothing-yet", "stuck-together"),
)
