"""The job was stopped from outside while its steps went on.

A scheduler at its limit, an operator or Ctrl-C ends a job that works as well as one that hangs.
The times tell them apart: where the last step lies no further back than the steps before lie from
each other, nothing hung: by hand (Ctrl-C) a healthy job, else one that its time did not do for.
Said only where no rank failed of itself and none gave up waiting.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit that blames nobody."""
    stop = queries.stopped_at_work(case)
    if stop is not None and not case.graph.operations:
        yield Hit(
            evidence=(
                queries.cite(stop.source, stop.step.text, stop.rank),
                queries.cite_line(stop.line),
            ),
            names_culprit=False,
            fields={"before": queries.duration(max(0.0, stop.since))},
            category="healthy" if stop.by_hand else "",
        )


SIGNATURE = Signature(
    id="stopped-at-work",
    category="slow-not-hung",
    level="wait",
    title="The job was stopped from outside while its steps went on, the last one {before} before",
    when=when,
    means=(
        "The last step is no older than steps of this job are long, no rank failed of itself and "
        "none gave up waiting. Who or what stopped it stands in the scheduler's record."
    ),
    confidence="likely",
    remedies=(
        "Ask for more time, or save checkpoints often enough to go on from where it was stopped.",
    ),
    next_steps=("sacct -j JOB -o JobID,State,ExitCode,Reason,End",),
)
