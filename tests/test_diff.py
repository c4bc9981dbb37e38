"""Two reports compared: of one job at two times, and of two incidents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from small_jobs import ALL_REDUCE, BARRIER, ELSEWHERE, report_of, still

from whyhang.analyzer.cli import main
from whyhang.analyzer.report import Evidence, Finding, Job, ProcessGroup, RankRow, Report, to_json
from whyhang.analyzer.reports.comparison.compare import compare

NAMES = ("a.json", "b.json")


def stopped(stacks: Mapping[int, str], *, host: str = "n1", first: int = 100) -> Report:
    """Report on ranks with these stacks; process ids start at ``first``."""
    report = report_of(still(dict(stacks)))
    rows = tuple(
        msgspec.structs.replace(row, host=host, pid=first + (row.rank or 0)) for row in report.ranks
    )
    return msgspec.structs.replace(report, ranks=rows)


BEFORE = stopped({0: ALL_REDUCE, 1: ALL_REDUCE, 2: ELSEWHERE, 3: ALL_REDUCE})


def test_a_job_that_stands_still() -> None:
    """The same twice: nothing moved, every rank is among those that stayed."""
    comparison = compare(BEFORE, BEFORE, NAMES)
    assert comparison.same_job
    assert comparison.headline == "Nothing moved: all 4 ranks stand where they stood."
    assert {each.ranks for each in comparison.ranks} == {"0-1,3", "2"}
    assert all(each.before == each.after for each in comparison.ranks)
    assert [change.status for change in comparison.findings] == ["both"]


def test_who_moved_and_who_did_not() -> None:
    """Ranks that made the same move are one row, in front of those that stayed."""
    after = stopped({0: ALL_REDUCE, 1: BARRIER, 2: ELSEWHERE, 3: BARRIER})
    comparison = compare(BEFORE, after, NAMES)
    assert comparison.headline.startswith("2 of 4 ranks moved (1,3)")
    first = comparison.ranks[0]
    assert first.ranks == "1,3"
    assert "all_reduce" in first.before
    assert "barrier" in first.after
    assert [each.ranks for each in comparison.ranks[1:]] == ["0", "2"]


def test_calls_that_went_on_are_progress() -> None:
    """Ranks that stand at the same line again are moving if their sequence numbers do."""

    def at(entered: int) -> Report:
        group = ProcessGroup(name="default_pg", ranks="0-3", size=4, completed=entered - 1)
        return msgspec.structs.replace(
            BEFORE, groups=(msgspec.structs.replace(group, entered=entered),)
        )

    comparison = compare(at(18), at(21), NAMES)
    assert "calls went on in default_pg" in comparison.headline
    assert comparison.groups[0].entered == (18, 21)
    assert "went on" not in compare(at(18), at(18), NAMES).headline


def test_ranks_that_came_and_went() -> None:
    """A rank that only one report has was not seen in the other."""
    after = stopped({0: ALL_REDUCE, 1: ALL_REDUCE, 2: ELSEWHERE, 4: ALL_REDUCE})
    moves = {each.ranks: (each.before, each.after) for each in compare(BEFORE, after, NAMES).ranks}
    assert moves["4"][0] == "not seen"
    assert moves["4"][1].startswith("waiting")


def test_two_incidents_of_one_cause() -> None:
    """The same signature, place, frames and host are what is alike."""
    other = stopped({0: ALL_REDUCE, 1: ELSEWHERE, 2: ALL_REDUCE}, first=9000)
    comparison = compare(BEFORE, other, NAMES)
    assert not comparison.same_job
    alike = {each.kind for each in comparison.alike if each.same}
    assert {"signature", "place", "frames", "host"} <= alike
    for words in ("signature", "place in the code", "frames", "host"):
        assert f"the same {words}" in comparison.headline


def test_two_incidents_that_have_nothing_in_common() -> None:
    """What tells them apart is said of both."""
    other = stopped({0: ALL_REDUCE, 1: BARRIER}, host="n9", first=9000)
    comparison = compare(BEFORE, other, NAMES)
    differs = {each.kind: each.says for each in comparison.alike if not each.same}
    assert " in the first, " in differs["signature"]
    assert comparison.headline == f"Two incidents that are not alike: {differs['signature']}."
    assert {change.status for change in comparison.findings} == {"new", "gone"}


def test_a_finding_that_is_no_cause_is_in_common() -> None:
    """Harmless or an effect: the same finding and its line are not nothing."""
    line = Evidence(source="a.log", quote="[rank1] heartbeat late", line=7, rank=1)
    finding = Finding(
        signature="late-beat",
        category="unknown",
        confidence=0.6,
        title="t",
        explanation="",
        culprit_ranks=(1,),
        evidence=(line,),
        kind="noise",
    )
    one = Report(verdict="inconclusive", headline="x", job=Job(), findings=(finding,))
    comparison = compare(one, one, NAMES, same_job=False)
    assert comparison.headline == "Two incidents with the same finding and the same line."


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"hosts": ("n1",), "world_size": 2}, {"hosts": ("n1",), "world_size": 2}, True),
        ({"hosts": ("n1",), "world_size": 2}, {"hosts": ("n2",), "world_size": 2}, False),
        ({"world_size": 2}, {"world_size": 2}, False),
    ],
)
def test_without_processes_hosts_tell(one: Any, other: Any, same: bool) -> None:
    """Of logs alone: the same hosts and world size, or two incidents; who knows better says so."""
    reports = [Report(verdict="hung", headline="x", job=Job(**job)) for job in (one, other)]
    assert compare(*reports, NAMES).same_job is same
    assert compare(*reports, NAMES, same_job=not same).same_job is not same


@pytest.fixture
def kept(tmp_path: Path) -> tuple[str, str]:
    """Keep two reports."""
    after = stopped({0: ALL_REDUCE, 1: BARRIER, 2: ELSEWHERE, 3: BARRIER})
    for name, report in zip(NAMES, (BEFORE, after), strict=True):
        (tmp_path / name).write_bytes(to_json(report))
    return str(tmp_path / NAMES[0]), str(tmp_path / NAMES[1])


@pytest.mark.parametrize("format_", ["terminal", "markdown", "json"])
def test_every_face_says_the_same(
    format_: str,
    kept: tuple[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On standard output as in a file, where COLUMNS does not ask for another width."""
    monkeypatch.delenv("COLUMNS", raising=False)
    target = tmp_path / {"terminal": "x.txt", "markdown": "x.md", "json": "x.json"}[format_]
    assert main(["diff", *kept, "--format", format_, "-o", str(target)]) == 0
    out = capsys.readouterr().out
    assert out == target.read_text()
    for words in ("2 of 4 ranks moved", "barrier", "evaluate"):
        assert words in out
    if format_ == "json":
        assert json.loads(out)["schema_version"] == 1


