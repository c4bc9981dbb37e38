"""The wait graph: where waits end, and who waits in a circle."""

from __future__ import annotations

import itertools
import time

from hypothesis import given
from hypothesis import strategies as st

from whyhang.analyzer.collectives.waits import CallRef, Cycle, Root, Wait, ends


def wait(waiter: int, *on: int, call: str = "all_reduce", certain: bool = True) -> Wait:
    return Wait(
        waiter=waiter, on=frozenset(on), call=CallRef(op=call, group="g", seq=1), certain=certain
    )


def roots(waits: list[Wait], members: list[int] | None = None) -> tuple[Root, ...]:
    return ends(waits, members)[0]


def cycles(waits: list[Wait]) -> tuple[Cycle, ...]:
    return ends(waits)[1]


def members(waits: list[Wait]) -> list[int]:
    return [root.member for root in roots(waits)]


def test_the_one_all_wait_for_is_the_root() -> None:
    """A member that others wait for and that waits for none is the root of all of them."""
    all_roots = roots([wait(0, 2), wait(1, 2), wait(3, 2)])

    assert [root.member for root in all_roots] == [2]
    assert all_roots[0].direct == all_roots[0].blocks == {0, 1, 3}


def test_a_chain_over_groups_ends_at_its_true_root() -> None:
    """Tensor group waits for data group waits for pipeline group: only the last one is named."""
    waits = [wait(0, 1, call="tp"), wait(1, 3, call="dp"), wait(3, 7, call="pp"), wait(2, 3)]

    (root,) = roots(waits)

    assert root.member == 7
    assert root.direct == {3}
    assert root.blocks == {0, 1, 2, 3}
    assert cycles(waits) == ()


def test_two_late_ranks_are_two_roots() -> None:
    """Each root knows whom it blocks; a rank may be blocked by both."""
    all_roots = roots([wait(0, 5, 6), wait(1, 6)])

    assert [(root.member, root.blocks) for root in all_roots] == [(5, {0}), (6, {0, 1})]


def test_an_idle_member_nobody_waits_for_is_no_root() -> None:
    """Who neither waits nor is waited for does not appear."""
    assert members([wait(0, 1)]) == [1]


def test_a_member_stuck_below_the_ranks_is_a_root() -> None:
    """Whoever stands in a call that all have joined waits for no rank."""
    all_roots = roots([wait(0), wait(1), wait(2, 0)])

    assert [(root.member, root.blocks) for root in all_roots] == [(0, {2}), (1, frozenset())]


def test_members_limit_the_answer() -> None:
    """Ranks of which nothing is known are not blamed."""
    assert members([wait(0, 1)]) == [1]
    assert roots([wait(0, 1)], members=[0]) == ()


def test_opposite_order_is_a_cycle_with_both_calls() -> None:
    """Two ranks that each wait for the other have no root; the chain names both calls."""
    waits = [wait(0, 1, call="a"), wait(1, 0, call="b"), wait(2, 0)]

    (cycle,) = cycles(waits)

    assert roots(waits) == ()
    assert cycle.members == {0, 1}
    assert cycle.blocks == {2}
    assert [(link.wait.waiter, link.wait.call.op, link.next) for link in cycle.chain] == [
        (0, "a", 1),
        (1, "b", 0),
    ]


def test_the_chain_is_a_shortest_one() -> None:
    """Of a large knot, the shortest way around is shown."""
    waits = [wait(0, 1), wait(1, 2, 0), wait(2, 3), wait(3, 0)]

    (cycle,) = cycles(waits)

    assert cycle.members == {0, 1, 2, 3}
    assert [link.wait.waiter for link in cycle.chain] == [0, 1]


def test_a_circle_that_leads_out_to_a_root_is_no_deadlock() -> None:
    """If one of them also waits for somebody outside, that one is the cause."""
    waits = [wait(0, 1), wait(1, 0), wait(1, 2)]

    assert cycles(waits) == ()
    assert members(waits) == [2]


def test_who_waits_for_itself_is_a_cycle() -> None:
    """A rank that sends to itself waits for itself."""
    (cycle,) = cycles([wait(4, 4)])

    assert cycle.members == {4}
    assert [link.next for link in cycle.chain] == [4]
    assert roots([wait(4, 4)]) == ()


def test_names_of_calls_can_be_read_out() -> None:
    """Collectives carry number and group, sends and receives their peer."""
    assert str(CallRef(op="all_reduce", group="tp", seq=3)) == "all_reduce #3 of tp"
    assert str(CallRef(op="send", group="pp", p2p=True, peer=4)) == "send to rank 4"
    assert str(CallRef(op="recv", group="pp", p2p=True)) == "recv"
    assert str(CallRef(op=None, group="")) == "a collective"


@given(
    st.lists(
        st.tuples(st.integers(0, 8), st.frozensets(st.integers(0, 8), max_size=4)), max_size=14
    )
)
def test_every_wait_ends_at_a_root_or_in_a_cycle(edges: list[tuple[int, frozenset[int]]]) -> None:
    """Nobody who waits is left without an explanation, and roots wait for nobody."""
    waits = [Wait(waiter=waiter, on=on) for waiter, on in edges]
    all_roots, all_cycles = ends(waits)

    reached = {root.member for root in all_roots} | {m for root in all_roots for m in root.blocks}
    reached |= {member for circle in all_cycles for member in circle.members | circle.blocks}
    assert {waiter for waiter, _ in edges} <= reached
    for root in all_roots:
        assert not any(waiter == root.member and on for waiter, on in edges)
    for circle in all_cycles:
        steps = [(link.wait.waiter, link.next) for link in circle.chain]
        assert all(after[0] == before[1] for before, after in itertools.pairwise(steps))
        assert steps[-1][1] == steps[0][0] == min(circle.members)
        assert all(link.next in link.wait.on for link in circle.chain)


def test_a_collective_over_ten_thousand_ranks_is_read_at_once() -> None:
    """Waits that share their set cost as much as the set, not as much as all pairs."""
    size = 10_000
    late = frozenset(range(size, size + 1000))
    waits = [Wait(waiter=rank, on=late) for rank in range(size)]

    start = time.process_time()
    all_roots = roots(waits)

    assert time.process_time() - start < 3
    assert len(all_roots) == 1000
    assert all(len(root.blocks) == size for root in all_roots)
