"""The tab key, the version and the manual page."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from whyhang import __version__
from whyhang.analyzer.cli import main
from whyhang.analyzer.commands.completion import SHELLS

ROOT = Path(__file__).parent.parent


def completed(typed: str, tmp_path: Path) -> set[str]:
    """Return what whyhang says to a shell of bash's kind that asks what may follow."""
    answer = tmp_path / "answer"
    environment = {
        **os.environ,
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_SHELL": "bash",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "COMP_LINE": typed,
        "COMP_POINT": str(len(typed)),
        "COMP_TYPE": "9",
    }
    subprocess.run([sys.executable, "-m", "whyhang"], env=environment, check=True)
    return {word.strip() for word in answer.read_text().splitlines()}


@pytest.mark.live
@pytest.mark.parametrize(
    ("typed", "word", "other"),
    [
        ("whyhang ", "explain", "--native"),
        ("whyhang ex", "explain", "schema"),
        ("whyhang --na", "--native", "--save"),
        ("whyhang 4711 --native ", "always", "collect"),
        ("whyhang explain watchdog-", "watchdog-timeout", "duplicate-gpu"),
        ("whyhang demo fr-oth", "fr-other-shape", "rank-died"),
    ],
)
def test_the_tab_key_completes(typed: str, word: str, other: str, tmp_path: Path) -> None:
    """Commands, options of the default command, values, signatures and samples."""
    words = completed(typed, tmp_path)

    assert word in words
    assert other not in words


@pytest.mark.parametrize("shell", SHELLS)
def test_what_a_shell_gets_is_a_script_of_that_shell(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said for each shell; those that are here read it without a complaint."""
    assert main(["completion", shell]) == 0

    script = capsys.readouterr().out
    assert "whyhang" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n", "-c", script], check=True)


def test_the_version_says_what_it_uses(capsys: pytest.CaptureFixture[str]) -> None:
    """A report of a mistake needs them."""
    assert main(["--version"]) == 0

    printed = capsys.readouterr().out
    assert printed.startswith(f"whyhang {__version__} (py-spy ")
    assert "hyperscan" in printed


@pytest.mark.repo
def test_the_manual_page_is_that_of_the_parsers(monkeypatch: pytest.MonkeyPatch) -> None:
    """``make man`` makes it; options that are new are missing until then."""
    monkeypatch.setenv("COLUMNS", "")  # it sets its own, which goes with the test
    manual = runpy.run_path(str(ROOT / "docs" / "manpage.py"))

    assert manual["page"]() == manual["PAGE"].read_text(encoding="utf-8")
