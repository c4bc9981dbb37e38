"""A launcher's table of failures shows ranks that ended with an error code.

Often only the table is kept of a log. A positive code means that the program ended by itself, by
an exception or by calling exit; a row with a signal was ended by somebody, the launcher for most.
"""

from whyhang.analyzer.match import Kind, Signature, failed_rows
from whyhang.analyzer.match.log import log

SIGNATURE = Signature(
    id="failure-row-exit-code",
    category="rank-died",
    kind=Kind.CAUSE,
    level="summary",
    title="{who} failed first, with exit code {code}",
    when=failed_rows(),
    unless=log(
        r"failed \(exitcode: (?P<code>[1-9]\d*)\) local_rank: \d+ \(pid: (?P<pid>\d+)\) of",
        r"torch\.distributed\.Dist\w+Error: ",
    ),
    means=(
        "By the launcher's table {who} ended with an error of the program. The reason stands in "
        "that process's own output: a Python exception, or a call of exit."
    ),
    confidence="hint",
    remedies=(
        (
            "Read the last lines of that process; decorate main with "
            "torch.distributed.elastic.multiprocessing.errors.record to get its traceback into "
            "the table."
        ),
    ),
    next_steps=("Look for 'Traceback' in the log of {who}",),
    links=("https://pytorch.org/docs/stable/elastic/errors.html",),
    matches=(
        (
            "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 2) "
            "local_rank: 0 (pid: 9000) of binary: /usr/bin/python"
        ),
        "torch.distributed.DistStoreError: wait timeout after 4000ms, keys: /default_pg/0//cpu//0",
    ),
    misses=("  exitcode  : 1 (pid: 4711)",),
)
