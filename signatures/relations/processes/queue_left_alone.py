"""A rank waits at a queue of its own, and a thread has said in the log that an error ended it.

What fills such a queue is a thread of the process. One that takes its own error writes a line at
best, and the rank, which has no other thread any more, waits for an item for ever.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import replace
from whyhang.analyzer.queries import Case, Hit, Signature, WaitKind
from whyhang.analyzer.queries.waits.lagging import lagging
from whyhang.analyzer.wording.who_fills import is_left_alone

ENDED = (
    (
        r"\b(?:WARN(?:ING)?|ERROR|CRITICAL)\b.{1,120}\b(?:ends|ended|dies|died|stops|stopped"
        r"|exits|exited|quits?|terminates|terminated|gives up|gave up)\b.{0,20}"
        r"\b(?P<error>[A-Z]\w*(?:Error|Exception))\b"
    ),
)
MOST_SHOWN = 2


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks at one queue that none of their threads is left to fill."""
    lines = case.job.lines_with(ENDED)[-MOST_SHOWN:]
    if not lines:
        return
    for hit in lagging(case, WaitKind.QUEUE, only=lambda state: is_left_alone(case, state)):
        fields = {**hit.fields, "error": lines[-1].fields.get("error", "an error")}
        evidence = (*queries.cite_lines(lines), *hit.evidence)
        yield replace(hit, evidence=evidence, fields=fields)


SIGNATURE = Signature(
    id="queue-left-alone",
    category="gil-or-lock-deadlock",
    level="program",
    title="{who} is {does}{at}{waiting}; a thread said that {error} ended it",
    when=when,
    means=(
        "{who} is {does}{at}. The log has a line of a thread that ended by {error}: most likely "
        "the one that filled the queue."
    ),
    confidence="likely",
    patterns=ENDED,
    remedies=(
        "Let a thread that fails put its error into the queue, or end the process.",
        "Get with a timeout, and look then whether the thread is alive.",
    ),
    next_steps=("grep -nE '{error}' LOG  # which thread, after what?",),
    matches=(
        "WARNING:rollout:env-2 ends: KeyError('timeout')",
        "2026-11-29 11:20:07 ERROR [feeder] reader thread stopped by UnicodeDecodeError",
    ),
    misses=(
        "WARNING:rollout:env-2 ends after 180 steps",
        "WARNING:fetch:try 2 of 5 after ConnectionError('reset')",
    ),
)
