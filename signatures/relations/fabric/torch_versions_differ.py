"""Ranks of one job run different releases of torch.

DDP, FSDP and the process groups of another release make other collectives: buckets, checks at
start-up, names of keys in the store. The ranks then wait for calls that the others never make.
Mixed images and half-updated environments do it.

The fewest ranks are named; with two halves nobody is.
"""

from whyhang.analyzer.match import Kind, Signature, unlike

SIGNATURE = Signature(
    id="torch-versions-differ",
    category="nccl-version-mismatch",
    kind=Kind.CAUSE,
    level="setup",
    title="{who} runs torch {theirs}, the others {usual}",
    when=unlike("torch", numbers=2),
    means="Releases of torch differ in the collectives that one and the same program makes.",
    confidence="likely",
    remedies=(
        "Start all ranks from one image or environment; look at LD_LIBRARY_PATH and LD_PRELOAD.",
    ),
    next_steps=("grep libtorch /proc/PID/maps  # on every host",),
    explains=("ras-all-even", "ras-nothing-yet", "stuck-together"),
)
