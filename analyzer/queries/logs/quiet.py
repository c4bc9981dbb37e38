"""Logs that were read to their ends and tell of nothing wrong, or only of work that begins."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import (
    Account,
    Deed,
    LastLine,
    LogTail,
    Outlook,
    Setting,
    SignOfLife,
    TrainingOutput,
    Trouble,
    WorldSize,
    replace,
)
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.rank_state.from_logs.log_ends import (
    NO_LOGS,
    OF_KERNEL,
    all_tails,
    are_idle,
    has_failed,
    have_ended,
    not_overcome,
)
from whyhang.analyzer.report import cite

MAX_QUOTES = 6
MAX_BELOW = 12  # lines of work that was begun, below the one that says so
LONGEST = 80  # characters of a last line in a title

BARE_ERROR = re.compile(r"(?:^|[\s.])[A-Z]\w*(?:Error|Exception): ")
"""An exception as the last line of a log, its traceback lost."""

BAD_END = re.compile(
    r"(?<!\b0 )(?<!\bno )(?<!without )(?<!squared )(?<!absolute )"
    r"\b(?:errors?\b|ERR!|(?:fail(?:ed|ures?)|fatal|aborted|killed|hangs?|hung|stuck)\b)"
    r"(?!\s*[:=]?\s*(?:(?:0|none|no|false)\b|\d*\.\d|\d+e-))",
    re.IGNORECASE,
)
"""How compilers, test runners and shells end on a failure; not "0 failed" or "error: 0.03"."""

Work = Literal["saving", "building", "downloading"]

WORKS: dict[Work, re.Pattern[str]] = {
    "saving": re.compile(
        r"(?i)\b(?:saving|writing|dumping|begin\w* to save|start\w* (?:to save|saving))\b"
        r"(?! \w+ (?:took|done)).{0,40}\b(?:checkpoint|state.?dict|optimizer|model|weights)"
    ),
    "building": re.compile(
        r"\bUsing\s+\S+ as PyTorch extensions root\.{3}|\bBuilding extension module \w+\.{3}"
        r"|\bCreating extension directory |\bEmitting ninja build file "
        r"|\b(?:[Ww]aiting for|[Aa]cquiring|[Oo]btaining|to (?:acquire|get|obtain)) (?:the )?"
        r"(?:file )?lock\b"
    ),
    "downloading": re.compile(r"(?i)\b(?:downloading|fetching|uploading|cloning)\b (?!.*\b100 ?%)"),
}
"""Work that a program says it begins, and of which it prints an end."""

DONE = re.compile(
    r"(?i)\b(?:done|took|finish\w*|complete[d]?|saved|success\w*|skip\w*|last step)\b"
)


def _quiet(case: Case, ends: Sequence[LastLine] = ()) -> Iterator[Hit]:
    """Yield one hit that blames nobody, if nothing is left open: no call, exception, bad end.

    ``ends`` are the last lines that count: of all logs, if none are given.
    """
    job = case.job
    ends = ends or [
        end for end in job.of(LastLine) if end.ends_log and not end.source.file.endswith(NO_LOGS)
    ]
    inside = any(position.inside for position in case.graph.calls.positions.values())
    raised_any = not_overcome(job, [line for line in job.lines if line.raised is not None])
    looked_at = any(member.dumps or member.processes for member in job.members)
    texts = [end.text for end in ends if " WARN " not in end.text]
    last = [text for text in texts if not OF_KERNEL.search(text)]
    bad = any(BARE_ERROR.search(text) or BAD_END.search(text) for text in last)
    failed = has_failed(job)
    blamed = any(account.deed not in {Deed.WAITS, Deed.WORKS} for account in job.of(Account))
    if not ends or inside or raised_any or bad or looked_at or failed or blamed:
        return
    if any(track.kind == "nccl-coll" for track in job.tracks):
        return
    last_words = [cite(end.source, end.text, end.who.rank) for end in ends[:MAX_QUOTES]]
    yield Hit(evidence=tuple(last_words), names_culprit=False)


def _at_work(case: Case, work: Work) -> list[LastLine]:
    """Return the last lines of logs that say only that this work begins.

    Of a save a few lines may follow: none that says that it ended, and no step.
    """
    ends = [end for end in case.job.of(LastLine) if end.ends_log]
    begun = [end for end in ends if WORKS[work].search(end.text) and not DONE.search(end.text)]
    tails = case.job.of(LogTail) if work == "saving" else ()
    above = (
        _begun_above(work, end, (t for t in tails if t.source.file == end.source.file))
        for end in ends
    )
    return begun or [end for end in above if end is not None]


def _begun_above(work: Work, end: LastLine, tails: Iterable[LogTail]) -> LastLine | None:
    """Return the line a little above the end of a log at which this work begins.

    Whatever stands below it is no line of the loop that it interrupts: none that came more often.
    """
    lines = sorted((line for tail in tails for line in tail.lines), key=lambda line: line.number)
    near = (end.source.line or 0) - MAX_BELOW
    for at in range(len(lines) - 1, -1, -1):
        text = lines[at].text
        if lines[at].number < near or DONE.search(text):
            return None
        if WORKS[work].search(text):
            above = Counter(line.template for line in lines[:at])
            often = above[lines[at].template]
            if any(above[line.template] > often for line in lines[at + 1 :]):
                return None
            return replace(end, text=text, source=replace(end.source, line=lines[at].number))
    return None


def ends_at_work(case: Case, work: Work) -> Iterator[Hit]:
    """Yield one hit for logs that end where this work begins, and tell of nothing wrong."""
    ends = _at_work(case, work)
    settled = have_ended(case.job) or case.job.of(Trouble)  # more than that work only begins
    for hit in _quiet(case, ends) if ends and not settled else ():
        last = [cite(end.source, end.text, end.who.rank) for end in ends[:MAX_QUOTES]]
        begun = WORKS[work].search(ends[0].text)
        words = ends[0].text[begun.start() if begun else 0 :].strip()[:LONGEST]
        yield replace(hit, evidence=tuple(last), fields={"text": words})


def quiet_logs(case: Case, at: Literal["end", "rest", "start"]) -> Iterable[Hit]:
    """Yield one hit for logs that tell of nothing wrong: at a planned end, idle, before a step."""
    if at == "start":
        begun = _has_begun(case) or any(_at_work(case, work) for work in WORKS)
        return () if begun or case.job.of(Trouble) else _quiet(case)
    return _quiet(case) if (have_ended if at == "end" else are_idle)(case.job) else ()


def seen_at_work(case: Case) -> Iterator[Hit]:
    """Yield one hit if a log shows steps or results: the job is past its start."""
    for sign in case.job.of(SignOfLife)[:1]:
        yield Hit(evidence=(cite(sign.source, sign.text),), names_culprit=False)


def _has_begun(case: Case) -> bool:
    """Return whether the job is seen to work, or these are logs, with known lines, of no rank."""
    job = case.job
    if job.of(SignOfLife) or any(tail.outlook is not Outlook.UNKNOWN for tail in all_tails(job)):
        return True
    ranks = any(end.ends_log and end.who.rank is not None for end in job.of(LastLine))
    settings = any(fact.name in {"launcher", "nccl"} for fact in job.of(Setting))
    started = any((settings, job.of(WorldSize), job.of(TrainingOutput)))
    return bool(job.lines) and not (ranks or started)
