"""What is in the repository arrives in the wheel."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
ROOMS = ("analyzer", "collectors", "signatures", "samples")


@pytest.mark.repo
def test_every_package_is_named() -> None:
    """A folder of modules that the project file does not name would be missing after install."""
    folders = {
        file.parent.relative_to(ROOT)
        for room in ROOMS
        for file in (ROOT / room).rglob("__init__.py")
    }
    described = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    named = described["tool"]["setuptools"]["packages"]
    assert sorted(named) == sorted(
        ["whyhang", *(f"whyhang.{'.'.join(folder.parts)}" for folder in folders)]
    )


@pytest.mark.repo
def test_no_module_lies_outside_a_package() -> None:
    """A folder of modules in a room has an ``__init__.py``, else it would not be installed."""
    for room in ("analyzer", "collectors", "signatures"):
        for module in (ROOT / room).rglob("*.py"):
            assert (module.parent / "__init__.py").is_file(), module
