"""The TOML parser: of the standard library, or for Python 3.10 the package it came from.

What is known and is no logic stands in TOML beside the code that reads with it.
"""

import sys
from importlib.resources import files
from typing import Any, TypeVar

import msgspec

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["read", "table", "tomllib"]

T = TypeVar("T")


def read(package: str | None, name: str, of: type[T]) -> T:
    """Read a file that stands in a package, as a record or another type."""
    return msgspec.convert(table(package, name), of)


def table(package: str | None, name: str) -> dict[str, Any]:
    """Read a file that stands in a package, as it is."""
    return tomllib.loads(files(package or "").joinpath(name).read_text(encoding="utf-8"))
