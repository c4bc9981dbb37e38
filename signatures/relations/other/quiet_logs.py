"""Logs were read to their ends, and nothing in them is left open."""

import re
from collections.abc import Iterable, Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import LastLine, Setting, SignOfLife, WorldSize
from whyhang.analyzer.facts.exceptions import EXCEPTION
from whyhang.analyzer.facts.statements import TrainingOutput
from whyhang.analyzer.queries import Case, Hit, Signature

MAX_QUOTES = 6

VETOES = (
    # an error of torch's process group, whatever it says
    (
        r"(?:^|[\s\[\]:])[EF]\d{0,4}(?: [\d:.]+)?(?: +\d+)? "
        r"(?:ProcessGroup\w+|TCPStore)\.cpp:\d+\]"
    ),
    r"Traceback \(most recent call last\)",  # cut off before it says of what
    # the words of somebody who pasted the log
    (
        r"(?i)\b(?:it|job|model|training|run|program|script|process(?:es)?|code|server|gets?"
        r"|got|is|are|just|keeps?) (?:always |just |still )?(?:hangs|hung|stuck|hanging|frozen"
        r"|freezes|froze|deadlocks|deadlocked)\b"
    ),
)

BARE_ERROR = re.compile(r"(?:^|[\s.])[A-Z]\w*(?:Error|Exception): ")
"""An exception as the last line of a log, its traceback lost."""

BAD_END = re.compile(
    r"(?<!\b0 )(?<!\bno )(?<!without )(?<!squared )(?<!absolute )"
    r"\b(?:errors?\b|ERR!|(?:fail(?:ed|ures?)|fatal|aborted|killed|hangs?|hung|stuck)\b)"
    r"(?!\s*[:=]?\s*(?:(?:0|none|no|false)\b|\d*\.\d|\d+e-))",
    re.IGNORECASE,
)
"""How compilers, test runners and shells end on a failure; not "0 failed" or "error: 0.03"."""

NO_LOGS = (".py", ".sh", ".toml", ".json", ".yaml", ".yml", ".md", ".cfg", ".ini")
"""Text files beside logs whose silence about trouble says nothing."""


def quiet_log(case: Case) -> Iterable[Hit]:
    return () if case.job.lines_with(VETOES) else _quiet(case, started=True)


def log_without_step(case: Case) -> Iterable[Hit]:
    return _quiet(case, started=False)


QUIET = Signature(
    id="quiet-log",
    story="""\
The logs tell of nothing wrong.

They were read to their ends: no error, no timeout, no call that was begun and not ended; what
looks bad in them is known to be harmless. A job that hangs without a word leaves such logs
too, so this is said only where there is no other evidence, and not as a certainty, and not if
whoever pasted the log writes beside it that the job hangs.
""",
    category="healthy",
    level="fallback",
    title="The logs tell of nothing wrong",
    when=quiet_log,
    vetoes=VETOES,
    means=(
        "No cause of a hang and none of its consequences was found in the logs. If the job does "
        "not move all the same, its logs do not say why."
    ),
    confidence="possible",
    remedies=("If the job hangs, look at it while it does: whyhang PID.",),
    next_steps=("whyhang PID  # any process of the job",),
    misses=(
        "[E429 13:55:49.384372190 ProcessGroupNCCL.cpp:1743] [PG ID 0 PG GUID 0(default_pg)",
        "Traceback (most recent call last):",
        "And the model just hangs there forever; with two nodes it gets stuck, too.",
    ),
)

WITHOUT_STEP = Signature(
    id="log-without-step",
    story="""\
The logs of the ranks end before the first step, and say nothing of why.

Something was printed at the start and nothing of a step, a loss or an orderly end; no error
either. A job that waits in init_process_group, in torchrun's rendezvous or in its first
collective leaves exactly such logs, and so does one whose log was copied a minute after the
start. Which of them it is, only the processes tell, or logs with more in them.
""",
    category="unknown",
    level="fallback",
    title="The logs end at the start of the job and do not say what it waits for",
    when=log_without_step,
    means=(
        "There is no step, no result, no error and no end in the logs. Waiting for a rank in "
        "init_process_group, in torchrun's rendezvous or in the first collective looks so."
    ),
    confidence="hint",
    remedies=(
        "If it is still there, look at it: whyhang PID, of any process of the job on each host.",
    ),
    next_steps=(
        "whyhang PID  # any process of the job",
        (
            "LOGLEVEL=INFO TORCH_CPP_LOG_LEVEL=INFO TORCH_DISTRIBUTED_DEBUG=INFO NCCL_DEBUG=INFO  "
            "# start again with these: then the logs say how far each rank came"
        ),
    ),
)

SIGNATURES = (QUIET, WITHOUT_STEP)


def _quiet(case: Case, *, started: bool) -> Iterator[Hit]:
    """Yield one hit that blames nobody, if nothing is left open: no call, no exception, no bad end.

    ``started``: the job is seen to have begun its work, or the logs are not those of ranks. The
    opposite are ranks that printed something at their start and nothing of a step.
    """
    ends = [
        end
        for end in case.job.of(LastLine)
        if end.ends_log and not end.source.file.endswith(NO_LOGS)
    ]
    inside = any(position.inside for position in case.graph.calls.positions.values())
    raised_any = any(EXCEPTION in line.matched for line in case.job.lines)
    looked_at = any(member.dumps or member.processes for member in case.job.members)
    bad = any(BARE_ERROR.search(end.text) or BAD_END.search(end.text) for end in ends)
    if not ends or inside or raised_any or bad or looked_at or case.job.exits:
        return
    if any(track.kind == "nccl-coll" for track in case.job.tracks):
        return
    if _has_begun(case) is not started:
        return
    last_words = [queries.cite(end.source, end.text, end.who.rank) for end in ends[:MAX_QUOTES]]
    yield Hit(evidence=tuple(last_words), names_culprit=False)


def _has_begun(case: Case) -> bool:
    """Return whether the job is seen to work, or these are logs, with known lines, of no rank."""
    job = case.job
    if job.of(SignOfLife):
        return True
    ranks = any(end.ends_log and end.who.rank is not None for end in job.of(LastLine))
    settings = any(fact.name in {"launcher", "nccl"} for fact in job.of(Setting))
    started = any((settings, job.of(WorldSize), job.of(TrainingOutput)))
    return bool(job.lines) and not (ranks or started)
