"""Evidence: what a hit rests on, with the place where it was read."""

from collections.abc import Iterable

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import LogLine, Process, Who
from whyhang.analyzer.report import Evidence, cite


def cite_line(line: LogLine) -> Evidence:
    """Return a log line as evidence."""
    return cite(line.source, line.text, line.who.rank)


def cite_environ(process: Process, keys: Iterable[str]) -> Evidence:
    """Return what a process has for variables of the environment, else its command line."""
    settings = " ".join(f"{key}={process.environ[key]}" for key in keys if key in process.environ)
    words = settings or process.command or "names no rank"
    return cite(process.source, f"pid {process.who.pid}: {words}", process.who.rank)


def members_of(case: Case, ranks: Iterable[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Split ranks into members (their numbers) and ranks of which there is no evidence."""
    members, unseen = [], []
    for rank in ranks:
        member = case.job.member_of(Who(rank=rank))
        if member is None:
            unseen.append(rank)
        else:
            members.append(member.id)
    return tuple(members), tuple(unseen)
