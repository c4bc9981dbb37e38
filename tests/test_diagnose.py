"""From a few stacks to the diagnosis: who is blamed for what, and who is not."""

from __future__ import annotations

import pytest
from small_jobs import (
    ALL_REDUCE,
    BARRIER,
    BROADCAST,
    ELSEWHERE,
    INIT,
    LOADER,
    WORKER,
    dump,
    process,
    report_of,
    still,
)

from whyhang.analyzer.facts import Excerpt, Role, Who, replace


def test_the_rank_in_another_function_is_blamed() -> None:
    """A rank that waits for nobody while the others wait in a collective is the culprit."""
    report = report_of(still({0: ALL_REDUCE, 1: ALL_REDUCE, 2: ELSEWHERE, 3: ALL_REDUCE}))

    assert report.verdict == "hung"
    assert report.findings[0].category == "missing-rank-in-collective"
    assert report.findings[0].culprit_ranks == (2,)
    assert report.findings[0].affected_ranks == (0, 1, 3)
    assert report.findings[0].location is not None
    assert report.findings[0].location.function == "evaluate"


def test_a_blocked_dataloader_names_the_line_in_the_worker() -> None:
    """The location of a blocked DataLoader is where its busy worker stands."""
    facts = still({0: ALL_REDUCE, 1: LOADER})
    worker = replace(
        process(1, pid=4000), role=Role.DATALOADER_WORKER, ppid=1001, who=Who(pid=4000)
    )
    facts += [worker, dump(None, WORKER, pid=4000)]

    finding = report_of(facts).findings[0]

    assert finding.category == "dataloader-blocked"
    assert finding.culprit_ranks == (1,)
    assert finding.location is not None
    assert (finding.location.function, finding.location.line) == ("__getitem__", 12)


def test_the_minority_of_two_operations_is_blamed() -> None:
    """Three ranks in all_reduce and one in broadcast are a mismatch, and the one is named."""
    finding = report_of(
        still({0: ALL_REDUCE, 1: BROADCAST, 2: ALL_REDUCE, 3: ALL_REDUCE})
    ).findings[0]

    assert finding.category == "collective-mismatch"
    assert finding.culprit_ranks == (1,)
    assert finding.collective is not None
    assert (finding.collective.op, finding.collective.others) == ("broadcast", "all_reduce")


@pytest.mark.parametrize(
    ("branch", "culprits"), [("    if True:", (1,)), ("    with timer():", None)]
)
def test_the_root_of_a_broadcast_may_wait_for_one_of_those_past_it(
    branch: str, culprits: tuple[int, ...] | None
) -> None:
    """All come through the call of the one rank: some have done their part, one left it out."""
    further = ALL_REDUCE.replace("train (train.py:40)", "train (train.py:44)")
    lines = (branch, "        dist.broadcast(x, src=1)", "", "    dist.all_reduce(x)")
    source = Excerpt(file="train.py", first_line=41, lines=lines)
    module = Excerpt(file="train.py", first_line=60, lines=("train()",))
    facts = still({0: further, 1: BROADCAST, 2: further, 3: further})

    finding = report_of([*facts, source, module]).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("collective-mismatch", culprits)


def test_a_tie_names_nobody() -> None:
    """Two ranks against two: the mismatch is said, nobody is blamed."""
    finding = report_of(still({0: ALL_REDUCE, 1: BROADCAST, 2: ALL_REDUCE, 3: BROADCAST})).findings[
        0
    ]

    assert finding.category == "collective-mismatch"
    assert finding.culprit_ranks is None


@pytest.mark.parametrize(("mine", "culprits"), [("row", None), ("group", (2,))])
def test_a_group_of_some_ranks_names_nobody(mine: str, culprits: tuple[int, ...] | None) -> None:
    """Rank 2 may wait there for one that has gone on; ``group`` may be any, that of all as well."""
    inside = f"{ALL_REDUCE.rstrip()}\nmain (train.py:54)"
    source = (
        Excerpt(file="train.py", first_line=40, lines=(f"    dist.all_reduce(x, group={mine})",)),
        Excerpt(
            file="train.py", first_line=54, lines=("    share(x)", "    dist.barrier(group=pg)")
        ),
    )
    facts = still({0: BARRIER, 1: BARRIER, 2: inside, 3: BARRIER})

    finding = report_of([*facts, *source]).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("collective-mismatch", culprits)


@pytest.mark.parametrize(
    ("head", "category"),
    [
        ("    for batch in loader(rank, world):", "uneven-inputs"),
        ("    for parameter in model.parameters():", "collective-mismatch"),
        ("    if rank == 2:", "collective-mismatch"),
    ],
)
def test_a_rank_still_in_a_loop_over_data_has_more_of_it(head: str, category: str) -> None:
    """The many are in the barrier behind the loop: the one that is still inside is named."""
    in_loop = ALL_REDUCE.replace("train (train.py:40)", "main (train.py:40)")
    source = (
        Excerpt(file="train.py", first_line=39, lines=(head, "        dist.all_reduce(grad)")),
        Excerpt(file="train.py", first_line=55, lines=("    dist.barrier()",)),
    )
    facts = still({0: BARRIER, 1: BARRIER, 2: in_loop, 3: BARRIER})

    finding = report_of([*facts, *source]).findings[0]

    assert (finding.category, finding.culprit_ranks) == (category, (2,))


