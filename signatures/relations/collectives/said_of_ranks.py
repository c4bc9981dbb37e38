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
ORDER = (Deed.ABSENT, Deed.ODD, Deed.LEFT, Deed.WORKS, Deed.AWAITED)
"""What is said first counts: who did not come, before who went or works."""

SAYS_WHY = {Deed.RAN_OUT, Deed.IN_FILES, Deed.SPINS, Deed.OUT_OF_MEMORY}
"""What tells of a rank why it did not come."""


def did_not_come(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks that did not do what the others did, unless stacks show who."""
    accounts = case.job.of(Account)
    if case.graph.lagging or any(account.deed in SAYS_WHY for account in accounts):
        return
    waits = _ranks(accounts, Deed.WAITS)
    for deed in ORDER:
        ranks = _ranks(accounts, deed)
        of_deed = [account for account in accounts if account.deed is deed]
        if not ranks or (deed is Deed.WORKS and (ranks & waits or len(ranks) > len(waits))):
            continue
        if deed is Deed.AWAITED and (ranks & waits or len(ranks) > 1):
            continue
        yield _hit(case, ranks, of_deed, waits - ranks)
        return


def ended(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks that crashed or were killed."""
    all_accounts = case.job.of(Account)
    accounts = [account for account in all_accounts if account.deed is Deed.ENDED]
    if accounts and not any(account.deed is Deed.OUT_OF_MEMORY for account in all_accounts):
        yield _hit(case, _ranks(accounts, Deed.ENDED), accounts, set())


def ran_out(case: Case) -> Iterator[Hit]:
    return _by_deed(case, Deed.RAN_OUT)


def in_files(case: Case) -> Iterator[Hit]:
    return _by_deed(case, Deed.IN_FILES)


def spins(case: Case) -> Iterator[Hit]:
    return _by_deed(case, Deed.SPINS)


def out_of_memory(case: Case) -> Iterator[Hit]:
    return _by_deed(case, Deed.OUT_OF_MEMORY)


def _by_deed(case: Case, deed: Deed) -> Iterator[Hit]:
    """Yield one hit for what is written of one rank, unless stacks show who it is."""
    accounts = [account for account in case.job.of(Account) if account.deed is deed]
    if accounts and not case.graph.lagging:
        yield _hit(case, _ranks(accounts, deed), accounts, set())


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
        fields={
            "who": queries.ranks_in_words(ranks) if ranks else "a rank",
            "text": accounts[0].text[:LONGEST],
        },
        names_culprit=bool(ranks),
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

_STORY = """\
Somebody writes what one rank does while the others wait, mostly without its number.

That is what a person saw, or took for the cause. What it does tells the kind of the hang, and where
to look.
"""
_MEANS = "Somebody who looked at the job says so; nothing else that is here shows it."

RAN_OUT = Signature(
    id="said-to-have-run-out",
    story=_STORY,
    category="uneven-inputs",
    level="wait",
    title="By what is written, {who} has fewer steps than the others: “{text}”",
    when=ran_out,
    means=f"{_MEANS} Who has no more data leaves the loop; the others wait in its next collective.",
    confidence="possible",
    remedies=(
        "Give all ranks as many steps: drop_last, a sampler that pads, or DDP's join().",
        "Let ranks agree on whether all have data before each step.",
    ),
    next_steps=("py-spy dump --pid PID  # of the rank that is not in the collective",),
)

IN_FILES = Signature(
    id="said-to-be-in-files",
    story=_STORY,
    category="storage-io-blocked",
    level="wait",
    title="By what is written, {who} stands in a read or a write: “{text}”",
    when=in_files,
    means=f"{_MEANS} The others wait until it is through.",
    confidence="possible",
    remedies=("Look at the storage that it reads: is it slow, or gone, for that host alone?",),
    next_steps=("cat /proc/PID/wchan /proc/PID/io  # of that rank, twice",),
)

SPINS = Signature(
    id="said-to-spin",
    story=_STORY,
    category="rank-spinning",
    level="wait",
    title="By what is written, {who} runs without getting on: “{text}”",
    when=spins,
    means=f"{_MEANS} The others wait for it.",
    confidence="possible",
    remedies=("Find the loop in its stacks, taken several times.",),
    next_steps=("py-spy dump --native --pid PID  # of that rank, several times",),
)

OUT_OF_MEMORY = Signature(
    id="said-to-be-out-of-memory",
    story=_STORY,
    category="gpu-oom",
    level="wait",
    title="By what is written, {who} ran out of GPU memory: “{text}”",
    when=out_of_memory,
    means=f"{_MEANS} A rank that raises in a collective leaves the others in it.",
    confidence="possible",
    remedies=("Use less memory: a smaller batch, activation checkpointing, sharded states.",),
    next_steps=("nvidia-smi  # how much is in use, and by whom",),
)

SIGNATURES = (DID_NOT_COME, ENDED, RAN_OUT, IN_FILES, SPINS, OUT_OF_MEMORY)
