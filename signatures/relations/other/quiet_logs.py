"""Logs were read to their ends: a planned end, an idle job, no step at all, or work not done."""

import re
from collections.abc import Iterable, Iterator, Sequence

from whyhang.analyzer import queries
from whyhang.analyzer.facts import (
    LastLine,
    Outlook,
    Setting,
    SignOfLife,
    TrainingOutput,
    WorldSize,
    replace,
)
from whyhang.analyzer.queries import Case, Hit, Signature
from whyhang.analyzer.rank_state.log_ends import NO_LOGS, all_tails, are_idle, have_ended

MAX_QUOTES = 6
LONGEST = 80  # characters of a last line in a title

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


def quiet_log(case: Case) -> Iterable[Hit]:
    return _quiet(case) if have_ended(case.job) and not case.job.lines_with(VETOES) else ()


def idle_engine(case: Case) -> Iterable[Hit]:
    return _quiet(case) if are_idle(case.job) else ()


def log_without_step(case: Case) -> Iterable[Hit]:
    return () if _has_begun(case) or any(_at_work(case, work) for work in WORKS) else _quiet(case)


WORKS = {
    "checkpoint-stall": re.compile(
        r"(?i)\b(?:saving|writing|dumping|begin\w* to save|start\w* (?:to save|saving))\b"
        r"(?! \w+ (?:took|done)).{0,40}\b(?:checkpoint|state.?dict|optimizer|model|weights)"
    ),
    "stale-lock-file": re.compile(
        r"\bUsing\s+\S+ as PyTorch extensions root\.{3}|\bBuilding extension module \w+\.{3}"
        r"|\bCreating extension directory |\bEmitting ninja build file "
        r"|\b(?:[Ww]aiting for|[Aa]cquiring|[Oo]btaining) (?:the )?(?:file )?lock\b"
    ),
    "network-io-blocked": re.compile(
        r"(?i)\b(?:downloading|fetching|uploading|cloning)\b (?!.*\b100 ?%)"
    ),
}
"""Work that a program says it begins, and of which it prints an end, by the category of a stall."""

DONE = re.compile(
    r"(?i)\b(?:done|took|finish\w*|complete[d]?|saved|success\w*|skip\w*|last step)\b"
)


def _at_work(case: Case, category: str) -> list[LastLine]:
    """Return the last lines of logs that say only that this work begins."""
    ends = [end for end in case.job.of(LastLine) if end.ends_log]
    return [end for end in ends if WORKS[category].search(end.text) and not DONE.search(end.text)]


def ends_saving(case: Case) -> Iterable[Hit]:
    return _ends_at_work(case, "checkpoint-stall")


def ends_building(case: Case) -> Iterable[Hit]:
    return _ends_at_work(case, "stale-lock-file")


def ends_downloading(case: Case) -> Iterable[Hit]:
    return _ends_at_work(case, "network-io-blocked")


def _ends_at_work(case: Case, category: str) -> Iterator[Hit]:
    ends = _at_work(case, category)
    for hit in _quiet(case, ends) if ends and not have_ended(case.job) else ():
        last = [queries.cite(end.source, end.text, end.who.rank) for end in ends[:MAX_QUOTES]]
        begun = WORKS[category].search(ends[0].text)
        words = ends[0].text[begun.start() if begun else 0 :].strip()[:LONGEST]
        yield replace(hit, evidence=tuple(last), fields={"text": words})


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

_STORY = """\
The last line of a log says that something begins, and nothing says that it ended.

A job that hangs in it leaves just such a log; so does one whose log was copied at that moment. So
it is a possibility, and the place to look at first.
"""
_LOOK = "If it is still there, look at it: whyhang PID, of any process of the job on each host."

SAVING = Signature(
    id="log-ends-saving",
    story=_STORY,
    category="checkpoint-stall",
    level="fallback",
    title="The log ends at '{text}': a checkpoint is being saved, and nothing says that it was",
    when=ends_saving,
    means="A rank that waits for its file system, or for the others' parts, leaves such a log.",
    confidence="hint",
    remedies=(_LOOK,),
    next_steps=("ls -lt CHECKPOINT_DIR  # do its files grow?",),
)

BUILDING = Signature(
    id="log-ends-building",
    story=_STORY,
    category="stale-lock-file",
    level="fallback",
    title="The log ends at '{text}', and nothing says that it went on",
    when=ends_building,
    means=(
        "Whoever builds an extension, or uses a shared cache, waits for a lock file; one that a "
        "killed process left behind is never released."
    ),
    confidence="hint",
    remedies=(
        _LOOK,
        "Remove the lock file if no process that runs holds it.",
    ),
    next_steps=("ls -l ~/.cache/torch_extensions/*/*/lock  # older than the job?",),
)

DOWNLOADING = Signature(
    id="log-ends-downloading",
    story=_STORY,
    category="network-io-blocked",
    level="fallback",
    title="The log ends at '{text}', and nothing says that it came",
    when=ends_downloading,
    means="A rank that waits for a server leaves such a log, and the others wait for it.",
    confidence="hint",
    remedies=(_LOOK,),
    next_steps=("ss -tnp | grep python  # is a connection open, and does it carry anything?",),
)

SIGNATURES = (QUIET, IDLE, WITHOUT_STEP, SAVING, BUILDING, DOWNLOADING)


def _quiet(case: Case, ends: Sequence[LastLine] = ()) -> Iterator[Hit]:
    """Yield one hit that blames nobody, if nothing is left open: no call, exception, bad end.

    ``ends`` are the last lines that count: of all logs, if none are given.
    """
    job = case.job
    ends = ends or [
        end for end in job.of(LastLine) if end.ends_log and not end.source.file.endswith(NO_LOGS)
    ]
    inside = any(position.inside for position in case.graph.calls.positions.values())
    raised_any = any(line.raised is not None for line in job.lines)
    looked_at = any(member.dumps or member.processes for member in job.members)
    last = [end.text for end in ends if " WARN " not in end.text]
    bad = any(BARE_ERROR.search(text) or BAD_END.search(text) for text in last)
    failed = any(row.signal or row.exitcode for row in job.exits)
    if not ends or inside or raised_any or bad or looked_at or failed:
        return
    if any(track.kind == "nccl-coll" for track in job.tracks):
        return
    last_words = [queries.cite(end.source, end.text, end.who.rank) for end in ends[:MAX_QUOTES]]
    yield Hit(evidence=tuple(last_words), names_culprit=False)


def _has_begun(case: Case) -> bool:
    """Return whether the job is seen to work, or these are logs, with known lines, of no rank."""
    job = case.job
    if job.of(SignOfLife) or any(tail.outlook is not Outlook.UNKNOWN for tail in all_tails(job)):
        return True
    ranks = any(end.ends_log and end.who.rank is not None for end in job.of(LastLine))
    settings = any(fact.name in {"launcher", "nccl"} for fact in job.of(Setting))
    started = any((settings, job.of(WorldSize), job.of(TrainingOutput)))
    return bool(job.lines) and not (ranks or started)
