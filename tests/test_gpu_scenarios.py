"""The scenarios for a machine with a GPU: what can be checked of them where there is none."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "gpu_scenarios.py"

pytestmark = pytest.mark.repo


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load the script as a module."""
    spec = importlib.util.spec_from_file_location("gpu_scenarios", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "gpu_scenarios", module)
    spec.loader.exec_module(module)
    return module


def test_without_torch_or_gpu_it_says_so_in_one_sentence(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A machine that cannot run the scenarios is no failure."""
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(sys, "argv", ["gpu_scenarios.py"])

    assert script.main() == 0
    out = capsys.readouterr().out
    assert out.startswith("The scenarios did not run: torch is not installed")
    assert out.count("\n") == 1


def test_a_wrong_culprit_is_wrong(script: ModuleType) -> None:
    """A row is right only if both the category and the culprits are."""
    scenario = next(s for s in script.SCENARIOS if s.name == "stopped")

    assert scenario.right(["rank-stopped"], [1])
    assert not scenario.right(["rank-stopped"], [2])
    assert not scenario.right(["rank-stopped"], None)
    assert not scenario.right(["rank-died"], [1])
    assert not scenario.right([], [1])


@pytest.mark.live
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_the_dry_run_on_gloo_is_right(tmp_path: Path) -> None:
    """The same job on gloo: its dumps are found, and only the backend remains untested."""
    names = ["missing", "opposite"]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--backend", "gloo", "--out", str(tmp_path), *names],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 2 right" in done.stdout
    assert (tmp_path / "versions.json").exists()
    assert len(list((tmp_path / "opposite").glob("comm_lib_trace_rank_*"))) == 4
    assert (tmp_path / "missing" / "bundle" / "manifest.json").exists()
