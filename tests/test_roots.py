"""Ranks in one broadcast that do not agree on who sends."""

from __future__ import annotations

import json

import pytest
from documents import document
from small_jobs import ALL_REDUCE, BARRIER, BROADCAST, ELSEWHERE, report_of, still

from whyhang.analyzer.facts import Fact, RootArgument, Source, Trust, Who, replace
from whyhang.collectors.stacks.pyspy_json import READER, peers_only

C10D = "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"


def takes_for_root(rank: int, root: int, *, in_default_group: bool = True) -> RootArgument:
    """Say whom a rank takes for the sender."""
    return RootArgument(
        op="broadcast",
        root=root,
        in_default_group=in_default_group,
        who=Who(rank=rank, trust=Trust.ENVIRONMENT),
        source=Source(file=f"rank{rank}.json"),
    )


def job(*roots: int, in_default_group: bool = True) -> list[Fact]:
    """Make a job in which every rank waits in a broadcast from its root."""
    calls = [
        takes_for_root(rank, root, in_default_group=in_default_group)
        for rank, root in enumerate(roots)
    ]
    return [*still(dict.fromkeys(range(len(roots)), BROADCAST)), *calls]


def test_the_rank_that_means_another_sender_is_to_blame() -> None:
    """Three wait for rank 0, one for itself: that one."""
    finding = report_of(job(0, 0, 2, 0)).findings[0]

    assert finding.category == "collective-mismatch"
    assert finding.culprit_ranks == (2,)
    assert finding.affected_ranks == (0, 1, 3)


@pytest.mark.parametrize(("line", "culprits"), [(42, (2,)), (43, None)])
def test_a_call_of_objects_is_one_call_whatever_part_of_it_a_rank_has_come_to(
    line: int, culprits: tuple[int, ...] | None
) -> None:
    """Three scatter from rank 1, which sends the sizes first; another line is another call."""
    stacks = dict.fromkeys(range(4), BROADCAST)
    of_objects = BROADCAST.replace("train.py:42", f"train.py:{line}")
    calls = [takes_for_root(rank, root) for rank, root in enumerate((1, 1, 2, 1))]
    calls[0], calls[3] = (replace(calls[rank], op="scatter") for rank in (0, 3))

    finding = report_of([*still({**stacks, 1: of_objects}), *calls]).findings[0]

    assert (finding.signature, finding.culprit_ranks) == ("root-differs", culprits)


@pytest.mark.parametrize("roots", [(0, 1, 2), (0, 0, 2, 2)])
def test_where_none_is_in_the_majority_none_is_blamed(roots: tuple[int, ...]) -> None:
    """The disagreement is said, and with whom."""
    finding = report_of(job(*roots)).findings[0]

    assert finding.category == "collective-mismatch"
    assert finding.culprit_ranks is None
    assert "from rank 0" in finding.title


@pytest.mark.parametrize(("op", "culprits"), [("scatter", (3,)), ("broadcast", None)])
def test_who_means_a_root_that_has_gone_on_is_to_blame(
    op: str, culprits: tuple[int, ...] | None
) -> None:
    """Rank 0 scatters and waits for rank 3, which means rank 1: that one is elsewhere.

    In a broadcast it may have done its part, and another one not have passed it on.
    """
    stacks = {
        rank: BROADCAST.replace("broadcast", op) if rank in {0, 3} else ALL_REDUCE
        for rank in range(4)
    }
    calls = [replace(takes_for_root(rank, root), op=op) for rank, root in ((0, 0), (3, 1))]

    report = report_of([*still(stacks), *calls])
    finding = next(f for f in report.findings if f.signature == "root-differs")

    assert finding.culprit_ranks == culprits
    assert f"rank 3 in {op} from rank 1" in finding.title


