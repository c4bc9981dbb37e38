"""Logs were read to their ends: a planned end, an idle job, or no step at all."""

from collections.abc import Iterable

from whyhang.analyzer import queries
from whyhang.analyzer.facts import (
    LastLine,
    Outlook,
    Setting,
    SignOfLife,
    TrainingOutput,
    WorldSize,
)
from whyhang.analyzer.queries import Case, Hit, Signature
from whyhang.analyzer.queries.quiet import WORKS
from whyhang.analyzer.rank_state.log_ends import all_tails, are_idle, have_ended

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


def quiet_log(case: Case) -> Iterable[Hit]:
    well = have_ended(case.job) and not case.job.lines_with(VETOES)
    return queries.quiet_logs(case) if well else ()


def idle_engine(case: Case) -> Iterable[Hit]:
    return queries.quiet_logs(case) if are_idle(case.job) else ()


def log_without_step(case: Case) -> Iterable[Hit]:
    begun = _has_begun(case) or any(queries.at_work(case, work) for work in WORKS)
    return () if begun else queries.quiet_logs(case)


QUIET = Signature(
    id="quiet-log",
    story="""\
The job came to its planned end, and its logs tell of nothing wrong.

They end with a result, a farewell, the last of so many steps or a last checkpoint on every rank
that speaks; no error, no timeout, no call that was begun and not ended; what looks bad in them is
known to be harmless. A log that merely stops, in the middle of its steps, is none of these: a job
that hangs without a word leaves just such a log.
""",
    category="healthy",
    level="fallback",
    title="The job came to its planned end; its logs tell of nothing wrong",
    when=quiet_log,
    vetoes=VETOES,
    means=(
        "The logs end as those of a job that is through, and neither a cause of a hang nor one "
        "of its consequences was found in them."
    ),
    confidence="possible",
    remedies=("If its processes are still there, look at them: whyhang PID.",),
    next_steps=("pgrep -af python  # is a process of the job left? then: whyhang PID",),
    misses=(
        "[E429 13:55:49.384372190 ProcessGroupNCCL.cpp:1743] [PG ID 0 PG GUID 0(default_pg)",
        "Traceback (most recent call last):",
        "And the model just hangs there forever; with two nodes it gets stuck, too.",
    ),
)

IDLE = Signature(
    id="idle-engine",
    story="""\
A server says that it is up, and that no request runs or waits.

Engines that serve models print their throughput and their queues every few seconds while they
work, and 0 of everything or nothing at all between two requests. That is no hang.
""",
    category="healthy",
    level="fallback",
    title="The server is up and has nothing to do: no request runs or waits",
    when=idle_engine,
    means="Its last lines are those of a server without requests, and no error stands before them.",
    confidence="possible",
    remedies=("Send it a request. If that gets no answer, look at the processes: whyhang PID.",),
    next_steps=("curl -m 10 http://HOST:PORT/health  # does it answer?",),
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

SIGNATURES = (QUIET, IDLE, WITHOUT_STEP)


def _has_begun(case: Case) -> bool:
    """Return whether the job is seen to work, or these are logs, with known lines, of no rank."""
    job = case.job
    if job.of(SignOfLife) or any(tail.outlook is not Outlook.UNKNOWN for tail in all_tails(job)):
        return True
    ranks = any(end.ends_log and end.who.rank is not None for end in job.of(LastLine))
    settings = any(fact.name in {"launcher", "nccl"} for fact in job.of(Setting))
    started = any((settings, job.of(WorldSize), job.of(TrainingOutput)))
    return bool(job.lines) and not (ranks or started)
