"""Somebody writes which rank did not come, went away, or does what no other does.

Who reports a hang has often looked at every rank before: "rank 3 has not joined the all-reduce",
"all processes but rank 0 raise the error", "ranks 1 and 2 wait, rank 0 is writing". That is
what a person took it for, so it stays a possibility beside what logs and stacks show themselves.
"""

from collections.abc import Iterable, Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import Account, Deed
from whyhang.analyzer.queries import Case, Hit, Signature

MAX_QUOTES = 4
LONGEST = 100  # characters of a sentence in a title
ORDER = (Deed.ABSENT, Deed.ODD, Deed.LEFT, Deed.WORKS)
"""What is said first counts: who did not come, before who went or works."""


def did_not_come(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks that did not do what the others did, unless stacks show who."""
    if case.graph.lagging:
        return
    accounts = case.job.of(Account)
    waits = _ranks(accounts, Deed.WAITS)
    for deed in ORDER:
        ranks = _ranks(accounts, deed)
        of_deed = [account for account in accounts if account.deed is deed]
        if not ranks or (deed is Deed.WORKS and (ranks & waits or len(ranks) > len(waits))):
            continue
        yield _hit(case, ranks, of_deed, waits - ranks)
        return


def ended(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks that crashed or were killed."""
    accounts = [account for account in case.job.of(Account) if account.deed is Deed.ENDED]
    if accounts:
        yield _hit(case, _ranks(accounts, Deed.ENDED), accounts, set())


def _ranks(accounts: Iterable[Account], deed: Deed) -> set[int]:
    ranks = {account.who.rank for account in accounts if account.deed is deed}
    return {rank for rank in ranks if rank is not None}


def _hit(case: Case, ranks: set[int], accounts: list[Account], waits: set[int]) -> Hit:
    members, unseen = queries.members_of(case, sorted(ranks))
    affected, _ = queries.members_of(case, sorted(waits))
    texts = {account.text: account for account in accounts}
    return Hit(
        members=members,
        ranks=unseen,
        affected=affected,
        evidence=tuple(
            queries.cite(account.source, text, account.who.rank)
            for text, account in list(texts.items())[:MAX_QUOTES]
        ),
        fields={"who": queries.ranks_in_words(ranks), "text": accounts[0].text[:LONGEST]},
    )


DID_NOT_COME = Signature(
    id="said-to-be-elsewhere",
    story=__doc__,
    category="missing-rank-in-collective",
    level="wait",
    title="By what is written, it is {who}: “{text}”",
    when=did_not_come,
    means=(
        "Somebody who looked at the job says so; nothing else that is here shows it. If it is so, "
        "the others wait for {who}."
    ),
    confidence="possible",
    remedies=("Find out what {who} does instead: its log, or its stack while it hangs.",),
    next_steps=("py-spy dump --pid PID  # of {who}, while it hangs",),
)

ENDED = Signature(
    id="said-to-have-ended",
    story="""\
Somebody writes which rank crashed, died or was killed.

That is what a person saw, or took it for. The others wait for that rank, or have lost it.
What ended it stands in its own output, or in the words of the kernel and the scheduler.
""",
    category="rank-died",
    level="wait",
    title="By what is written, {who} ended: “{text}”",
    when=ended,
    means="Somebody who looked at the job says so; the others wait for {who}, or lost it.",
    confidence="possible",
    remedies=("Read the end of the output of {who}.",),
    next_steps=("dmesg -T  # on the host of {who}",),
)

SIGNATURES = (DID_NOT_COME, ENDED)
