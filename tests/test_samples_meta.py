"""Every sample folder is complete, well named and well formed."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import get_args

import pytest

from whyhang.analyzer import report
from whyhang.analyzer.findings import categories
from whyhang.samples.harness import scenario

SAMPLES = scenario.samples()
NAMES = sorted(SAMPLES)
STARTABLE = [name for name in NAMES if SAMPLES[name].start]
VERDICTS = set(get_args(report.Verdict))
CATEGORIES = {category for group in categories.CATEGORIES.values() for category in group}
LARGEST_BUNDLE = 200_000


def scripts(sample: scenario.Sample) -> list[Path]:
    return sorted(Path(sample.folder).glob("*.py"))


def test_every_folder_is_a_sample() -> None:
    """No folder beside the samples is left without a description."""
    folders = {
        entry.name
        for entry in Path(SAMPLES[NAMES[0]].folder).parent.iterdir()
        if entry.is_dir() and entry.name not in {"__pycache__", "harness"}
    }
    assert folders == set(NAMES)


def test_the_samples_of_the_first_release_are_there() -> None:
    """The kinds of hang that the project promises to know have a sample each."""
    categories = {sample.expect.category for sample in SAMPLES.values()}
    assert {
        "missing-rank-in-collective",
        "dataloader-blocked",
        "collective-mismatch",
        "rank-stopped",
        "rank-spinning",
        "gil-or-lock-deadlock",
        "storage-io-blocked",
        "network-io-blocked",
        "group-creation-mismatch",
        "rank-died",
        "slow-not-hung",
        "healthy",
    } <= categories


def test_names_are_kebab_case() -> None:
    """A sample's name can be typed without quotes or shift."""
    assert [n for n in NAMES if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", n)] == []


def test_each_has_script_and_bundle() -> None:
    """A sample holds the program that hangs and what was recorded of it, and that is small."""
    sizes = {name: sample.bundle.stat().st_size for name, sample in SAMPLES.items()}
    assert [name for name, size in sizes.items() if not 0 < size <= LARGEST_BUNDLE] == []
    assert [name for name, sample in SAMPLES.items() if not scripts(sample)] == []


def test_expectations_speak_the_contract() -> None:
    """What a sample demands can be met by a report: known words, ranks that exist."""
    for name, sample in SAMPLES.items():
        expect = sample.expect
        assert expect.verdict in VERDICTS, name
        assert {expect.category, *expect.also} <= CATEGORIES, name
        assert expect.category not in expect.also, name
        if sample.ranks and expect.culprit_ranks is not None:
            beyond = 2 * sample.ranks + 2  # ranks that were never started may be the culprits
            assert set(expect.culprit_ranks) <= set(range(beyond)), name


def test_expected_places_are_in_the_scripts() -> None:
    """The function in which the culprit stands exists, and the line is in it exactly once."""
    for name, sample in SAMPLES.items():
        bodies = {
            node.name: ast.get_source_segment(source, node) or ""
            for source in (script.read_text(encoding="utf-8") for script in scripts(sample))
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.FunctionDef)
        }
        function, line = sample.expect.location_function, sample.expect.location_line_contains
        assert function is None or function in bodies, name
        assert line is None or bodies[str(function)].count(line) == 1, name


def test_each_can_be_started_and_waited_for() -> None:
    """A live sample says how it starts, how many ranks it has and when it is about to hang."""
    for name in STARTABLE:
        sample = SAMPLES[name]
        assert sample.ranks > 0, name  # that speak; an agent that waits for others is alone
        assert sample.ready, name
        argv = scenario.command_line(sample)
        assert not [word for word in argv if "{" in word], name
        scripts_in = (word for word in argv if word.startswith(sample.folder))
        assert any(Path(word).is_file() for word in scripts_in), name


def test_a_variation_has_the_cause_of_what_it_varies() -> None:
    """Where time is short only the other one is started, so that it must stand for both."""
    for sample in (sample for sample in SAMPLES.values() if sample.like):
        varied = SAMPLES[sample.like]
        assert varied.start, sample.name
        assert not varied.like, sample.name
        assert varied.expect.category == sample.expect.category, sample.name
        assert varied.expect.verdict == sample.expect.verdict, sample.name


def test_none_mentions_another_machine() -> None:
    """Scripts talk to the loopback interface only."""
    for script in (script for sample in SAMPLES.values() for script in scripts(sample)):
        hosts = re.findall(r"https?://([^/:{\"']+)", script.read_text(encoding="utf-8"))
        assert set(hosts) <= {"127.0.0.1", "localhost"}, script


def test_torch_missing_is_reported_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without torch a live sample is refused with the line to type, before anything starts."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(scenario.ScenarioError, match=r"pip install 'whyhang\[torch\]'"):
        scenario.start(SAMPLES[STARTABLE[0]])


def test_a_wrong_description_names_its_file(tmp_path: Path) -> None:
    """A mistake in a sample's description is told with the file it stands in."""
    (tmp_path / "sample.toml").write_text('title = "x"\nranks = "four"\n')
    with pytest.raises(scenario.ScenarioError, match=r"sample\.toml"):
        scenario.read(tmp_path)
