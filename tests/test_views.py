"""What every face draws: the wait graph, the lanes of the timeline, the lines around evidence."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pytest
from log_docs import diagnosed
from small_jobs import ALL_REDUCE, BROADCAST, ELSEWHERE, report_of, still
from test_story import eight_ranks

from whyhang.analyzer.cli import main
from whyhang.analyzer.facts import Call, CallState, Fact, Group, Source, Track, Trust, Who
from whyhang.analyzer.report import Report, Waits
from whyhang.analyzer.reports.lines_around import with_lines_around

SAMPLES = Path(__file__).parents[1] / "samples"


def paths(waits: Waits) -> set[tuple[str, str, str]]:
    """Return (ranks, call, ranks) for all that wait through a call for others."""
    called = {
        (edge.source, waits.nodes[edge.target].says, other.target)
        for edge in waits.edges
        for other in waits.edges
        if other.source == edge.target and waits.nodes[edge.target].kind == "call"
    }
    return {(waits.nodes[a].ranks, call, waits.nodes[b].ranks) for a, call, b in called}


def test_ranks_that_wait_alike_are_one_node_and_the_root_is_marked() -> None:
    report = report_of(still({0: ALL_REDUCE, 1: ALL_REDUCE, 2: ELSEWHERE, 3: ALL_REDUCE}))
    assert paths(report.waits) == {("0-1,3", "all_reduce", "2")}
    (root,) = (node for node in report.waits.nodes if node.role == "root")
    assert (root.ranks, root.count, root.culprit) == ("2", 1, True)


def test_ranks_in_two_operations_wait_for_each_other_perhaps() -> None:
    report = report_of(still({0: ALL_REDUCE, 1: ALL_REDUCE, 2: BROADCAST}))
    assert {node.role for node in report.waits.nodes if node.kind == "ranks"} == {"cycle"}
    assert paths(report.waits) == {("0-1", "all_reduce", "2"), ("2", "broadcast", "0-1")}
    assert not all(edge.certain for edge in report.waits.edges)


def ring(size: int) -> list[Fact]:
    """Rank n waits to receive from rank n + 1, and all are in one group with a common call."""
    world = Group(name="0", ranks=tuple(range(size)), description="default_pg")
    done = Call(op="all_reduce", seq=4, state=CallState.COMPLETED, created_at=100.0, order=0)
    return [
        Track(
            who=Who(rank=rank, trust=Trust.FLIGHT_RECORDER),
            group=world,
            kind="flight-recorder",
            source=Source(file=f"dump_{rank}"),
            enqueued=4,
            completed=4,
            calls=(
                msgspec.structs.replace(done, created_at=100.0 + rank / size),
                Call(
                    op="recv", seq=1, state=CallState.STARTED, p2p=True, order=1,
                    peer=(rank + 1) % size, created_at=102.0,
                ),
            ),
        )
        for rank in range(size)
    ]  # fmt: skip


@pytest.mark.parametrize("size", [4, 400])
def test_a_large_job_is_few_nodes_and_lanes(size: int) -> None:
    report = report_of(ring(size))
    assert {node.role for node in report.waits.nodes if node.kind == "ranks"} == {"cycle"}
    assert len(report.waits.nodes) <= 60
    assert sum(node.count for node in report.waits.nodes) == size
    assert len(report.timeline.lanes) <= 24
    assert sum(lane.count for lane in report.timeline.lanes) == size


def test_the_last_common_call_and_the_lanes_have_times_from_one_start() -> None:
    timeline = report_of(ring(4)).timeline
    assert timeline.last_common is not None
    assert timeline.last_common.name == "all_reduce #4 of default_pg"
    assert timeline.start is not None
    assert timeline.last_common.start == pytest.approx(100 - timeline.start, abs=1e-3)
    last = timeline.lanes[0].calls[-1]
    assert (last.op, last.state) == ("recv", "pending")
    assert last.start == pytest.approx(102 - timeline.start, abs=1e-3)


def test_process_groups_say_who_is_behind(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    bundle = SAMPLES / "fr-groups-in-opposite-order" / "bundle.tar.zst"
    assert main([str(bundle), "--format", "json"]) == 0
    report = msgspec.json.decode(capsysbinary.readouterr().out, type=Report)
    behind = {group.name: (group.completed, group.entered, group.behind) for group in report.groups}
    assert behind == {"statistics": (6, 7, "0-2"), "weights": (6, 7, "3")}
    assert {node.role for node in report.waits.nodes if node.kind == "ranks"} == {"cycle"}


def test_lanes_carry_the_events_of_their_ranks() -> None:
    report = diagnosed(eight_ranks())
    lanes = {
        lane.ranks: [report.story[n].ranks for n in lane.events] for lane in report.timeline.lanes
    }
    assert (3,) in lanes["3"]
    assert report.timeline.lanes[0].culprit
    (world,) = report.groups
    assert (world.behind, world.unseen) == ("", "3")


@pytest.mark.parametrize("line", [1, 2, 900, 1000])
def test_the_lines_around_are_those_of_the_file(line: int) -> None:
    text = [f"line {n} says {'x' * 2000 if n == 400 else n}" for n in range(1, 1001)]
    report = with_lines_around(
        _citing("a.log", line), lambda _: io.BytesIO("\n".join(text).encode())
    )
    (around,) = report.lines_around
    assert around.lines[line - around.first] == text[line - 1]
    assert around.first == max(1, line - 4)
    assert len(around.lines) == min(1000, line + 4) - around.first + 1


def test_secrets_beside_a_cited_line_stay_behind() -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\n" + f"{'Qx7/' * 16}\n" * 6 + "Zm9v\n"
    text = f"{key}boom\nlogin --token=s3cretvalue123 ok\n".encode()
    report = with_lines_around(_citing("a.log", 9), lambda _: io.BytesIO(text))
    shown = "\n".join(report.lines_around[0].lines)
    assert "boom" in shown
    assert not any(secret in shown for secret in ("Qx7/", "Zm9v", "s3cret"))


@pytest.mark.parametrize("data", [None, b"", b"one\n", b"\0\0\n" * 20])
def test_a_file_that_is_gone_short_or_binary_gives_no_lines(data: bytes | None) -> None:
    def opened(_: str) -> io.BytesIO:
        if data is None:
            raise OSError("stale file handle")
        return io.BytesIO(data)

    assert with_lines_around(_citing("a.log", 9), opened).lines_around == ()


def _citing(file: str, line: int) -> Report:
    report = report_of(still({0: ALL_REDUCE, 1: ELSEWHERE}))
    piece = msgspec.structs.replace(report.findings[0].evidence[0], source=file, line=line)
    finding = msgspec.structs.replace(report.findings[0], evidence=(piece,))
    return msgspec.structs.replace(report, findings=(finding,), story=())


def test_all_in_one_call_means_all() -> None:
    """Where a rank was not seen, nobody is known to be missing, and that is another thing."""
    stacks = dict.fromkeys(range(3), ALL_REDUCE)
    (whole,) = (node for node in report_of(still(stacks)).waits.nodes if node.kind == "call")
    assert whole.says == "all_reduce: all are in it"
    report = report_of(still(stacks, world=4))
    (unseen,) = (node for node in report.waits.nodes if node.ranks == "3")
    assert (unseen.state, unseen.role) in {("unreachable", ""), ("missing", "missing")}


def test_a_lock_that_processes_share_is_waited_for(
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    """Who wants it is no root: somebody has it, and here that one waits in a barrier."""
    bundle = SAMPLES / "shared-lock-in-barrier" / "bundle.tar.zst"
    assert main([str(bundle), "--format", "json"]) == 0
    waits = msgspec.json.decode(capsysbinary.readouterr().out, type=Report).waits
    assert {(node.ranks, node.role) for node in waits.nodes if node.kind == "ranks"} == {
        ("0,2", "cycle"),
        ("1", "cycle"),
    }
