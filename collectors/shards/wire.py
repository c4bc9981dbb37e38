"""What a worker answers, read with care.

It is a pickle, since facts share much (a stack is sent once for all ranks in it). It is
read by an unpickler that makes whyhang's own records and plain data, and calls nothing else:
what a node sends is not trusted further than a bundle is.
"""

import enum
import functools
import importlib
import io
import pickle
from typing import Any

from whyhang.analyzer.facts import Record

_PLAIN = {
    ("builtins", name) for name in ("bytearray", "complex", "frozenset", "range", "set", "slice")
}
_OWN = {("whyhang.collectors.flight_recorder.reader", "_again")}
_REMOTE = ("whyhang.collectors.files.remote", "folder_of")


class AnswerError(Exception):
    """What came is no answer."""


def facts_in(data: bytes) -> Any:
    """Read an answer. Raises ``AnswerError`` for one that holds anything but facts."""
    try:
        return _Facts(io.BytesIO(data)).load()
    except Exception as error:  # damage raises all kinds
        raise AnswerError(f"its answer cannot be read ({error})") from error


class _Facts(pickle.Unpickler):
    """Makes records, enumerations and plain data."""

    def find_class(self, module: str, name: str) -> Any:
        """Return what a pickle may name. Raises ``UnpicklingError`` for anything else."""
        if (module, name) == ("builtins", "getattr"):
            return _bound
        if (module, name) in {("functools", "partial"), ("msgspec._core", "rebuild")}:
            return functools.partial if name == "partial" else _rebuild()
        if (module, name) in _PLAIN or (module, name) in _OWN or (module, name) == _REMOTE:
            return super().find_class(module, name)
        if module.startswith("whyhang."):
            named = getattr(importlib.import_module(module), name, None)
            if isinstance(named, type) and issubclass(named, Record | enum.Enum):
                return named
        raise pickle.UnpicklingError(f"{module}.{name} is no fact")


def _rebuild() -> Any:
    return importlib.import_module("msgspec._core").rebuild


def _bound(owner: object, name: str) -> Any:
    """Return the method of a file by which it is opened again, or a member of an enumeration.

    Python 3.11.0 to 3.11.3 pickle a member of an enumeration by its name.
    """
    if name == "open" and isinstance(owner, Record):
        return getattr(owner, name)
    if isinstance(owner, enum.EnumMeta) and name in owner.__members__:
        return owner.__members__[name]
    raise pickle.UnpicklingError(f"{name} of {type(owner).__name__} is no fact")
