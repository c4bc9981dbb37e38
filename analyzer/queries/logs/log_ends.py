"""Where logs end: in nothing wrong, or without a word while others lost a peer."""

import re
from collections.abc import Iterable, Iterator
from typing import Literal

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import (
    Account,
    Deed,
    LastLine,
    Outlook,
    Setting,
    SignOfLife,
    TrainingOutput,
    Trouble,
    WorldSize,
    ranks_in_words,
)
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.job.inference.kernel_lines import OF_KERNEL
from whyhang.analyzer.queries.hits import MAX_QUOTES, cite_line
from whyhang.analyzer.queries.logs.failures import speakers
from whyhang.analyzer.queries.registry import query
from whyhang.analyzer.rank_state.from_logs.ends import loses_peer
from whyhang.analyzer.rank_state.from_logs.gave_up import last_lines
from whyhang.analyzer.rank_state.from_logs.log_ends import (
    NO_LOGS,
    all_tails,
    are_idle,
    got_over,
    has_failed,
    have_ended,
    not_overcome,
    rows_of_the_end,
    tails_of_ranks,
    tasks_left_with_zero,
)
from whyhang.analyzer.rank_state.over_time.recent import all_ended_meanwhile
from whyhang.analyzer.report import cite

BARE_ERROR = re.compile(r"(?:^|[\s.])[A-Z]\w*(?:Error|Exception): ")
"""An exception as the last line of a log, its traceback lost."""

BAD_END = re.compile(
    r"(?<!\b0 )(?<!\bno )(?<!without )(?<!squared )(?<!absolute )"
    r"\b(?:errors?\b|ERR!|(?:fail(?:ed|ures?)|fatal|aborted|killed|hangs?|hung|stuck)\b)"
    r"(?!\s*[:=]?\s*(?:(?:0|none|no|false)\b|\d*\.\d|\d+e-))",
    re.IGNORECASE,
)
"""How compilers, test runners and shells end on a failure; not "0 failed" or "error: 0.03"."""


def _quiet(case: Case) -> Iterator[Hit]:
    """Yield one hit that blames nobody, if nothing is left open: no call, exception, bad end."""
    job = case.job
    ends = [
        end for end in job.of(LastLine) if end.ends_log and not end.source.file.endswith(NO_LOGS)
    ]
    inside = any(position.inside for position in case.graph.calls.positions.values())
    raised_any = not_overcome(job, [line for line in job.lines if line.raised is not None])
    looked_at = any(member.dumps or member.processes for member in job.members)
    looked_at = looked_at and not all_ended_meanwhile(job)
    texts = [end.text for end in ends if " WARN " not in end.text]
    last = [text for text in texts if not OF_KERNEL.search(text)]
    bad = any(BARE_ERROR.search(text) or BAD_END.search(text) for text in last)
    bad = bad and not tasks_left_with_zero(job)  # who says so keeps all processes
    failed = has_failed(job)
    blamed = any(account.deed not in {Deed.WAITS, Deed.WORKS} for account in job.of(Account))
    files = {end.source.file for end in ends}
    blamed = blamed or (bool(files) and files == {each.source.file for each in job.of(Trouble)})
    last_words = [cite(end.source, end.text, end.who.rank) for end in ends]
    last_words = [cite(row.source, row.quote) for row in rows_of_the_end(job)] + last_words
    if not last_words or inside or raised_any or bad or looked_at or failed or blamed:
        return
    if any(track.kind == "nccl-coll" for track in job.tracks):
        return
    yield Hit(evidence=tuple(last_words[:MAX_QUOTES]), names_culprit=False)


@query
def quiet_logs(case: Case, at: Literal["end", "rest", "start"]) -> Iterable[Hit]:
    """Yield one hit for logs that tell of nothing wrong: at a planned end, idle, before a step."""
    if at == "start":
        return () if _has_begun(case) or case.job.of(Trouble) else _quiet(case)
    return _quiet(case) if (have_ended if at == "end" else are_idle)(case.job) else ()


@query
def seen_at_work(case: Case) -> Iterator[Hit]:
    """Yield one hit if a log shows steps or results: the job is past its start."""
    for sign in case.job.of(SignOfLife)[:1]:
        yield Hit(evidence=(cite(sign.source, sign.text),), names_culprit=False)


MOST_AT_START = 12
"""Different lines of its own that a program may have printed which is said to be at its start."""


def _has_begun(case: Case) -> bool:
    """Return whether a job may be past its start, or has ended, or these logs are of no rank."""
    job = case.job
    if (
        have_ended(job)
        or job.of(SignOfLife)
        or any(track.kind == "nccl-init" and track.completed for track in job.tracks)
        or any(tail.outlook is not Outlook.UNKNOWN for tail in all_tails(job))
    ):
        return True
    ranks = any(end.ends_log and end.who.rank is not None for end in job.of(LastLine))
    settings = any(fact.name in {"launcher", "nccl"} for fact in job.of(Setting))
    started = any((settings, job.of(WorldSize), job.of(TrainingOutput)))
    printed = {line.text for tail in all_tails(job) for line in tail.lines}
    of_no_rank = bool(job.lines) and not (ranks or started)
    return of_no_rank or len(printed) > MOST_AT_START


ORDERLY_END = re.compile(
    r"\b(?:done|finish(?:ed|ing)|return(?:ed|ing)|exit(?:ed|ing)|leaving|complete[d]?|skipp(?:ed|ing)"
    r"|nothing (?:left|more|to do)|no more (?:data|batches|work))\b",
    re.IGNORECASE,
)
"""Words of a rank that came to the end of its program."""


@query
def log_ends(case: Case, *, finished: bool) -> Iterator[Hit]:
    """Yield one hit for ranks whose logs end without a word of trouble while others lost a peer.

    ``finished``: whether their last words are of an orderly end. Where some rank failed by itself
    that is whom they lost, and who says nothing was ended before it could.
    """
    if have_ended(case.job) or any(end.own for end in case.ends.values()):
        return
    lines = [line for line in case.job.lines if loses_peer(line) and not got_over(case.job, line)]
    survivors = {line.who.rank for line in lines if line.who.rank is not None}
    ends = {rank: (line.source, line.text) for rank, line in last_lines(case.job).items()}
    silent = sorted(ends.keys() - speakers(case) - case.ends.keys())
    if not silent:  # of the ranks of one output, it is who alone lost nobody
        tails = tails_of_ranks(case.job)
        ends = {rank: (tail.source, tail.lines[-1].text) for rank, tail in tails.items()}
        silent = sorted(ends.keys() - survivors - case.ends.keys())
        if len(silent) != 1 or len(survivors) + 1 != case.job.world_size:
            return
    if not silent or not survivors or len(silent) > len(ends) // 2:
        return
    if all(ORDERLY_END.search(ends[rank][1]) for rank in silent) is not finished:
        return
    last = [cite(*ends[rank], rank) for rank in silent[:MAX_QUOTES]]
    yield Hit(
        ranks=tuple(silent),
        evidence=(*last, *(cite_line(line) for line in lines[:2])),
        fields={"others": ranks_in_words(survivors)},
    )
