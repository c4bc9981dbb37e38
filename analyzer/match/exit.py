"""Matchers over how ranks ended: uncaught exceptions, and logs that just stop."""

from __future__ import annotations

import re
from collections import defaultdict

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import (
    LastLine,
    LogLine,
    Record,
    Setting,
    SignOfLife,
    TrainingOutput,
    Who,
    WorldSize,
    replace,
)
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.match.ended import failed, first_to_fail, raised_by
from whyhang.analyzer.match.log import quote
from whyhang.analyzer.rank_state.ends import EXCEPTION, LOST_PEER, is_own_exception
from whyhang.analyzer.report import Evidence, Location
from whyhang.analyzer.stacks.usercode import short
from whyhang.analyzer.wording.describe import ranks_in_words

MAX_QUOTES = 6
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+")


class GarbledObjects(Record):
    """A rank raised while it unpickled what it had received in a collective for objects."""

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit that blames nobody."""
        lines = [
            line
            for line in case.job.lines
            if EXCEPTION in line.matched
            and line.fields.get("type", "").endswith("UnpicklingError")
            and "object" in line.fields.get("op", "")
        ]
        if not lines:
            return ()
        quotes = tuple(quote(line) for line in lines[:MAX_QUOTES])
        return (Hit(evidence=quotes, names_culprit=False, at=_when(lines)),)


def garbled_objects() -> GarbledObjects:
    """Ask for objects that arrived as something else; see ``GarbledObjects``."""
    return GarbledObjects()


class Raised(Record):
    """A rank ended with an exception of its own.

    Not one that a collective raised because of another rank, nor one that a signature of its
    own explains. ``everywhere``: ask instead for an exception that has nothing to do with ranks,
    because every rank raised it or there is only one process. ``in_thread``: ask for what ended a
    thread only; the program goes on without it.
    """

    everywhere: bool = False
    in_thread: bool = False

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for the exception raised first, on the fewest ranks."""
        groups = _groups(case, in_thread=self.in_thread)
        if not groups:
            return ()
        first = min(groups.values(), key=lambda lines: (_when(lines), len(_ranks(lines))))
        if self.in_thread:
            return (replace(_hit(case, first, _ranks(first)), names_culprit=False),)
        ranks = raised_by(case, first)
        if has_no_ranks_to_blame(case, ranks) is not self.everywhere:
            return ()
        return (_hit(case, first, () if self.everywhere else ranks),)


def raised(*, everywhere: bool = False, in_thread: bool = False) -> Raised:
    """Ask for uncaught exceptions; see ``Raised``."""
    return Raised(everywhere=everywhere, in_thread=in_thread)


def _groups(case: Case, *, in_thread: bool = False) -> dict[tuple[str, str], list[LogLine]]:
    """Group the exceptions that ranks raised of themselves by what they say."""
    explained = {
        (line.source.file, line.source.line)
        for line in case.job.lines
        if set(line.matched) - {EXCEPTION}
    }
    groups: dict[tuple[str, str], list[LogLine]] = defaultdict(list)
    for line in case.job.lines:
        fields = line.fields
        if (
            EXCEPTION in line.matched
            and ("thread" in fields) is in_thread
            and is_own_exception(fields)
            and (line.source.file, line.source.line) not in explained
        ):
            message = _NUMBERS.sub("N", fields.get("message", ""))
            groups[(fields.get("type", ""), message)].append(line)
    return groups


def _ranks(lines: list[LogLine]) -> tuple[int, ...]:
    return tuple(sorted({line.who.rank for line in lines if line.who.rank is not None}))


def _speakers(case: Case) -> set[int]:
    return {line.who.rank for line in case.job.lines if line.who.rank is not None}


def _when(lines: list[LogLine]) -> float:
    return min((line.time for line in lines if line.time is not None), default=float("inf"))


def has_no_ranks_to_blame(case: Case, ranks: tuple[int, ...]) -> bool:
    """Tell an error of the program from one of a rank: all ranks had it, or there is only one."""
    everyone = _speakers(case) | failed(case).keys()
    return not has_ranks(case) or (len(ranks) > 1 and len(ranks) >= len(everyone))


def has_ranks(case: Case) -> bool:
    """Tell whether the job is known to have more than one rank."""
    job = case.job
    if any(LOST_PEER.search(line.text) for line in job.lines):
        return True
    named = any((member.rank or 0) > 0 for member in job.members)
    ended = any((exit_.who.rank or 0) > 0 for exit_ in job.exits)
    return (job.world_size or 0) > 1 or len(job.members) > 1 or bool(job.tracks) or named or ended


def _hit(case: Case, lines: list[LogLine], ranks: tuple[int, ...]) -> Hit:
    found = [case.job.member_of(Who(rank=rank)) for rank in ranks]
    first = lines[0]
    fields = first.fields
    kind = fields.get("type", "an exception").rpartition(".")[2]
    message = fields.get("message", "").partition("\n")[0]
    place = _location(fields)
    at = f" at {place.function} ({place.file}:{place.line})" if place else ""
    return Hit(
        members=tuple(member.id for member in found if member is not None),
        ranks=tuple(rank for rank, m in zip(ranks, found, strict=True) if m is None),
        evidence=tuple(quote(line) for line in lines[:MAX_QUOTES]),
        names_culprit=bool(ranks),
        location=place,
        fields={
            "who": ranks_in_words(ranks) if ranks else "the job",
            "what": f"{kind}: {message}" if message else kind,
            "at": at,
        },
        at=_when(lines) if _when(lines) != float("inf") else None,
    )


