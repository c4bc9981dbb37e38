"""What is shipped: every folder with code is listed, and the three rooms keep apart."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
ROOMS = ("analyzer", "collectors", "signatures")


@pytest.mark.repo
def test_every_folder_with_code_is_in_the_package_table() -> None:
    """An unlisted sub-package works in a checkout and is silently missing from the wheel."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]

    folders = {
        "whyhang." + ".".join(init.parent.relative_to(ROOT).parts)
        for room in (*ROOMS, "samples")
        for init in (ROOT / room).rglob("__init__.py")
    }

    assert folders <= set(table)


@pytest.mark.repo
def test_collectors_and_signatures_never_meet() -> None:
    """The import contract holds, whoever imports what today."""
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as m; m()"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout


@pytest.mark.repo
def test_generic_names_are_imported_by_nobody() -> None:
    """``import analyzer`` would find another tool's package on a user's machine."""
    offenders = [
        str(path.relative_to(ROOT))
        for room in (*ROOMS, "tests", "samples", "benchmarks")
        for path in (ROOT / room).rglob("*.py")
        for line in path.read_text(errors="replace").splitlines()
        if line.startswith(tuple(f"{word} {room}" for word in ("from", "import") for room in ROOMS))
    ]

    assert offenders == []