def test_evidence_is_diagnosed_first(
    kept: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log on one side, a report on the other; --redact replaces names on both."""
    log = tmp_path / "quetzal.log"
    log.write_text("[rank0]: torch.OutOfMemoryError: CUDA out of memory.\n")
    assert main(["diff", kept[0], str(log), "--format", "json", "--redact"]) == 0
    decoded = json.loads(capsys.readouterr().out)
    assert decoded["after"]["verdict"] == "failed"
    assert "quetzal" not in json.dumps(decoded)
    assert "n1" not in json.dumps(decoded["alike"])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["gone.json"], "there is nothing at gone.json"),
        (["{a}", "-o", "x.html"], "a comparison cannot be written as x.html"),
        (["{damaged}"], "is cut off"),
        (["{a}", "--same-job", "--incidents"], "not allowed with"),
    ],
)
def test_mistakes_are_reported(
    arguments: list[str],
    says: str,
    kept: tuple[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What is wrong, and no traceback."""
    damaged = tmp_path / "damaged.json"
    damaged.write_bytes(to_json(BEFORE)[:300])
    words = [word.format(a=kept[0], damaged=damaged) for word in arguments]
    assert main(["diff", kept[0], *words]) == 2
    assert says in capsys.readouterr().err


def test_many_ranks_are_compared_quickly() -> None:
    """Ten thousand ranks that moved alike are one row."""
    rows = tuple(
        RankRow(rank=n, host="n", pid=n, state="waiting", activity="in x", name=f"rank {n}")
        for n in range(10_000)
    )
    large = msgspec.structs.replace(BEFORE, ranks=rows)
    moved = tuple(msgspec.structs.replace(row, activity="in y") for row in rows)
    comparison = compare(large, msgspec.structs.replace(large, ranks=moved), NAMES)
    assert [each.ranks for each in comparison.ranks] == ["0-9999"]
