"""A rank cannot load a checkpoint because the file is truncated or not what it seems.

A save that was killed half-way, a copy or download that is not complete on one host, a git-lfs
pointer instead of the file, or ranks that read while another one still writes. When only one
host says so, compare the file there with the others.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="checkpoint-unreadable",
    category="rank-died",
    kind=Kind.CAUSE,
    title="{who} could not read a checkpoint: the file is damaged or incomplete",
    when=log(
        r"PytorchStreamReader failed (?:reading|locating)",
        (
            r"_pickle\.UnpicklingError: (?:invalid load key|pickle data was truncated|unpickling "
            r"stack underflow)"
        ),
        (
            r"Error while deserializing header: "
            r"(?:HeaderTooLarge|HeaderTooSmall|MetadataIncompleteBuffer|InvalidH"
            r"eader\w*|incomplete metadata)"
        ),
        r"EOFError: Ran out of input",
        r"SafetensorError: .*MetadataIncompleteBuffer",
        blames=Blames.SPEAKER,
        ends_process=True,
    ),
    unless=log(r"all_gather_list|Unable to unpickle data from other workers"),
    means=(
        "A file is shorter than it should be, or not a checkpoint at all. This rank fails while "
        "loading; the others wait at the next collective."
    ),
    confidence=0.85,
    everywhere="not-distributed",
    remedies=(
        (
            "Compare size and checksum of the file on all hosts; copy it again or go back to the "
            "previous checkpoint."
        ),
        (
            "Let one rank write under a temporary name, rename, then pass a barrier before "
            "others read."
        ),
    ),
    next_steps=(
        "ls -l FILE; sha256sum FILE  # on that host and on another",
        "head -c 100 FILE  # a git-lfs pointer is text",
    ),
    matches=(
        (
            "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding "
            "central directory. This is an internal miniz error."
        ),
        "RuntimeError: PytorchStreamReader failed locating file data.pkl: file not found",
        "_pickle.UnpicklingError: invalid load key, 'v'.",
        "_pickle.UnpicklingError: pickle data was truncated",
        "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge",
        "safetensors_rust.SafetensorError: Error while deserializing: MetadataIncompleteBuffer",
        "EOFError: Ran out of input",
    ),
    misses=(
        "Exception: Unable to unpickle data from other workers. all_gather_list requires all",
        "_pickle.PicklingError: Can't pickle <function <lambda> at 0x7f>",
        "EOFError: EOF when reading a line",
    ),
    outranks=(
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)
