"""A launcher's table of failures shows ranks that ended with an error code.

Often only the table is kept of a log. A positive code means that the program ended by itself, by
an exception or by calling exit; a row with a signal was ended by somebody, the launcher for most.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature, cite

VETOES = (
    r"failed \(exitcode: (?P<code>[1-9]\d*)\) local_rank: \d+ \(pid: (?P<pid>\d+)\) of",
    r"torch\.distributed\.Dist\w+Error: ",
)
MAX_QUOTES = 6


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks that failed first by a launcher's table."""
    left = queries.left_others(case)
    ranks = left or queries.first_failures(case)
    if not ranks or (case.job.lines_with(VETOES) and not left):
        return
    rows = queries.failures(case)
    codes = sorted({rows[rank].exitcode or 0 for rank in ranks})
    yield Hit(
        ranks=ranks,
        evidence=tuple(
            cite(rows[rank].source, rows[rank].quote, rank) for rank in ranks[:MAX_QUOTES]
        ),
        fields={"code": ", ".join(str(code) for code in codes)},
    )


SIGNATURE = Signature(
    id="failure-row-exit-code",
    category="rank-died",
    level="summary",
    title="{who} failed first, with exit code {code}",
    when=when,
    vetoes=VETOES,
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
