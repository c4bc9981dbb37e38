"""What a report says in the formats of other tools, each read back by a reader of that format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pydot
import pytest
from junitparser import Failure, JUnitXml, Skipped
from small_jobs import ALL_REDUCE, ELSEWHERE, report_of, still

from whyhang.analyzer.exports.stacks import shown_frame
from whyhang.analyzer.facts import unfold
from whyhang.analyzer.report import (
    Event,
    Evidence,
    Finding,
    Job,
    Lane,
    LaneCall,
    Location,
    Report,
    StackGroup,
    Timeline,
    WaitEdge,
    WaitNode,
    Waits,
)
from whyhang.analyzer.reports.faces import FACES, face_of

DATA = Path(__file__).parent / "data"
SPEEDSCOPE = json.loads((DATA / "speedscope.schema.json").read_text())
SARIF = json.loads((DATA / "sarif-2.1.0.schema.json").read_text())
"""Without its descriptions."""

HOSTILE = "]]> <b>&\"'; `x` \U0001f525 \ufffe\x0b\n}"


@pytest.fixture(scope="module")
def stopped() -> Report:
    """Give the report of four ranks, one of them elsewhere."""
    return report_of(still({0: ALL_REDUCE, 1: ALL_REDUCE, 2: ELSEWHERE, 3: ALL_REDUCE}))


def finding(**changes: Any) -> Finding:
    """Make a finding of which only some fields matter."""
    fields: dict[str, Any] = {
        "signature": "gpu-oom",
        "category": "gpu-oom",
        "confidence": 0.9,
        "title": "Rank 3 ran out of GPU memory",
        "explanation": "",
    }
    return Finding(**(fields | changes))


def call(seq: int, start: float | None, **changes: Any) -> LaneCall:
    """Make a completed call of one group."""
    fields: dict[str, Any] = {
        "name": f"all_reduce #{seq}",
        "group": HOSTILE,
        "op": "all_reduce",
        "seq": seq,
        "state": "completed",
        "start": start,
    }
    return LaneCall(**(fields | changes))


EVERYTHING = Report(
    verdict="failed",
    headline=HOSTILE,
    job=Job(),
    findings=(
        finding(
            title=HOSTILE,
            explanation=HOSTILE,
            location=Location(file=f"/srv/a b/{HOSTILE}.py", line=7, function=HOSTILE),
            evidence=(Evidence(source=f"{HOSTILE}.log", quote=HOSTILE, line=3, rank=3),),
            culprit_ranks=(3,),
            remedies=(HOSTILE,),
            runbook_url="https://wiki.example.org/a b?q=1#x",
        ),
        finding(signature="store-gone", caused_by=0, kind="consequence", confidence=0.4),
        finding(signature="warn", kind="noise", location=Location(file="train.py")),
        finding(confidence=0.4, location=Location(file="train.py", line=0)),
    ),
    stack_groups=(
        StackGroup(ranks=(0, 1), frames=(f"f;{HOSTILE} (train.py:3)", "<module> (train.py:9)")),
        StackGroup(ranks=(), names=("DP0",), frames=("poll",), waits_for=HOSTILE, thread="worker"),
    ),
    story=(
        Event(seconds=2.5, ranks=(3,), says=HOSTILE, source=HOSTILE, line=3, finding=0),
        Event(seconds=None, ranks=(3,), says="of unknown time", source="a.log"),
        Event(seconds=4.0, ranks=(), says="of nobody", source="a.log"),
    ),
    timeline=Timeline(
        start=1_700_000_000.0,
        end=9.0,
        lanes=(
            Lane(
                ranks="0-2",
                count=4,
                names=(HOSTILE,),
                state="waiting",
                activity=HOSTILE,
                calls=(
                    call(1, 1.0, latest=1.5),
                    call(2, 2.0, state="pending", end=5.0),
                    call(3, 3.0, state="pending"),
                    call(4, 3.0),
                    call(5, None, state="pending"),
                ),
            ),
            Lane(ranks="3", count=1, state="exited", activity=HOSTILE, events=(0, 1)),
        ),
    ),
    waits=Waits(
        nodes=(
            WaitNode(kind="ranks", says=HOSTILE, ranks="0-2", count=3, state="waiting"),
            WaitNode(kind="call", says=HOSTILE + "x" * 999),
            WaitNode(
                kind="ranks", says="\\", names=(HOSTILE,) * 5, count=5, role="root", culprit=True
            ),
        ),
        edges=(WaitEdge(source=0, target=1), WaitEdge(source=1, target=2, certain=False)),
    ),
    gaps=(HOSTILE,),
)
NOTHING = Report(verdict="inconclusive", headline="Nothing to see", job=Job())


@pytest.fixture(params=["stopped", "everything", "nothing"])
def report(request: pytest.FixtureRequest, stopped: Report) -> Report:
    """Give an ordinary report, one with everything in it that a format may trip over, an empty."""
    return {"stopped": stopped, "everything": EVERYTHING, "nothing": NOTHING}[request.param]


def test_speedscope_opens_the_stacks(report: Report) -> None:
    """The file keeps speedscope's own schema, and each stack weighs as much as its ranks."""
    document = json.loads(FACES["speedscope"].render(report))
    jsonschema.validate(document, SPEEDSCOPE)
    for profile in document["profiles"]:
        assert profile["endValue"] == sum(profile["weights"])
        assert len(profile["samples"]) == len(profile["weights"])
    used = {n for profile in document["profiles"] for sample in profile["samples"] for n in sample}
    assert used == set(range(len(document["shared"]["frames"])))


