"""Operations that cannot meet, and those that may."""

from __future__ import annotations

import pytest
from small_jobs import ALL_REDUCE, BARRIER, dump, native, report_of, still

from whyhang.analyzer.facts import (
    Call,
    CallArgument,
    CallState,
    Excerpt,
    Fact,
    Frame,
    Group,
    LoopCounter,
    Setting,
    Source,
    Track,
    Who,
    replace,
)

DDP_REDUCTION = """
_engine_run_backward (torch/autograd/graph.py:979)
backward (torch/autograd/__init__.py:395)
train (train.py:39)
<module> (train.py:60)
"""
REDUCE = ALL_REDUCE.replace("all_reduce", "reduce")
GATHER = ALL_REDUCE.replace("all_reduce", "all_gather").replace(":40)", ":44)")
RECV = """
recv (torch/distributed/distributed_c10d.py:2700)
exchange (train.py:30)
<module> (train.py:60)
"""


def test_ddps_all_reduce_and_the_loss_cannot_meet() -> None:
    """One operation called from two places of which one is DDP's backward is a mismatch."""
    facts = still({0: DDP_REDUCTION, 1: DDP_REDUCTION, 2: ALL_REDUCE, 3: DDP_REDUCTION})
    reducer = Frame(
        function="c10d::Reducer::finalize_backward", file="libtorch_cpu.so", native=True
    )
    for rank in (0, 1, 3):
        last = dump(rank, DDP_REDUCTION, look=1)
        inner = (reducer, *last.threads[0].frames)
        facts.append(replace(last, threads=(replace(last.threads[0], frames=inner),)))

    finding = report_of(facts).findings[0]

    assert finding.category == "collective-mismatch"
    assert finding.culprit_ranks == (2,)
    assert "DDP's gradient all_reduce" in finding.title


def test_one_operation_at_two_lines_may_be_one_call() -> None:
    """Rank 0 may take part in a collective from a branch of its own: nobody is blamed for that."""
    own = ALL_REDUCE.replace("train.py:40", "train.py:44")

    findings = report_of(still({0: own, 1: ALL_REDUCE, 2: ALL_REDUCE})).findings

    assert all(f.culprit_ranks is None for f in findings)


def test_of_several_behind_a_reduce_nobody_is_blamed() -> None:
    """A rank that did its part of a reduce goes on before the others; one alone did not."""
    two = report_of(still({0: REDUCE, 1: REDUCE, 2: GATHER, 3: REDUCE, 4: GATHER})).findings[0]
    one = report_of(still({0: REDUCE, 1: REDUCE, 2: GATHER, 3: REDUCE, 4: REDUCE})).findings[0]

    assert (two.category, two.culprit_ranks) == ("collective-mismatch", None)
    assert (one.category, one.culprit_ranks) == ("collective-mismatch", (2,))


def test_a_receive_that_nobody_sends_to() -> None:
    """One rank receives and all others, the sender among them, are in a barrier."""
    report = report_of(still({0: BARRIER, 1: BARRIER, 2: RECV, 3: BARRIER}))

    assert report.verdict == "hung"
    assert report.findings[0].category == "p2p-mismatch"
    assert report.findings[0].culprit_ranks is None
    assert "no rank sends" in report.headline


def test_sends_and_receives_at_once_may_be_on_their_way() -> None:
    """While one rank sends and one receives, nothing is said of a call that is missing."""
    send = RECV.replace("recv", "send")

    findings = report_of(still({0: BARRIER, 1: send, 2: RECV, 3: BARRIER})).findings

    assert all(f.category != "p2p-mismatch" for f in findings)


def test_sends_and_receives_over_gloo_that_do_not_move_are_not_on_their_way() -> None:
    """Who hands over a message runs; whom they named, and so who is to blame, is not known."""
    send = RECV.replace("recv", "send")
    facts = still({0: BARRIER, 1: send, 2: RECV, 3: BARRIER})
    gloo = Setting(name="backend", value="gloo", who=Who(), source=Source(file="rank2.log"))

    finding = report_of([*facts, gloo]).findings[0]
    once = report_of([*(fact for fact in facts if fact.look == 0), gloo]).findings

    assert (finding.category, finding.culprit_ranks) == ("p2p-mismatch", None)
    assert "no other rank is in such a call: ranks 0,3 are in barrier" in finding.title
    assert all(f.category != "p2p-mismatch" for f in once)


