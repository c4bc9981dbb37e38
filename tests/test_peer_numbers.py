"""Numbers within a group that are given as ranks of the job."""

from __future__ import annotations

import pytest
from small_jobs import report_of, still

from whyhang.analyzer.facts import Call, CallState, Group, Source, Track, Who

CALLS = {
    "send": "send (torch/distributed/distributed_c10d.py:2753)\nforward (pipe.py:9)\n",
    "recv": "recv (torch/distributed/distributed_c10d.py:2799)\nforward (pipe.py:7)\n",
    "": "all_reduce (torch/distributed/distributed_c10d.py:3100)\nreduce (pipe.py:20)\n",
}
Messages = dict[int, tuple[str, int]]


def tracks(messages: Messages) -> list[Track]:
    """Make the sends and receives that stacks show, each with the rank that it names."""
    return [
        Track(
            who=Who(rank=rank),
            group=Group(name=""),
            kind="stack",
            source=Source(file=f"rank{rank}.json"),
            calls=(Call(op=op, state=CallState.INSIDE, p2p=True, peer=peer),),
        )
        for rank, (op, peer) in messages.items()
    ]


@pytest.mark.parametrize(
    ("messages", "named"),
    [
        ({4: ("send", 1), 5: ("recv", 0), 6: ("recv", 1), 7: ("recv", 2)}, (4, 5, 6, 7)),
        ({1: ("send", 3), 4: ("recv", 0), 7: ("recv", 0)}, None),  # read so they do not pair
        ({2: ("send", 1), 5: ("recv", 0)}, (2, 5)),  # every third rank
        ({4: ("send", 5), 5: ("recv", 0)}, None),  # one names the other
        ({4: ("send", 1), 0: ("recv", 4)}, None),
        ({4: ("send", 1)}, None),
    ],
    ids=["a pipeline", "strangers", "in order", "to one that receives", "to rank 0", "alone"],
)
def test_messages_that_pair_by_the_numbers_of_their_group(
    messages: Messages, named: tuple[int, ...] | None
) -> None:
    """All others are through with theirs, and wait in a collective."""
    stacks = {rank: CALLS[messages.get(rank, ("", 0))[0]] for rank in range(8)}
    stacks = {rank: f"{stack}main (pipe.py:40)\n" for rank, stack in stacks.items()}

    first = report_of([*still(stacks), *tracks(messages)]).findings[0]

    assert (first.signature == "peer-numbered-in-group") is (named is not None)
    if named is not None:
        assert (first.category, first.culprit_ranks) == ("p2p-mismatch", named)
