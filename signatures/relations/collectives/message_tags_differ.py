"""A message is sent with one tag and awaited with another one.

``send(x, dest=1, tag=step)`` where each rank counts the steps by itself, a table of tags that one
rank has another version of. Partners that stand in their calls and name each other show it; so does
a receive with a tag that nobody else gave to that call. Tags that are computed from the rank differ
by design: only what all others give alike says what is meant, in one turn of their loop.
"""

from collections.abc import Iterator, Sequence

from whyhang.analyzer import queries
from whyhang.analyzer.facts import CallArgument, Record, grouped
from whyhang.analyzer.queries import Case, Hit, Signature, WaitKind, cite
from whyhang.analyzer.report import Location

AGREEING = 2
"""Others that give one tag, at least, for another tag to be the odd one."""

_SENDS = {"send", "ssend", "isend"}
_RECEIVES = {"recv"}


class _Message(Record):
    """What a rank gives to a send or receive: the tag, and the partner where it is known."""

    member: int
    rank: int
    sends: bool
    peer: int | None
    tag: int

    fact: CallArgument


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for partners that differ in a tag, or else for a rank whose tag is its own."""
    if case.graph.progress or case.graph.lagging or not queries.all_seen(case):
        return
    messages = _messages(case)
    standing = [message for message in messages if message.fact.stands]
    for sent in standing:
        for awaited in standing:
            partners = sent.sends and not awaited.sends
            named = (sent.peer, awaited.peer) == (awaited.rank, sent.rank)
            if partners and named and sent.tag != awaited.tag:
                yield _hit(case, _ahead(sent, awaited, standing), (sent, awaited))
                return
    lines = grouped(messages, lambda message: (message.fact.file, message.fact.line, message.sends))
    for given in lines.values():
        for odd in given:
            others = [message for message in given if message.member != odd.member]
            alike = {message.tag for message in others}
            enough = odd.fact.stands and not odd.sends and len(others) >= AGREEING
            if enough and len(alike) == 1 and odd.tag not in alike and _all_behind(case, odd):
                yield _hit(case, (odd.member,), (odd, others[0]))


def _messages(case: Case) -> list[_Message]:
    """List the calls whose tag is known, of members whose rank is known."""
    found = []
    arguments = case.job.of(CallArgument)
    for facts in grouped(arguments, lambda a: (a.who, a.op, a.file, a.line)).values():
        values = {fact.name: fact for fact in facts if fact.value.isdecimal()}
        tag, op = values.get("tag"), facts[0].op.lower()
        member = case.job.member_of(facts[0].who)
        if tag is None or member is None or member.rank is None or op not in _SENDS | _RECEIVES:
            continue
        names = ("dest", "dst") if op in _SENDS else ("source", "src")
        peer = next((int(values[name].value) for name in names if name in values), None)
        found.append(
            _Message(
                member=member.id,
                rank=member.rank,
                sends=op in _SENDS,
                peer=peer,
                tag=int(tag.value),
                fact=tag,
            )
        )
    return found


def _all_behind(case: Case, odd: _Message) -> bool:
    """Return whether all others stand in a collective that nobody leaves before this rank comes.

    Then it is in the same turn of their loop, and the message of that turn was for it.
    """
    rest = [operation for operation in case.graph.operations if odd.member not in operation.members]
    waiting = {member for operation in rest for member in operation.members}
    return (
        len(rest) == 1
        and queries.needs_everybody(rest[0].op)
        and len(waiting) == len(case.states) - 1
    )


def _ahead(sent: _Message, awaited: _Message, standing: Sequence[_Message]) -> tuple[int, ...]:
    """Return which of two partners is the odd one: its tag is its own, and not a lower one.

    Where tags count, a rank that others left out has the lower one and is not to blame.
    """
    for one, other in ((sent, awaited), (awaited, sent)):
        others = [message.tag for message in standing if message.member != one.member]
        alone = others.count(other.tag) >= AGREEING and one.tag not in others
        if alone and one.tag > other.tag:
            return (one.member,)
    return ()


def _hit(case: Case, members: tuple[int, ...], shown: tuple[_Message, _Message]) -> Hit:
    kinds = {operation.kind for operation in case.graph.operations}
    fact = shown[0].fact
    return Hit(
        members=members,
        affected=tuple(state.member for state in case.states if state.member not in members),
        names_culprit=bool(members),
        category="p2p-mismatch" if WaitKind.P2P in kinds else "",
        evidence=(
            *(cite(each.fact.source, str(each.fact), each.rank) for each in shown),
            *queries.places_of(case, *(message.member for message in shown)),
        ),
        location=Location(file=fact.file, line=fact.line, function=fact.function),
        fields={"sides": " and ".join(_side(message) for message in shown)},
    )


def _side(message: _Message) -> str:
    verb = "sends" if message.sends else "waits for" if message.fact.stands else "took"
    way = "to" if message.sends else "from"
    peer = f" {way} rank {message.peer}" if message.peer is not None else ""
    return f"rank {message.rank} {verb} tag {message.tag}{peer}"


SIGNATURE = Signature(
    id="message-tags-differ",
    category="mpi-mismatch",
    level="program",
    title="The tags of a message differ: {sides}",
    when=when,
    means=(
        "A receive takes a message only with the tag that it was given, and {sides}: nobody takes "
        "the one, and the other is not sent."
    ),
    confidence="strong",
    remedies=("Take the tag from one place, which sender and receiver share.",),
    next_steps=("py-spy dump --locals --pid PID  # of both: what is the tag made of?",),
)
