"""Every recorded sample is diagnosed as its truth says, and always the same way."""

from __future__ import annotations

import jsonschema
import msgspec
import pytest

from whyhang.analyzer import scenario
from whyhang.analyzer.cli import main
from whyhang.analyzer.expected import deviations
from whyhang.analyzer.report import Report, schema

SAMPLES = {name: s for name, s in scenario.samples().items() if s.bundle.is_file()}


def diagnosis(name: str, capsysbinary: pytest.CaptureFixture[bytes]) -> bytes:
    """Run the command line on a sample's bundle and give the JSON report."""
    assert main([str(SAMPLES[name].bundle), "--format", "json"]) == 0
    return capsysbinary.readouterr().out


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_recorded_sample_is_diagnosed(
    name: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """The first finding names what the sample's truth names, in a report the schema allows."""
    output = diagnosis(name, capsysbinary)

    report = msgspec.json.decode(output, type=Report)
    assert deviations(SAMPLES[name], report) == [], report.headline
    jsonschema.validate(msgspec.json.decode(output), schema())
    assert report.notes == ()


def test_a_bundle_gives_the_same_report_byte_for_byte(
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    """Times and names come from the bundle, so nothing differs from run to run."""
    name = min(SAMPLES)

    assert diagnosis(name, capsysbinary) == diagnosis(name, capsysbinary)
