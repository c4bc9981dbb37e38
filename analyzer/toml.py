"""The TOML that holds what is known and is no logic: it stands beside the code that reads with it.

Parsed by ``tomli``, from which the standard library's ``tomllib`` was taken: its wheels are
compiled and read the signatures in a third of the time.
"""

from importlib.resources import files
from typing import Any, TypeVar

import msgspec
import tomli

T = TypeVar("T")


def read(package: str | None, name: str, of: type[T]) -> T:
    """Read a file that stands in a package, as a record or another type."""
    return msgspec.convert(table(package, name), of)


def table(package: str | None, name: str) -> dict[str, Any]:
    """Read a file that stands in a package, as it is."""
    return tomli.loads(files(package or "").joinpath(name).read_text(encoding="utf-8"))
