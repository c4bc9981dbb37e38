"""Say which rank, which line and which collective holds a hung PyTorch job up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whyhang._heartbeat import heartbeat as heartbeat

__version__ = "0.1.0"

_PLACES = {"heartbeat": "whyhang._heartbeat"}
"""Where each public name is made; its module is imported when it is first used."""


def __getattr__(name: str) -> Any:
    """Import what is public as late as it is used: ``import whyhang`` costs next to nothing."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
