"""Holds a report against what its sample demands of it."""

from __future__ import annotations

from pathlib import Path

from whyhang.analyzer.facts import fold
from whyhang.analyzer.report import Collective, Finding, Location, Report
from whyhang.samples.harness.scenario import Sample


def deviations(sample: Sample, report: Report) -> list[str]:
    """List what the report says otherwise than the sample demands, a clause each.

    Only the first finding is looked at, the one that is read out in a call.
    """
    expect = sample.expect
    wrong: list[str] = []
    if report.verdict != expect.verdict:
        wrong.append(f"the verdict is {report.verdict}, not {expect.verdict}")
    if not report.findings:
        return [*wrong, "there is no finding"]
    first = report.findings[0]
    if first.category not in {expect.category, *expect.also}:
        wrong.append(f"the category is {first.category}, not {expect.category}")
    wrong += _wrong_culprits(expect.culprit_ranks, first)
    wrong += _wrong_operation(expect.op, first.collective)
    return wrong + _wrong_place(sample, first.location)


def _wrong_culprits(ranks: tuple[int, ...] | None, first: Finding) -> list[str]:
    if ranks is None or set(ranks) == set(first.culprit_ranks or ()):
        return []
    named = fold(first.culprit_ranks) if first.culprit_ranks else "nobody"
    return [f"the culprit is {named}, not {fold(ranks)}"]


def _wrong_operation(op: str | None, collective: Collective | None) -> list[str]:
    if op is None:
        return []
    if collective is None:
        return [f"no collective is named, not even {op}"]
    if op == collective.op or op in (collective.others or ""):
        return []
    return [f"the collective is {collective.op}, not {op}"]


def _wrong_place(sample: Sample, place: Location | None) -> list[str]:
    function = sample.expect.location_function
    if function is None:
        return []
    if place is None:
        return [f"no place in the code is named, not even {function}"]
    wrong: list[str] = []
    named = (place.function or "").rpartition(".")[2]
    if named != function:
        wrong.append(f"the place is {place.function}, not {function}")
    text = _line(sample, place)
    expected = sample.expect.location_line_contains
    if expected is not None and expected not in text:
        wrong.append(f"the line is {text.strip()!r}, not the one with {expected!r}")
    return wrong


def _line(sample: Sample, place: Location) -> str:
    """Read the named line out of the sample's own script."""
    script = Path(sample.folder) / Path(place.file).name
    if place.line is None or not script.is_file():
        return ""
    lines = script.read_text(encoding="utf-8").splitlines()
    return lines[place.line - 1] if 0 < place.line <= len(lines) else ""
