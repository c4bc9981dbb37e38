"""A dataset or collate function raised inside a DataLoader worker.

The lines after it hold the original traceback. Data differ between ranks, so one bad sample
ends one rank. If the program catches it and goes on, that rank has one batch less than the
others, and the hang comes at the end of the epoch.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="dataloader-worker-exception",
    category="dataloader-worker-died",
    kind=Kind.CAUSE,
    title="The dataset of {who} raised {type} in a DataLoader worker",
    when=log(
        r"Caught (?P<type>\w+) in DataLoader worker process (?P<worker>\d+)\.?",
        r"Caught (?P<type>\w+) in pin memory thread for device",
        blames=Blames.SPEAKER,
        ends_process=True,
    ),
    means=(
        "The dataset or collate function failed for one batch. The exception ends this rank's "
        "loop, and the others wait for it in their next collective."
    ),
    confidence=0.88,
    remedies=(
        (
            "Fix or skip the bad sample inside the dataset, so that every rank still gets the "
            "same number of batches."
        ),
        "Run with num_workers=0 to debug it.",
    ),
    next_steps=("Read the 'Original Traceback' that follows",),
    links=("https://pytorch.org/docs/stable/data.html",),
    matches=(
        "ValueError: Caught ValueError in DataLoader worker process 1.",
        "FileNotFoundError: Caught FileNotFoundError in DataLoader worker process 0.",
        "RuntimeError: Caught RuntimeError in pin memory thread for device 0.",
    ),
    misses=(
        "    raise exception",
        "Original Traceback (most recent call last):",
    ),
    outranks=(
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)