def test_speedscope_knows_file_and_line(stopped: Report) -> None:
    """A frame is a function with its place; ranks that stand together are one stack."""
    document = json.loads(FACES["speedscope"].render(stopped))
    frames = document["shared"]["frames"]
    assert {"name": "evaluate", "file": "evaluate.py", "line": 33} in frames
    [profile] = document["profiles"]
    assert sorted(profile["weights"]) == [1, 3]
    assert [frames[sample[0]]["name"] for sample in profile["samples"]] == ["<module>"] * 2


def test_folded_lines_are_stacks_and_counts(report: Report) -> None:
    """Each line is frames between semicolons, a blank and a number, as flamegraph.pl reads it."""
    lines = FACES["folded"].render(report).decode().splitlines()
    assert len(lines) == len(report.stack_groups)
    for line, group in zip(lines, report.stack_groups, strict=True):
        stack, _, count = line.rpartition(" ")
        assert int(count) == max(len(group.ranks), len(group.names))
        assert len(stack.split(";")) == len(group.frames) + 2


@pytest.mark.parametrize(
    ("frame", "parts"),
    [
        ("step (train.py:40)", ("step", "train.py", 40)),
        (
            "c10d::wait (torch/lib/libtorch_cpu.so)",
            ("c10d::wait", "torch/lib/libtorch_cpu.so", None),
        ),
        ("operator() (x.cpp:3)", ("operator()", "x.cpp", 3)),
        ("f (a (1)/t.py:3)", ("f (a (1)/t.py:3)", "", None)),
        ("poll", ("poll", "", None)),
    ],
)
def test_a_frame_is_split_into_its_parts(frame: str, parts: tuple[str, str, int | None]) -> None:
    """What is not written as whyhang writes frames stays a name."""
    assert (shown_frame(frame).function, shown_frame(frame).file, shown_frame(frame).line) == parts


def test_sarif_keeps_its_schema(report: Report) -> None:
    """The schema of SARIF 2.1.0 as its SDK ships it; rules and results fit each other."""
    log = json.loads(FACES["sarif"].render(report))
    jsonschema.Draft202012Validator(SARIF, format_checker=jsonschema.FormatChecker()).validate(log)
    [run] = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(set(rules)) == len(rules)
    assert len(run["results"]) == len(report.findings)
    for result in run["results"]:
        assert (result["kind"] == "fail") or result["level"] == "none"
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert result["message"]["text"].strip()
        for each in (*result.get("locations", ()), *result["relatedLocations"]):
            uri = each["physicalLocation"]["artifactLocation"]["uri"]
            assert uri.isascii()
            assert not set(' "<>\\^`{|}') & set(uri)


def test_sarif_levels_tell_causes_from_effects() -> None:
    """A certain cause is an error, a possible one a warning, effects and noise are notes."""
    results = json.loads(FACES["sarif"].render(EVERYTHING))["runs"][0]["results"]
    assert [result["level"] for result in results] == ["error", "note", "note", "warning"]


def test_junit_counts_what_failed(report: Report) -> None:
    """The file is well-formed whatever it quotes; the verdict and each cause are cases."""
    suites = JUnitXml.fromstring(FACES["junit"].render(report))
    [suite] = list(suites)
    cases = list(suite)
    assert suite.tests == len(cases) == len(report.findings) + 1
    failed = [case for case in cases if any(isinstance(r, Failure) for r in case.result)]
    skipped = [case for case in cases if any(isinstance(r, Skipped) for r in case.result)]
    assert (suite.failures, suite.skipped) == (len(failed), len(skipped))
    causes = [f for f in report.findings if f.caused_by is None and f.kind == "cause"]
    assert len(failed) == len(causes) + (report.verdict in {"hung", "failed"})


def test_a_healthy_job_passes_its_tests() -> None:
    """Nothing fails where nothing is wrong."""
    healthy = finding(signature="healthy", category="healthy", title="The job moves")
    fine = Report(verdict="healthy", headline="Fine", job=Job(), findings=(healthy,))
    [suite] = list(JUnitXml.fromstring(FACES["junit"].render(fine)))
    assert (suite.failures, suite.skipped) == (0, 0)
    [result] = json.loads(FACES["sarif"].render(fine))["runs"][0]["results"]
    assert (result["kind"], result["level"]) == ("pass", "none")