ROTATES = """\
def attend(block):
    for hop in range(size):
        if not block.any():
            break
        rotate(block)
def step(block):
    attend(block)
    dist.all_reduce(loss)
"""


@pytest.mark.parametrize("seen", [True, False])
def test_who_left_the_loop_of_messages_by_a_break_is_told(*, seen: bool) -> None:
    """Two of a ring send and receive, the third is in a collective behind the loop."""
    ring = "{} (torch/distributed/distributed_c10d.py:2500)\nattend (ring.py:5)\nstep (ring.py:7)\n"
    stacks = {
        0: ring.format("send"),
        1: ring.format("recv"),
        2: "all_reduce (torch/distributed/distributed_c10d.py:3100)\nstep (ring.py:8)\n",
    }
    source = Excerpt(file="ring.py", first_line=1, lines=tuple(ROTATES.splitlines()))
    findings = report_of([*still(stacks), *([source] if seen else [])]).findings

    words = "rank 2 has come past that call: it may have left by `break` (ring.py:4)"
    assert [f.category for f in findings if words in f.title] == ["p2p-mismatch"] * seen


def test_all_in_sends_and_receives_that_do_not_move_do_not_pair() -> None:
    """A ring of which one rank has another order; one look alone may catch it on its way."""
    send = RECV.replace("recv", "send")
    facts = still({0: send, 1: send, 2: RECV})

    finding = report_of(facts).findings[0]
    once = report_of([fact for fact in facts if fact.look == 0]).findings

    assert (finding.category, finding.culprit_ranks) == ("p2p-mismatch", None)
    assert finding.title.startswith("Ranks 0-1 wait to send and rank 2 to receive, and no message")
    assert all(f.category != "p2p-mismatch" for f in once)


def _receives_from(peer: int, rank: int = 2) -> Track:
    call = Call(op="recv", state=CallState.INSIDE, p2p=True, peer=peer, tag=7)
    source = Source(file=f"rank{rank}.peers.json")
    group = Group(name="")
    return Track(who=Who(rank=rank), group=group, kind="stack", source=source, calls=(call,))


@pytest.mark.parametrize(
    ("steps", "culprits"), [((4, 4, 5, 5), (2,)), ((4, 4, 4, 4), None), ((4, 5, 4, 5), (1,))]
)
def test_of_two_that_wait_for_each_other_the_one_a_step_ahead_has_not_sent(
    steps: tuple[int, ...], culprits: tuple[int, ...] | None
) -> None:
    """A pipeline: 0 waits for 1, and 3 for 2; what 1 waits for 2 should have sent before."""
    later = RECV.replace("exchange (train.py:30)", "exchange (train.py:44)")
    facts = still({0: RECV, 1: RECV, 2: later, 3: later})
    facts += [_receives_from(peer, rank) for rank, peer in ((0, 1), (1, 2), (2, 1), (3, 2))]
    facts += [
        LoopCounter(
            name="step", value=step, function="exchange", file="train.py",
            who=Who(rank=rank), source=Source(file="claims.json"),
        )
        for rank, step in enumerate(steps)
    ]  # fmt: skip

    finding = report_of(facts).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("p2p-mismatch", culprits)
    assert "ranks 1-2 for each other, from exchange (train.py): rank 1 at line 30" in finding.title
    assert "ranks 0,3 wait behind them" in finding.title


def test_a_ring_of_receives_is_told_as_one() -> None:
    """Each waits for the next, and none of them is the odd one."""
    facts = still({0: RECV, 1: RECV, 2: RECV})
    facts += [_receives_from((rank + 1) % 3, rank) for rank in range(3)]

    finding = report_of(facts).findings[0]

    assert finding.culprit_ranks is None
    assert "ranks 0-2 in a ring, each for the next" in finding.title


def test_who_has_begun_both_sides_of_an_exchange_waits_for_its_partner() -> None:
    """Only the order of the waits has them look like senders; whom each named tells who waits."""
    wait = "c10d::ProcessGroupGloo::SendWork::wait (libtorch_cpu.so:0)"
    stack = f"{wait}\nmix (gossip.py:4)\n<module> (train.py:60)"
    lines = (
        "def mix(peer):",
        "    work = [dist.isend(out, peer), dist.irecv(inbox, peer)]",
        "    for w in work:",
        "        w.wait()",
    )
    facts: list[Fact] = [Excerpt(file="gossip.py", first_line=1, lines=lines)]
    for rank, peer in enumerate((1, 2, 0, 0)):
        facts += native(still({rank: stack}))
        facts += [
            CallArgument(
                op=op, name="peer", value=str(to), function="mix", file="gossip.py", line=2,
                who=Who(rank=rank), source=Source(file="claims.json"),
            )
            for op, to in (("isend", peer), ("irecv", 3))
        ]  # fmt: skip

    finding = report_of(facts).findings[0]

    assert finding.culprit_ranks is None
    assert finding.title.startswith(
        "Ranks 0-3 all wait for messages that they exchange, and none comes: "
        "ranks 0-2 in a ring, each for the next; rank 3 waits behind them"
    )


