"""What somebody else tells of ranks: a person who looked at the job, or a table of processes."""

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import (
    NOBODY,
    Account,
    Deed,
    LogLine,
    ProcessState,
    Subject,
    TrainingOutput,
    Trouble,
    ranks_in_words,
    replace,
)
from whyhang.analyzer.facts.stacks import SUMMARY
from whyhang.analyzer.findings.signature import CLEAR, GUESSED, INCOMPLETE, INDIRECT, Hit
from whyhang.analyzer.queries.hits import cite_lines, members_of, others_than
from whyhang.analyzer.queries.registry import query
from whyhang.analyzer.rank_state.listed import odd_processes, odd_programs
from whyhang.analyzer.report import cite

MAX_QUOTES = 4
LONGEST = 100  # characters of a sentence in a title
LEAST = 4  # ranks, more than half of which are not the odd ones

ELSEWHERE = {Deed.ABSENT, Deed.ODD, Deed.LEFT, Deed.WORKS, Deed.AWAITED, Deed.AHEAD}
"""What counts only of ranks whose numbers are given, and where nothing tells why."""

PLAIN = {Deed.CONTRASTED, Deed.WAITS}

SAYS_WHY = {Deed.RAN_OUT, Deed.IN_FILES, Deed.SPINS, Deed.OUT_OF_MEMORY}


@query
def reported(
    case: Case, *deeds: Deed, categories: Mapping[Subject, str] = MappingProxyType({})
) -> Iterator[Hit]:
    """Yield one hit for what is written of ranks: the first of these deeds that is.

    That ranks are somewhere else counts only where stacks do not show who it is; that they ended,
    where they are not said to have run out of memory. ``categories``: of what the same sentence
    says that the trouble is about.
    """
    accounts = case.job.of(Account)
    if not accounts:
        return
    by_deed = {deed: [account for account in accounts if account.deed is deed] for deed in Deed}
    waits = _ranks(by_deed[Deed.WAITS])
    for deed in deeds:
        ranks = _ranks(by_deed[deed])
        most = {Deed.WORKS: len(waits), Deed.AWAITED: 1}.get(deed)  # others wait for them
        crowd = most is not None and (ranks & waits or len(ranks) > most)
        vague = deed in ELSEWHERE and (not ranks or crowd or any(by_deed[why] for why in SAYS_WHY))
        ended = deed is Deed.ENDED
        known: object = by_deed[Deed.OUT_OF_MEMORY] if ended else case.graph.lagging
        if deed is Deed.CONTRASTED:  # it tells the least
            known = known or any(account.deed not in PLAIN for account in accounts)
        if by_deed[deed] and not vague and not known:
            if 2 * len(ranks) > max((LEAST, *ranks)) + 1:  # what most of them did is no exception
                ranks = _ranks(by_deed[Deed.CONTRASTED]) - ranks
            hit = _hit(case, ranks, by_deed[deed], waits - ranks if deed in ELSEWHERE else set())
            hit = replace(hit, category=_category(case, by_deed[deed], categories))
            yield replace(hit, strength=GUESSED) if deed is Deed.CONTRASTED else hit
            return


def _category(case: Case, accounts: Sequence[Account], categories: Mapping[Subject, str]) -> str:
    """Return the category of what a sentence of these accounts says that the trouble is about."""
    for trouble in case.job.of(Trouble):
        said = any(trouble.text in each.text or each.text in trouble.text for each in accounts)
        if said and trouble.subject in categories:
            return categories[trouble.subject]
    of_mpi = any(_CALL_OF_MPI.search(each.text) for each in accounts)
    return categories.get("call of MPI", "") if of_mpi else ""


_CALL_OF_MPI = re.compile(r"\bMPI_(?!ABORT)[A-Z]")

VAGUE = {"call of MPI", "collective call"}
"""Where a hang shows, which is no cause: it counts of jobs of which there is nothing else."""