def test_a_trace_has_a_track_for_each_rank(report: Report) -> None:
    """Each track is named once, and what it shows lies one inside the other or one after it."""
    document = json.loads(FACES["trace"].render(report))
    named = [e["tid"] for e in document["traceEvents"] if e["name"] == "thread_name"]
    assert len(named) == len(set(named)) >= len(report.ranks)
    for tid in named:
        open_: list[float] = []
        for event in document["traceEvents"]:
            if event["tid"] != tid or event["ph"] != "X":
                continue
            assert event["ts"] >= 0
            assert event["dur"] >= 0
            while open_ and open_[-1] <= event["ts"]:
                open_.pop()
            assert all(end >= event["ts"] + event["dur"] for end in open_)
            open_.append(event["ts"] + event["dur"])
    assert {event["ph"] for event in document["traceEvents"]} <= {"M", "X", "i"}


def test_a_trace_shows_calls_and_events_where_they_were() -> None:
    """In microseconds; what is pending lasts to the end, what has no time is not drawn in time."""
    events = json.loads(FACES["trace"].render(EVERYTHING))["traceEvents"]
    tracks = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    of_rank_0 = [e for e in events if tracks.get(e["tid"]) == "rank 0" and e["ph"] == "X"]
    spans = {e["name"]: (e["ts"], e["ts"] + e["dur"]) for e in of_rank_0}
    assert spans == {
        "all_reduce #1": (1_000_000, 2_000_000),
        "all_reduce #2": (2_000_000, 5_000_000),
        "all_reduce #3": (3_000_000, 9_000_000),
        "all_reduce #4": (3_000_000, 9_000_000),
    }
    instants = [(tracks.get(e["tid"]), e["ts"], e["s"]) for e in events if e["ph"] == "i"]
    assert instants == [("rank 3", 2_500_000, "t"), (None, 4_000_000, "g")]


def test_many_ranks_are_tracks_of_groups() -> None:
    """Ten thousand ranks that did the same are one track."""
    [waiting, gone] = EVERYTHING.timeline.lanes
    lanes = (msgspec.structs.replace(waiting, ranks="0-9998", count=9999, names=()), gone)
    timeline = msgspec.structs.replace(EVERYTHING.timeline, lanes=lanes)
    large = msgspec.structs.replace(EVERYTHING, timeline=timeline)
    events = json.loads(FACES["trace"].render(large))["traceEvents"]
    names = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert names == {"9999 ranks: 0-9998", "rank 3"}


def test_the_wait_graph_is_read_by_graphviz(report: Report) -> None:
    """Every node and edge of the report is one of the graph, whatever the labels hold."""
    [graph] = pydot.graph_from_dot_data(FACES["dot"].render(report).decode()) or [None]
    assert graph is not None
    nodes = [node for node in graph.get_nodes() if node.get_name() not in {"node", "edge", "graph"}]
    assert len(nodes) == len(report.waits.nodes)
    edges = [(edge.get_source(), edge.get_destination()) for edge in graph.get_edges()]
    assert edges == [(f"n{edge.source}", f"n{edge.target}") for edge in report.waits.edges]
    assert all(len(node.get_label()) < 600 for node in nodes)


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("", ()),
        ("3", (3,)),
        ("0-3,7", (0, 1, 2, 3, 7)),
        ("x,2-,-3,1-2", (2, 1)),
        ("0-2, 5 and 7", (0, 1, 2, 5, 7)),
        ("9" * 99, ()),
    ],
)
def test_folded_ranks_are_read_back(text: str, ranks: tuple[int, ...]) -> None:
    """What no job can have is left out."""
    assert unfold(text) == ranks
    assert len(unfold("0-999999999")) < 1_000_000


@pytest.mark.parametrize(
    ("name", "face"),
    [
        ("a/report.json", "json"),
        ("x.speedscope.json", "speedscope"),
        ("speedscope.json", "speedscope"),
        ("JUNIT.XML", "junit"),
        ("report.xml", None),
        ("run.sarif.json", "sarif"),
        ("json", None),
        (".json", None),
        ("x.folded", "folded"),
    ],
)
def test_the_end_of_a_name_tells_the_format(name: str, face: str | None) -> None:
    """The longest end counts; what means nothing is no format."""
    chosen = face_of(name)
    assert (chosen and chosen.name) == face


def test_ten_thousand_ranks_take_no_time() -> None:
    """Each export of a large job is there in well under a second."""
    ranks = tuple(range(10_000))
    groups = tuple(
        StackGroup(ranks=ranks[n::500], frames=tuple(f"f{k} (t.py:{n})" for k in range(30)))
        for n in range(500)
    )
    large = msgspec.structs.replace(EVERYTHING, stack_groups=groups)
    for name in ("speedscope", "folded", "sarif", "junit"):
        assert len(FACES[name].render(large)) > 1000