def test_a_send_and_a_receive_that_face_each_other_and_do_not_end_do_not_fit() -> None:
    """The arguments of one of them name the other; over NCCL the path may be broken instead."""
    facts = still({0: BARRIER, 1: RECV.replace("recv", "send"), 2: RECV, 3: BARRIER})
    nccl = Setting(name="backend", value="nccl", who=Who(), source=Source(file="rank2.log"))

    finding = report_of([*facts, _receives_from(1)]).findings[0]
    looked_once = [fact for fact in facts if fact.look == 0]
    others = [
        report_of([*looked_once, _receives_from(1)]).findings,
        report_of([*facts, _receives_from(0)]).findings,
        report_of([*facts, _receives_from(1), nccl]).findings,
    ]

    assert (finding.category, finding.culprit_ranks) == ("p2p-mismatch", None)
    assert finding.title.startswith("Rank 2 waits to receive and rank 1 to send to it")
    assert all(f.category != "p2p-mismatch" for each in others for f in each)


@pytest.mark.parametrize(("classes", "culprits"), [("ABA", (1,)), ("AAA", None), ("ABC", None)])
def test_batches_of_sends_and_receives_of_another_schedule(
    classes: str, culprits: tuple[int, ...] | None
) -> None:
    """Stages stand at lines of their own; a schedule of its own on one rank posts other calls."""
    schedules = "torch/distributed/pipelining/schedules.py"
    stacks = {
        rank: f"_wait_batch_p2p ({schedules}:683)\n"
        f"Schedule{name}._step_microbatches ({schedules}:{900 + rank})\n"
        f"PipelineScheduleSingle.step ({schedules}:785)\nrun (pipe.py:{17 + rank})\n"
        for rank, name in enumerate(classes)
    }
    report = report_of(still(stacks))

    assert report.verdict == "hung"
    assert report.findings[0].category == "p2p-mismatch"
    assert report.findings[0].culprit_ranks == culprits


@pytest.mark.parametrize(
    ("inner", "signature"),
    [
        ("rpc_sync (torch/distributed/rpc/api.py:842)", "rpc-all-wait"),
        ("wait (torch/futures/__init__.py:80)", "stuck-together"),  # of a collective, perhaps
        ("wait_for (multiprocessing/synchronize.py:313)", "process-barrier-incomplete"),
        ("all_reduce (torch/distributed/distributed_c10d.py:3100)", "stuck-together"),
    ],
)
def test_what_all_wait_for_tells_what_is_missing(inner: str, signature: str) -> None:
    """An answer, for which no thread is left; a process more than there are; or nothing."""
    stack = f"{inner}\ntrain (train.py:40)\n<module> (train.py:60)"

    finding = report_of(still(dict.fromkeys(range(3), stack))).findings[0]

    assert (finding.signature, finding.culprit_ranks) == (signature, None)


@pytest.mark.parametrize(
    ("above", "culprits"), [("        return {}", (0,)), ("    path.touch()", None)]
)
def test_who_is_behind_a_broadcast_was_not_in_it_where_it_may_return_before(
    above: str, culprits: tuple[int, ...] | None
) -> None:
    """Rank 0 sends its settings alone; without the return, the others may have had them."""
    sends = "broadcast (torch/distributed/distributed_c10d.py:2900)\n"
    own = sends + "settings (train.py:11)\nmain (train.py:20)\n<module> (train.py:60)"
    behind = ALL_REDUCE.replace("train (train.py:40)", "main (train.py:21)")
    source = (
        Excerpt(
            file="train.py", first_line=9, lines=("def settings():", above, "    dist.broadcast(x)")
        ),
        Excerpt(
            file="train.py",
            first_line=19,
            lines=("def main():", "    read = settings()", "    dist.all_reduce(x)"),
        ),
    )

    finding = report_of([*still({0: own, 1: behind, 2: behind}), *source]).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("collective-mismatch", culprits)
