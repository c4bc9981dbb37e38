"""A worker process cannot be started because its arguments cannot be pickled.

Since Python 3.14 forkserver is the default on Linux, which makes code fail that worked with
fork. It happens on all ranks alike, unless only one uses workers.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="unpicklable-worker-argument",
    category="dataloader-worker-died",
    kind=Kind.CAUSE,
    title="{who} could not start a worker process: something cannot be pickled",
    when=log(
        r"(?:AttributeError|PicklingError): Can't (?:pickle|get) local object '",
        r"TypeError: cannot pickle '(?P<type>[^']+)' object",
        r"_pickle\.PicklingError: Can't pickle ",
        blames=Blames.SPEAKER,
    ),
    means=(
        "With the start method spawn or forkserver everything that a worker gets is pickled, and "
        "a lambda, a local class, a file or a lock in it cannot be."
    ),
    confidence=0.7,
    remedies=(
        (
            "Move lambdas and local classes to the top of a module; open files and connections "
            "inside the worker."
        ),
        "Or ask for multiprocessing_context='fork' if nothing has touched CUDA yet.",
    ),
    links=("https://pytorch.org/docs/stable/data.html",),
    matches=(
        "AttributeError: Can't pickle local object 'main.<locals>.collate'",
        "AttributeError: Can't get local object 'main.<locals>.collate'",
        "TypeError: cannot pickle '_io.TextIOWrapper' object",
        (
            "_pickle.PicklingError: Can't pickle <function <lambda> at 0x7f>: attribute lookup "
            "<lambda> on __main__ failed"
        ),
    ),
    misses=("_pickle.UnpicklingError: pickle data was truncated",),
    outranks=(
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)