@query
def about(
    case: Case, *subjects: Subject, categories: Mapping[Subject, str] = MappingProxyType({})
) -> Iterator[Hit]:
    """Yield one hit for what people write that the trouble is about, if they name one thing.

    It is one of ``subjects``; if none are given, one of those with a category, of which
    they write nothing of ranks, which tells more, nor in a file of a program's output.
    """
    output = {printed.source.file for printed in case.job.of(TrainingOutput)}
    troubles = [each for each in case.job.of(Trouble) if subjects or each.source.file not in output]
    named = {trouble.subject for trouble in troubles}
    if len(named) != 1 or case.graph.lagging or not named <= set(subjects or categories):
        return
    dumps = [dump for member in case.job.members for dump in member.dumps]
    of_program = any(line.time is not None or line.who != NOBODY for line in case.job.lines)
    looked_at = of_program or any(dump.tool != SUMMARY for dump in dumps)
    if subjects or not (case.job.of(Account) or (looked_at and named <= VAGUE)):
        first = troubles[0]
        ranks = {each.who.rank for each in troubles if each.who.rank is not None}
        yield Hit(
            ranks=tuple(ranks) if len(ranks) == 1 else (),
            evidence=tuple(cite(each.source, each.text) for each in troubles[:MAX_QUOTES]),
            strength=CLEAR if subjects else GUESSED,
            fields={"what": first.subject, "text": first.text[:LONGEST]},
            names_culprit=len(ranks) == 1,
            category="" if subjects else categories[first.subject],
        )


def _ranks(accounts: Sequence[Account]) -> set[int]:
    return {account.who.rank for account in accounts if account.who.rank is not None}


def _hit(case: Case, ranks: set[int], accounts: Sequence[Account], waits: set[int]) -> Hit:
    texts = {account.text: account for account in accounts}
    return Hit(
        ranks=tuple(sorted(ranks)),
        affected=members_of(case, sorted(waits)),
        evidence=tuple(
            cite(account.source, text, account.who.rank)
            for text, account in list(texts.items())[:MAX_QUOTES]
        ),
        fields={
            "who": ranks_in_words(ranks) if ranks else "a rank",
            "text": accounts[0].text[:LONGEST],
        },
        names_culprit=bool(ranks),
    )


_STOPPED = {"T", "t"}


@query
def listed(case: Case, *states: str) -> Iterator[Hit]:
    """Yield hits for the processes that ps shows in one of these states ("T", "Z", "D").

    Ranks whose end or stack is known are left out: those tell more.
    """
    if case.graph.progress:
        return
    programs = [row for row in odd_programs(case.job) if row.state in states]
    if programs and not any(member.processes for member in case.job.members):
        pids = ", ".join(str(row.who.pid) for row in programs[:MAX_QUOTES])
        more = f" and {len(programs) - MAX_QUOTES} more" if len(programs) > MAX_QUOTES else ""
        yield Hit(
            evidence=tuple(cite(row.source, row.quote) for row in programs[:MAX_QUOTES]),
            strength=INDIRECT * INCOMPLETE,
            fields=_fields(programs, f"process{'es' if len(programs) > 1 else ''} {pids}{more}"),
            names_culprit=False,
        )
    odd = odd_processes(case.job).items()
    rows = {rank: row for rank, row in odd if row.state in states and rank not in case.ends}
    # Of a rank whose stack is known that tells more, but for being stopped, which no stack shows.
    if rows and (
        {row.state for row in rows.values()} <= _STOPPED
        or not any(case.member(number).dumps for number in members_of(case, rows))
    ):
        yield Hit(
            ranks=tuple(rows),
            affected=others_than(case, rows),
            evidence=tuple(cite(row.source, row.quote, rank) for rank, row in rows.items()),
            strength=INDIRECT,
            fields=_fields(list(rows.values()), ranks_in_words(rows)),
        )


def _fields(rows: Sequence[ProcessState], who: str) -> dict[str, str]:
    several = len(rows) > 1
    return {
        "who": who,
        "does": "do" if several else "does",
        "them": "them" if several else "it",
        "pid": str(rows[0].who.pid),
        "where": f", in {rows[0].wchan}" if rows[0].wchan else "",
    }


TASK = r"^/job:\w+/replica:\d+/task:(?P<rank>\d+)$"
BETWEEN = 2  # lines of a message between its head and the tasks


@query
def listed_tasks(case: Case, lines: Sequence[LogLine]) -> Iterator[Hit]:
    """Yield one hit for the tasks that a coordination service lists behind these lines."""
    listed = {(line.source.file, line.source.line): line for line in case.job.lines_with((TASK,))}
    silent = {}
    for header in lines:
        number = (header.source.line or 0) + 1
        starts = range(number, number + BETWEEN)
        number = next((n for n in starts if (header.source.file, n) in listed), number)
        while line := listed.get((header.source.file, number)):
            if rank := re.search(TASK, line.text):
                silent[int(rank["rank"])] = line
            number += 1
    if silent:
        yield Hit(
            ranks=tuple(sorted(silent)),
            evidence=cite_lines((lines[0], *silent.values())),
            at=lines[0].time,
        )
