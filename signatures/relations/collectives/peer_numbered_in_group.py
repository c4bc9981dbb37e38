"""Sends and receives name ranks by their numbers within a group, where those of the job are meant.

In a job of several pipelines the numbers of stages are ranks in the first pipeline alone;
``send(x, dst=stage + 1)`` of another one goes to a stranger. Who waits so names only ranks that
wait in no message, none of them names another, and read as numbers of their own group the messages
pair.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import Record
from whyhang.analyzer.queries import Case, Hit, Signature, cite

MOST_QUOTES = 4
_OTHER = {"send": "recv", "recv": "send"}


class _Message(Record):
    """What a rank waits for: whether it sends or receives, and the rank that it names."""

    op: str
    peer: int


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks that wait in such messages."""
    positions = case.graph.calls.positions
    messages = {
        rank: _Message(op=position.call.op, peer=position.call.peer)
        for rank, position in positions.items()
        if position.inside and position.call.peer is not None and position.call.op in _OTHER
    }
    named = {message.peer for message in messages.values()}
    if case.graph.progress or len(messages) < 2 or not named.isdisjoint(messages):
        return
    pairs = next((pairs for own in _own_numbers(messages) if (pairs := _pairs(messages, own))), {})
    if not pairs:
        return
    sender, receiver = next(iter(pairs.items()))
    shown = (sender, receiver, *(rank for rank in messages if rank not in {sender, receiver}))
    members = queries.members_of(case, messages)
    yield queries.hit_about(
        case,
        members,
        (state.member for state in case.states if state.member not in members),
        evidence=tuple(
            cite(source, positions[rank].quote, rank)
            for rank in shown[:MOST_QUOTES]
            if (source := positions[rank].source) is not None
        ),
        fields={
            "who": queries.ranks_in_words(messages),
            "named": queries.ranks_in_words(named),
            "sender": str(sender),
            "to": str(messages[sender].peer),
            "receiver": str(receiver),
            "from": str(messages[receiver].peer),
        },
    )


def _own_numbers(messages: dict[int, _Message]) -> Iterator[dict[int, int]]:
    """Yield whom each rank may mean: the group begins at some rank, or has these ranks in order."""
    most = max(message.peer for message in messages.values())
    for first in (rank for rank in sorted(messages) if rank > most):
        yield {rank: message.peer + first for rank, message in messages.items()}
    ranks = dict(enumerate(sorted(messages)))
    yield {rank: ranks.get(message.peer, rank) for rank, message in messages.items()}


def _pairs(messages: dict[int, _Message], own: dict[int, int]) -> dict[int, int]:
    """Return who sends to whom, if nobody means itself and no message meets another one's."""
    if any(rank == meant for rank, meant in own.items()):
        return {}
    return {
        rank: meant
        for rank, meant in own.items()
        if messages[rank].op == "send"
        and own.get(meant) == rank
        and messages[meant].op == _OTHER["send"]
    }


SIGNATURE = Signature(
    id="peer-numbered-in-group",
    category="p2p-mismatch",
    level="program",
    title="{who} send to and receive from {named}, who wait in no message: numbers within a group, "
    "given as ranks of the job",
    when=when,
    means=(
        "The messages of {who} name {named} alone, and none of these sends or receives. Read as "
        "numbers within their own group they pair: rank {sender}, which sends to {to}, means rank "
        "{receiver}, which receives from {from}. send and recv want the rank in the whole job."
    ),
    confidence="strong",
    remedies=(
        (
            "Give the rank of the job: dist.get_global_rank(group, number), or group_dst= and "
            "group_src= in place of dst and src (torch 2.6 and later)."
        ),
    ),
    next_steps=("py-spy dump --locals --pid PID  # of both: which number is given, of what?",),
    links=("https://pytorch.org/docs/stable/distributed.html#torch.distributed.get_global_rank",),
)
