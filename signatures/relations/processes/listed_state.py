"""A table of processes shows one rank's process in a state in which it cannot go on."""

from collections.abc import Iterator, Sequence

from whyhang.analyzer import queries
from whyhang.analyzer.facts import ProcessState
from whyhang.analyzer.findings.signature import INCOMPLETE, INDIRECT
from whyhang.analyzer.queries import Case, Hit, Signature

STOPPED = frozenset("Tt")
MOST_PIDS = 4


def stopped(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks that ps shows as stopped."""
    yield from _listed(case, STOPPED)


def defunct(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks that ps shows as defunct."""
    yield from _listed(case, frozenset("Z"))


def asleep(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks that ps shows in uninterruptible sleep."""
    yield from _listed(case, frozenset("D"))


def _listed(case: Case, letters: frozenset[str]) -> Iterator[Hit]:
    """Leave out ranks whose end or stack is known: those tell more."""
    yield from _without_rank(case, letters)
    rows = {
        rank: row
        for rank, row in queries.odd_processes(case.job).items()
        if row.state in letters and rank not in case.ends
    }
    members, unseen = queries.members_of(case, tuple(rows))
    if not rows or case.graph.progress or any(case.member(number).dumps for number in members):
        return
    yield Hit(
        members=members,
        ranks=unseen,
        affected=tuple(m.id for m in case.job.members if m.id not in members),
        evidence=tuple(queries.cite(row.source, row.quote, rank) for rank, row in rows.items()),
        strength=INDIRECT,
        fields=_fields(list(rows.values()), queries.ranks_in_words(tuple(rows))),
    )


def _without_rank(case: Case, letters: frozenset[str]) -> Iterator[Hit]:
    """Yield one hit for the processes of which no table and no log tells the rank."""
    rows = [row for row in queries.odd_programs(case.job) if row.state in letters]
    if not rows or case.graph.progress or any(member.processes for member in case.job.members):
        return
    pids = ", ".join(str(row.who.pid) for row in rows[:MOST_PIDS])
    more = f" and {len(rows) - MOST_PIDS} more" if len(rows) > MOST_PIDS else ""
    who = f"process{'es' if len(rows) > 1 else ''} {pids}{more}"
    yield Hit(
        evidence=tuple(queries.cite(row.source, row.quote) for row in rows[:MOST_PIDS]),
        strength=INDIRECT * INCOMPLETE,
        fields=_fields(rows, who),
        names_culprit=False,
    )


def _fields(rows: Sequence[ProcessState], who: str) -> dict[str, str]:
    several = len(rows) > 1
    return {
        "who": who,
        "is": "are" if several else "is",
        "has": "have" if several else "has",
        "does": "do" if several else "does",
        "them": "them" if several else "it",
        "pid": str(rows[0].who.pid),
        "where": f", in {rows[0].wchan}" if rows[0].wchan else "",
    }


SIGNATURES = (
    Signature(
        id="listed-stopped",
        story="""\
ps shows the process of a rank as stopped (state T), and the others as running.

A signal (Ctrl-Z, SIGSTOP), a read from the terminal in the background or a debugger has stopped it;
it does not go on until somebody lets it.
""",
        category="rank-stopped",
        level="kill",
        title="{who} {is} stopped (state T in ps)",
        when=stopped,
        means="{who} {does} not run until somebody lets {them} go on; the other ranks wait.",
        remedies=("Let it go on: kill -CONT {pid}.", "Find out who stopped it."),
        next_steps=("grep -E 'State|TracerPid' /proc/{pid}/status  # T: stopped, t: traced",),
    ),
    Signature(
        id="listed-defunct",
        story="""\
ps shows the process of a rank as defunct, and the others as running.

It has ended, and whoever started it has not collected it. What ended it stands at the end of its
output, or in the kernel's log.
""",
        category="rank-died",
        level="kill",
        title="{who} {has} ended (defunct in ps)",
        when=defunct,
        means="The process of {who} is gone, and its launcher goes on; the others wait for it.",
        remedies=("Read the end of its output, and the kernel's log for a kill.",),
        next_steps=("dmesg -T | grep -iE 'killed process|segfault'",),
    ),
    Signature(
        id="listed-uninterruptible",
        story="""\
ps shows the process of a rank in uninterruptible sleep (state D), and the others not.

It is in the kernel and takes no signal: it waits for a disk or a file server, or for a driver. At
one moment any process may be; one that stays there has lost what it waits for.
""",
        category="storage-io-blocked",
        level="program",
        title="{who} {is} in uninterruptible sleep (state D in ps{where})",
        when=asleep,
        means=(
            "The process of {who} waits in the kernel{where}, mostly for a disk or a file server; "
            "the other ranks wait for {them}."
        ),
        confidence="likely",
        remedies=("Look at the file system that it uses: is its server there?",),
        next_steps=("cat /proc/{pid}/stack; cat /proc/{pid}/wchan  # as root, twice",),
    ),
)