@pytest.mark.parametrize(("others", "culprits"), [(2, (2,)), (1, None)])
def test_a_rank_that_compiles_alone_is_distinguished(
    others: int, culprits: tuple[int, ...] | None
) -> None:
    """A collective made while compiling meets no call of ranks that have compiled before."""
    compiling = BROADCAST.replace(
        "train (train.py:42)",
        "tuned (train.py:12)\n_compile (torch/_dynamo/convert_frame.py:900)\ntrain (train.py:42)",
    )
    facts = still({**dict.fromkeys(range(others), ALL_REDUCE), others: compiling})

    finding = report_of(facts).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("compile-divergence", culprits)
    assert "compiling alone and waits in broadcast at tuned (train.py:12)" in finding.title


def test_ranks_may_meet_at_a_barrier_of_multiprocessing() -> None:
    """It is no lock of their own: the one that is in another barrier is where to look.

    Also where they were seen to come there, and then to rest.
    """
    meets = """
Condition.wait (multiprocessing/synchronize.py:268)
Condition.wait_for (multiprocessing/synchronize.py:320)
Barrier._wait (threading.py:732)
Barrier.wait (threading.py:697)
learn (train.py:21)
<module> (train.py:60)
"""
    stacks = {0: meets, 1: meets, 2: meets, 3: BARRIER}
    come_since = [
        fact
        for rank, stack in stacks.items()
        for look in range(4)
        for fact in (
            process(rank, look=look, woke=9 * min(look, 1)),
            dump(rank, stack if look else "setup (train.py:3)\n<module> (train.py:60)", look=look),
        )
    ]
    for facts in (still(stacks), come_since):
        finding = report_of(facts).findings[0]

        assert (finding.category, finding.culprit_ranks) == ("collective-mismatch", (3,))
        assert "ranks 0-2 in a meeting of processes" in finding.title


def test_a_debugger_of_the_programs_own_is_one() -> None:
    """A class made from Pdb waits for somebody to connect; no library's frame tells."""
    waits = """
accept (socket.py:294)
RemotePdb.__init__ (train.py:12)
check (train.py:22)
<module> (train.py:60)
"""
    finding = report_of(still({0: ALL_REDUCE, 1: ALL_REDUCE, 2: waits})).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("rank-stopped", (2,))
    assert "in a debugger" in finding.title


def test_without_the_source_a_barrier_further_down_is_a_mismatch() -> None:
    """The barrier may be the bug itself: nothing is said of a loop that nobody saw."""
    in_loop = ALL_REDUCE.replace("train (train.py:40)", "main (train.py:40)")

    finding = report_of(still({0: in_loop, 1: in_loop, 2: BARRIER, 3: in_loop})).findings[0]

    assert finding.category == "collective-mismatch"
    assert finding.culprit_ranks == (2,)


def test_a_stopped_process_is_blamed_whatever_its_stack_says() -> None:
    """A rank in state T is the cause even inside the same collective as the others."""
    facts = still({0: ALL_REDUCE, 1: ALL_REDUCE, 2: ALL_REDUCE})
    facts = [replace(f, state="T") if f.who.rank == 1 and hasattr(f, "state") else f for f in facts]

    finding = report_of(facts).findings[0]

    assert finding.category == "rank-stopped"
    assert finding.culprit_ranks == (1,)


@pytest.mark.parametrize(
    ("call", "launcher", "category"),
    [
        (BROADCAST, True, "dataloader-blocked"),
        (ALL_REDUCE, True, "rank-died"),
        (BROADCAST, False, "rank-died"),
    ],
)
def test_who_has_done_its_part_of_a_broadcast_may_have_ended(
    call: str, launcher: bool, category: str
) -> None:
    """Rank 1 has not come; an all_reduce nobody leaves before it has, a broadcast some do.

    Had rank 2 failed, a launcher would have ended the others.
    """
    facts = still({0: call, 1: LOADER}, world=3)
    if launcher:
        agent = replace(process(9), command="torchrun train.py", role=Role.LAUNCHER)
        facts.append(replace(agent, who=Who(pid=agent.who.pid)))

    assert report_of(facts).findings[0].category == category


def test_a_rank_without_process_died() -> None:
    """On a host whose processes were read, an expected rank that is not there has died."""
    report = report_of(still({0: ALL_REDUCE, 1: ALL_REDUCE, 3: ALL_REDUCE}, world=4))

    assert report.findings[0].category == "rank-died"
    assert report.findings[0].culprit_ranks == (2,)
    assert next(r for r in report.ranks if r.rank == 2).state == "missing"


def test_absent_evidence_is_no_guilt() -> None:
    """With stacks of three of 64 ranks, all in one collective, nobody is blamed."""
    facts = [dump(rank, ALL_REDUCE) for rank in (0, 1, 2)]

    report = report_of(facts)

    assert all(finding.culprit_ranks is None for finding in report.findings)
    assert report.verdict in {"hung", "inconclusive"}


def test_a_rank_late_for_init_is_named() -> None:
    """While the others wait in the rendezvous, the one elsewhere is the missing rank."""
    finding = report_of(still({0: INIT, 1: INIT, 2: ELSEWHERE})).findings[0]

    assert finding.category == "init-missing-rank"
    assert finding.culprit_ranks == (2,)