def _location(fields: dict[str, str]) -> Location | None:
    if not fields.get("file"):
        return None
    line = fields.get("line", "")
    return Location(
        file=short(fields["file"]),
        line=int(line) if line.isdigit() else None,
        function=fields.get("function"),
    )


class WentSilent(Record):
    """Some ranks tell of a lost peer, and other ranks' words simply end.

    A rank counts only if what it said is there and holds no telling line at all. ``finished``:
    ask instead for ranks whose last words are of an orderly end.
    """

    finished: bool = False

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for the ranks that said nothing of trouble."""
        told = [line for line in case.job.lines if LOST_PEER.search(line.text)]
        survivors = {line.who.rank for line in told if line.who.rank is not None}
        ends = {end.who.rank: end for end in case.job.of(LastLine)}
        speakers = _speakers(case)
        silent = sorted(rank for rank in ends if rank is not None and rank not in speakers)
        if not silent or not survivors or len(silent) > len(ends) // 2:
            return ()
        if all(FINISHED.search(ends[rank].text) for rank in silent) is not self.finished:
            return ()
        members = [case.job.member_of(Who(rank=rank)) for rank in silent]
        quotes = [
            Evidence(source=end.source.file, line=end.source.line, rank=rank, quote=end.text)
            for rank in silent
            for end in (ends[rank],)
        ]
        return (
            Hit(
                members=tuple(member.id for member in members if member is not None),
                ranks=tuple(r for r, m in zip(silent, members, strict=True) if m is None),
                evidence=(*quotes[:MAX_QUOTES], *(quote(line) for line in told[:2])),
                fields={"who": ranks_in_words(silent), "others": ranks_in_words(survivors)},
            ),
        )


FINISHED = re.compile(
    r"\b(?:done|finish(?:ed|ing)|return(?:ed|ing)|exit(?:ed|ing)|leaving|complete[d]?|skipp(?:ed|ing)"
    r"|nothing (?:left|more|to do)|no more (?:data|batches|work))\b",
    re.IGNORECASE,
)
"""Words of a rank that came to the end of its program."""


def went_silent(*, finished: bool = False) -> WentSilent:
    """Ask for ranks whose words stop while others report a lost peer; see ``WentSilent``."""
    return WentSilent(finished=finished)


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


class QuietLogs(Record):
    """Logs were read, and nothing in them is left open: no call, no exception, no bad end.

    ``started``: the job is seen to have begun its work, or the logs are not those of ranks. The
    opposite are ranks that said something at their start and nothing of a step.
    """

    started: bool = True

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit that blames nobody."""
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
            return ()
        if any(track.kind == "nccl-coll" for track in case.job.tracks):
            return ()
        if _has_begun(case) is not self.started:
            return ()
        quotes = [
            Evidence(
                source=end.source.file, line=end.source.line, rank=end.who.rank, quote=end.text
            )
            for end in ends[:MAX_QUOTES]
        ]
        return (Hit(evidence=tuple(quotes), names_culprit=False),)


def _has_begun(case: Case) -> bool:
    """Tell whether the job is seen to work, or these are logs, with known lines, of no rank."""
    job = case.job
    if job.of(SignOfLife):
        return True
    ranks = any(end.ends_log and end.who.rank is not None for end in job.of(LastLine))
    settings = any(fact.name in {"launcher", "nccl"} for fact in job.of(Setting))
    started = any((settings, job.of(WorldSize), job.of(TrainingOutput)))
    return bool(job.lines) and not (ranks or started)


def quiet_logs(*, started: bool = True) -> QuietLogs:
    """Ask whether the logs that were read tell of nothing wrong; see ``QuietLogs``."""
    return QuietLogs(started=started)


class FailedRows(Record):
    """A launcher's table shows ranks that ended by themselves with an error code."""

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for those that failed first."""
        ranks = first_to_fail(case)
        if not ranks:
            return ()
        rows = failed(case)
        found = [case.job.member_of(Who(rank=rank)) for rank in ranks]
        codes = sorted({rows[rank].exitcode or 0 for rank in ranks})
        quotes = [
            Evidence(
                source=rows[rank].source.file,
                line=rows[rank].source.line,
                rank=rank,
                quote=rows[rank].quote,
            )
            for rank in ranks[:MAX_QUOTES]
        ]
        return (
            Hit(
                members=tuple(member.id for member in found if member is not None),
                ranks=tuple(r for r, m in zip(ranks, found, strict=True) if m is None),
                evidence=tuple(quotes),
                fields={
                    "who": ranks_in_words(ranks),
                    "code": ", ".join(str(code) for code in codes),
                },
            ),
        )


def failed_rows() -> FailedRows:
    """Ask for ranks that a launcher's table shows to have failed; see ``FailedRows``."""
    return FailedRows()
