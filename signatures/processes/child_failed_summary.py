"""The launcher's own exception after a worker failed.

The traceback printed here is the launcher's and says nothing about the program. 'Root Cause
(first observed failure)' is the earliest on this host at a resolution of one second.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="child-failed-summary",
    category="rank-died",
    kind=Kind.CONSEQUENCE,
    title="The launcher reports that workers failed",
    when=log(
        r"elastic\.multiprocessing\.errors\.ChildFailedError",
        r"exits with return code = [1-9]\d*",
        r"subprocess\.CalledProcessError: Command .* returned non-zero exit status",
        r"Error waiting on exit barrier\. Elapsed: ",
    ),
    means=(
        "This is the launcher's summary. The reason is in the failing worker's own output, above "
        "it or in its own file."
    ),
    confidence=0.3,
    gives_way=True,
    next_steps=(
        "Read the output of the worker named under 'Root Cause'",
        "Decorate main with elastic's record to have its traceback in the table",
    ),
    links=("https://pytorch.org/docs/stable/elastic/errors.html",),
    matches=(
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        (
            "[2024-03-01 10:00:00,000] [ERROR] [launch.py:321:sigkill_handler] "
            "['/usr/bin/python', 'train.py'] exits with return code = 1"
        ),
        (
            "subprocess.CalledProcessError: Command '['/usr/bin/python', 'train.py']' returned "
            "non-zero exit status 1."
        ),
        "Error waiting on exit barrier. Elapsed: 300.2 seconds",
    ),
    misses=("    raise ChildFailedError(",),
)
