"""Every recorded sample is diagnosed as its truth says, and always the same way."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import jsonschema
import msgspec
import pytest
import zstandard

from whyhang.analyzer.cli import main
from whyhang.analyzer.report import Report, schema
from whyhang.samples.harness import scenario
from whyhang.samples.harness.capture import name_paths_anew
from whyhang.samples.harness.expected import deviations

SAMPLES = {name: s for name, s in scenario.samples().items() if s.bundle.is_file()}

SCHEMA = jsonschema.Draft202012Validator(schema())
EXPECTED_NOTES = ("Looking at the job paused", "Excluded by the evidence", "What would tell most")
"""How notes begin that a report of a sample may have."""


def diagnosis(name: str, capsysbinary: pytest.CaptureFixture[bytes]) -> bytes:
    """Run the command line on a sample's bundle and give the JSON report."""
    assert main([str(SAMPLES[name].bundle), "--format", "json"]) == 0
    return capsysbinary.readouterr().out


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_recorded_sample_is_diagnosed(
    name: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """The first finding names what the sample's truth names, in a report the schema allows.

    One hang has one cause: what else is found follows from it.
    """
    output = diagnosis(name, capsysbinary)

    report = msgspec.json.decode(output, type=Report)
    assert deviations(SAMPLES[name], report) == [], report.headline
    SCHEMA.validate(msgspec.json.decode(output))
    assert all(note.startswith(EXPECTED_NOTES) for note in report.notes)
    assert [n for n, finding in enumerate(report.findings) if finding.caused_by is None] == [0]
    assert all(finding.evidence and finding.remedies for finding in report.findings)
    words = [text for f in report.findings for text in (f.title, f.explanation, *f.remedies)]
    assert not [text for text in words if " ? " in text], "a field that nothing fills"
    nodes = report.waits.nodes
    if report.findings[0].culprit_ranks and nodes:
        assert any(node.culprit for node in nodes), "the culprit is in the graph"
        assert all(node.culprit for node in nodes if node.role == "root"), "no other is a root"


def test_a_bundle_gives_the_same_report_byte_for_byte(
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    """Times and names come from the bundle, so nothing differs from run to run."""
    name = min(SAMPLES)

    assert diagnosis(name, capsysbinary) == diagnosis(name, capsysbinary)


def test_a_rank_between_calls_does_not_wait(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """Of dumps alone: who is in a call waits at its line, who is after its last call runs."""
    report = msgspec.json.decode(diagnosis("fr-mesh-chain", capsysbinary), type=Report)

    rows = {row.rank: row for row in report.ranks}
    assert rows[5].state == "running"
    assert rows[5].location is None
    assert rows[7].state == "waiting"
    assert rows[7].location is not None
    assert rows[7].location.function == "reduce_gradients"


def test_no_bundle_knows_a_checkout() -> None:
    """Where a job's interpreter lay is the same in all, whoever captured it."""
    for sample in SAMPLES.values():
        packed = sample.bundle.read_bytes()
        text = zstandard.ZstdDecompressor().stream_reader(packed).read()
        places = set(re.findall(rb'"command": "(/\S*)/bin/python', text))
        assert places <= {b"/opt/venv", b"/usr"}, sample.folder


def test_paths_of_a_bundle_are_named_anew(tmp_path: Path) -> None:
    """In every text; what has lengths of its own is refused, and then nothing is written."""
    bundle = tmp_path / "bundle.tar.zst"

    def pack(**members: bytes) -> None:
        for member, data in members.items():
            (tmp_path / member).write_bytes(data)
        with tarfile.open(tmp_path / "plain.tar", "w") as plain:
            for member in members:
                plain.add(tmp_path / member, arcname=member)
        packed = (tmp_path / "plain.tar").read_bytes()
        bundle.write_bytes(zstandard.ZstdCompressor().compress(packed))

    pack(log=b"/home/me/venv/bin/python", other=b"nothing")
    name_paths_anew(bundle, {"/home/me/venv": "/opt/venv"})
    text = zstandard.ZstdDecompressor().stream_reader(bundle.read_bytes()).read()
    assert b"/opt/venv/bin/python" in text
    assert b"/home/me" not in text

    pack(dump=b"\0/home/me/venv/bin/python")
    before = bundle.read_bytes()
    with pytest.raises(scenario.ScenarioError, match="dump names /home/me/venv"):
        name_paths_anew(bundle, {"/home/me/venv": "/opt/venv"})
    assert bundle.read_bytes() == before
