"""The tags of messages, compared between sender and receiver, and between ranks in one call."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from small_jobs import native, report_of, still

from whyhang.analyzer.facts import CallArgument, Source, Who, replace
from whyhang.analyzer.report import Report

SOURCE = Source(file="claims.json")
SEND = """
PMPI_Ssend (libmpi.so.40:1)
hand_out (halo.py:12)
<module> (halo.py:60)
"""
RECEIVE = """
PMPI_Recv (libmpi.so.40:1)
hand_out (halo.py:20)
<module> (halo.py:60)
"""
BARRIER = """
PMPI_Barrier (libmpi.so.40:1)
hand_out (halo.py:30)
<module> (halo.py:60)
"""


def _call(
    rank: int, op: str, peer: int, tag: int | str, *, stands: bool = True
) -> list[CallArgument]:
    values = {"dest" if op == "ssend" else "source": peer, "tag": tag}
    return [
        CallArgument(
            op=op, name=name, value=str(value), function="hand_out", file="halo.py",
            line=12 if op == "ssend" else 20, stands=stands, who=Who(rank=rank), source=SOURCE,
        )
        for name, value in values.items()
    ]  # fmt: skip


def _hung(stacks: dict[int, str], calls: Iterable[list[CallArgument]]) -> Report:
    return report_of([*native(still(stacks)), *(fact for call in calls for fact in call)])


def test_two_partners_whose_tags_differ() -> None:
    """They name each other, so neither is the odd one."""
    finding = _hung(
        {0: SEND, 1: RECEIVE}, [_call(0, "ssend", 1, 11), _call(1, "recv", 0, 12)]
    ).findings[0]

    assert (finding.signature, finding.category) == ("message-tags-differ", "mpi-mismatch")
    assert finding.culprit_ranks is None
    assert "rank 0 sends tag 11 to rank 1 and rank 1 waits for tag 12 from rank 0" in finding.title


@pytest.mark.parametrize(
    ("sent", "awaited", "culprits"),
    [(301, 300, (2,)), (299, 300, None), (300, 301, (3,)), (300, 299, None)],
    ids=["sender ahead", "sender behind", "receiver ahead", "receiver behind"],
)
def test_which_partner_is_the_odd_one(
    sent: int, awaited: int, culprits: tuple[int, ...] | None
) -> None:
    """All others have one tag; a lower one may be that of a rank that was left out before."""
    most = next(tag for tag in (sent, awaited) if tag == 300)
    finding = _hung(
        {0: RECEIVE, 1: SEND, 2: SEND, 3: RECEIVE},
        [
            _call(0, "recv", 3, most),
            _call(1, "ssend", 2, most),
            _call(2, "ssend", 3, sent),
            _call(3, "recv", 2, awaited),
        ],
    ).findings[0]

    assert finding.signature == "message-tags-differ"
    assert finding.culprit_ranks == culprits


def test_a_worker_that_answers_with_another_tag() -> None:
    """Whoever stands at another line, with the tag of other messages, says nothing of these two."""
    orders = "PMPI_Recv (libmpi.so.40:1)\nwork (halo.py:40)\n<module> (halo.py:61)\n"
    elsewhere = [replace(fact, function="work", line=40) for fact in _call(1, "recv", 0, 1)]
    finding = _hung(
        {0: RECEIVE, 1: orders, 2: SEND, 3: SEND},
        [_call(0, "recv", 2, 2), elsewhere, _call(2, "ssend", 0, 3), _call(3, "ssend", 0, 2)],
    ).findings[0]

    assert (finding.signature, finding.culprit_ranks) == ("message-tags-differ", (2,))


def _receiving(tags: dict[int, int], others: str = BARRIER) -> Report:
    """Rank 2 receives with its tag; those that have come past that call tell theirs."""
    return _hung(
        {0: others, 1: BARRIER, 2: RECEIVE, 3: BARRIER},
        [_call(rank, "recv", 0, tag, stands=rank == 2) for rank, tag in tags.items()],
    )


def test_a_receive_with_a_tag_of_its_own() -> None:
    """The others have come past that call, and their variables tell which tag they gave."""
    finding = _receiving({1: 11, 2: 12, 3: 11}).findings[0]

    assert (finding.signature, finding.culprit_ranks) == ("message-tags-differ", (2,))
    assert "rank 2 waits for tag 12 from rank 0 and rank 1 took tag 11" in finding.title


def test_a_receive_that_may_be_of_another_turn() -> None:
    """One of the others receives as well: who waits for the next message may be ahead of it."""
    report = _receiving({1: 11, 2: 12, 3: 11}, others=RECEIVE)

    assert "message-tags-differ" not in [finding.signature for finding in report.findings]


@pytest.mark.parametrize(
    "calls",
    [
        [_call(0, "ssend", 1, 11), _call(1, "recv", 0, 11)],
        [_call(0, "ssend", 1, 11), _call(1, "recv", 2, 12)],
        [_call(0, "ssend", 1, 11), _call(1, "recv", 0, "ANY_TAG")],
    ],
    ids=["alike", "not partners", "any tag"],
)
def test_partners_whose_tags_tell_nothing(calls: list[list[CallArgument]]) -> None:
    """They meet, or one of them waits for another rank, or for any message."""
    report = _hung({0: SEND, 1: RECEIVE, 2: BARRIER, 3: BARRIER}, calls)

    assert "message-tags-differ" not in [finding.signature for finding in report.findings]


@pytest.mark.parametrize(
    "tags",
    [{1: 101, 2: 102, 3: 103}, {2: 12, 3: 11}, {1: 11, 2: 11, 3: 11}],
    ids=["by rank", "one other", "alike"],
)
def test_tags_of_one_call_that_tell_nothing(tags: dict[int, int]) -> None:
    """They differ by design, or nobody tells whose is meant."""
    report = _receiving(tags)

    assert "message-tags-differ" not in [finding.signature for finding in report.findings]
