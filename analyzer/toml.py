"""The TOML parser: of the standard library, or for Python 3.10 the package it came from."""

import sys
from importlib.resources import files
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["table", "tomllib"]


def table(package: str | None, name: str) -> dict[str, Any]:
    """Read a file that stands in a package."""
    return tomllib.loads(files(package or "").joinpath(name).read_text(encoding="utf-8"))