def test_one_root_of_two_calls_is_no_disagreement() -> None:
    """A broadcast from rank 0 beside a reduction to it: the calls differ, the root does not."""
    calls = [takes_for_root(0, 0), replace(takes_for_root(1, 0), op="reduce")]
    other = BROADCAST.replace("broadcast", "reduce").replace(":42", ":44")

    findings = report_of([*still({0: BROADCAST, 1: other}), *calls]).findings

    assert all(finding.signature != "root-differs" for finding in findings)


def test_groups_with_a_sender_each_do_not_disagree() -> None:
    """Two groups of two, each in a broadcast of its own first rank, is how meshes work."""
    findings = report_of(job(0, 0, 2, 2, in_default_group=False)).findings

    assert all(finding.signature != "root-differs" for finding in findings)


def test_a_late_rank_comes_first() -> None:
    """While someone is elsewhere, whom the others take for the sender is not the cause."""
    stacks = {0: BROADCAST, 1: BROADCAST, 2: ELSEWHERE}
    calls = [takes_for_root(0, 0), takes_for_root(1, 1)]

    finding = report_of([*still(stacks), *calls]).findings[0]

    assert finding.culprit_ranks == (2,)


@pytest.mark.parametrize(("passed", "root"), [((1, 3), 2), ((1,), 2), ((1,), 1)])
def test_who_has_passed_the_broadcast_tells_nothing_against_it(
    passed: tuple[int, ...], root: int
) -> None:
    """A broadcast may let some ranks through: two that are left in it disagree."""
    stacks = {0: BROADCAST, 2: BROADCAST, **dict.fromkeys(passed, BARRIER)}
    calls = [takes_for_root(0, 0), takes_for_root(2, root)]

    finding = report_of([*still(stacks), *calls]).findings[0]

    assert finding.signature == "root-differs"
    assert finding.culprit_ranks is None


def test_the_root_is_read_from_the_arguments_of_torchs_own_frame() -> None:
    """What the live collector keeps of a dump is what the reader needs."""
    local = [{"name": "src", "repr": "3"}, {"name": "group", "repr": "None"}]
    frame = {"name": "broadcast", "filename": C10D, "line": 9, "locals": local}
    kept = peers_only(json.dumps([{"pid": 7, "frames": [frame]}]).encode())
    dump = document(kept, "rank1.json", Who(rank=1, trust=Trust.ENVIRONMENT))

    assert READER.sniff(dump)
    (call,) = READER.read(dump)
    assert isinstance(call, RootArgument)
    assert (call.op, call.root, call.in_default_group) == ("broadcast", 3, True)


def test_a_collective_of_objects_names_the_root_in_its_own_arguments() -> None:
    """It gives the call that it makes the number of the root in the group, not its rank."""
    inner = {
        "name": "broadcast",
        "filename": C10D,
        "line": 9,
        "locals": [{"name": "src", "repr": "None"}, {"name": "group_src", "repr": "0"}],
    }
    outer = {
        "name": "broadcast_object_list",
        "filename": C10D,
        "line": 99,
        "locals": [{"name": "src", "repr": "2"}, {"name": "device", "repr": "None"}],
    }
    user = {"name": "suggest", "filename": "t.py", "line": 3, "locals": [{"name": "src"}]}
    kept = peers_only(json.dumps([{"pid": 7, "frames": [inner, outer, user]}]).encode())
    (call,) = READER.read(document(kept, "rank1.json", Who(rank=1, trust=Trust.ENVIRONMENT)))

    assert isinstance(call, RootArgument)
    assert (call.op, call.root) == ("broadcast", 2)
    assert b"device" not in kept


def test_who_has_come_past_a_call_whose_roots_differ_is_not_blamed_beside_it() -> None:
    """Its part was taken by one of the two roots: what it waits in now is an effect."""
    gather = BROADCAST.replace("broadcast", "gather")
    calls = [replace(takes_for_root(rank, rank), op="gather") for rank in (1, 2)]
    report = report_of([*still({0: ALL_REDUCE, 1: gather, 2: gather}), *calls])

    assert report.findings[0].signature == "root-differs"
    assert not [finding for finding in report.findings if finding.culprit_ranks]
