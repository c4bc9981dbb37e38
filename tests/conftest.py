"""Golden reports, the table at the end of a run of live samples, and a /proc of plain files."""

from __future__ import annotations

import functools
import gc
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path

import golden
import hypothesis
import pytest
from fake_proc import FakeProc

from whyhang.analyzer.findings import diagnose as _diagnosis
from whyhang.collectors.logs import reader

# A hundred processes start here: what they import is compiled for all of them, not by each.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

hypothesis.settings.register_profile("quick", max_examples=30, deadline=None)
hypothesis.settings.register_profile("thorough", max_examples=120, deadline=None)
hypothesis.settings.load_profile("quick")  # `make test` runs with --hypothesis-profile=thorough

LONGEST = (
    "test_slurm_live",
    "test_ray_live",
    "test_shards_live",
    "test_hosts_live",
    "test_kubernetes_live",
    "test_gpu_scenarios",
)
"""Files of tests that take from half a minute to two: begun first, none is waited for alone."""

COLUMNS = ("sample", "truth", "said live", "", "said from logs alone", "")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Note which tests there are, for the golden reports of those that are not; longest first."""
    items.sort(key=lambda item: item.path.stem not in LONGEST)
    names = config.stash.setdefault(golden.COLLECTED, {})
    if not any("::" in argument for argument in config.args):
        for item in items:
            names.setdefault(item.path.stem, set()).add(item.name)


def pytest_collection_finish() -> None:
    """Spare the garbage collector thousands of collected tests, which stay to the end."""
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print a row for each sample that was started in this run."""
    rows = sorted(_rows(terminalreporter))
    if not rows:
        return
    table = [COLUMNS, *rows]
    widths = [max(len(row[number]) for row in table) for number in range(len(COLUMNS))]
    terminalreporter.section("what was said of each live sample")
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        terminalreporter.write_line("  ".join(cells).rstrip())
    live = sum(row[3] == "right" for row in rows)
    wrong = sum(row[5] == "WRONG" for row in rows)
    terminalreporter.write_line(
        f"{live} of {len(rows)} right live; {wrong} of {len(rows)} wrong from logs alone"
    )


def _rows(reporter: pytest.TerminalReporter) -> Iterator[tuple[str, ...]]:
    for reports in reporter.stats.values():
        for report in reports:
            properties: Mapping[str, object] = dict(getattr(report, "user_properties", ()))
            if getattr(report, "when", "") == "call" and "truth" in properties:
                names = ("sample", "truth", "live", "live_right", "logs", "logs_right")
                yield tuple(str(properties.get(name, "")) for name in names)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare how golden reports are taken anew."""
    parser.addoption("--golden-update", action="store_true", help="keep this run's reports")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to take golden reports anew in several workers, which overwrite each other's files."""
    several = getattr(config.option, "numprocesses", None)
    if config.getoption("golden_update") and several:
        raise pytest.UsageError("--golden-update needs one test after the other: -n 0")


_made: list[object] = []


def _watched(diagnose: Callable[..., object]) -> Callable[..., object]:
    """Keep each report that is made."""

    @functools.wraps(diagnose)
    def watching(*arguments: object, **options: object) -> object:
        report = diagnose(*arguments, **options)
        _made.append(report)
        return report

    return watching


_entry_points = metadata.entry_points


@functools.cache
def _installed(_path: tuple[str, ...], **chosen: str) -> metadata.EntryPoints:
    """Look once for what is installed: 180 tests ask, each for 0.03 s."""
    return _entry_points(**chosen)


metadata.entry_points = lambda **chosen: _installed(tuple(sys.path), **chosen)

_diagnosis.diagnose = _watched(_diagnosis.diagnose)  # type: ignore[assignment]  # before tests import it


@pytest.fixture(autouse=True)
def golden_reports(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compare every report made by a test with the one kept for it."""
    _made.clear()
    yield
    if not _made or not _repeats(request):
        return
    module, test = request.path.stem, request.node.name
    folder = request.node.funcargs.get("tmp_path")
    made = [golden.plain(report, [str(folder)] if folder else []) for report in _made]
    if request.config.getoption("--golden-update"):
        golden.kept(module)[test] = made
        request.config.stash.setdefault(_TAKEN, set()).add(module)
    elif test in golden.kept(module):
        before = golden.kept(module)[test]
        assert made == before, golden.differences(before, made)


def _repeats(request: pytest.FixtureRequest) -> bool:
    """Tell whether a test makes the same reports at every run: not of processes, nor at random."""
    live = request.node.get_closest_marker("live") is not None
    return not (live or hasattr(request.function, "hypothesis") or request.path.stem == "test_cli")


_TAKEN = pytest.StashKey[set[str]]()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what was taken anew, without what is of tests that are gone."""
    for module in session.config.stash.get(_TAKEN, set()):
        names = session.config.stash[golden.COLLECTED].get(module) or golden.tests_in(module)
        gone = golden.stale(module, names)
        kept = {test: made for test, made in golden.kept(module).items() if test not in gone}
        golden.keep(module, kept)


@pytest.fixture
def no_own_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have logs searched for a test's patterns alone.

    With those of whyhang's own readers Hyperscan takes a sixth of a second to compile each set.
    """
    monkeypatch.setattr(reader, "OWN_PATTERNS", frozenset())


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    """Make a /proc with an init and a shell."""
    made = FakeProc(tmp_path)
    made.add(1, 0, "/sbin/init", {})
    made.add(2, 0, "", {}, comm="kthreadd", kernel=True)
    made.add(10, 1, "/bin/bash", {})
    return made
