"""Say which rank, which line and which collective holds a hung PyTorch job up.

For programs: ``diagnose``, ``collect``, ``watch`` and what they return (``Report``, ``Finding``,
``Event``, ...), and ``heartbeat`` for training loops. Importing this costs next to nothing, for
each name is imported when it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from whyhang._heartbeat import heartbeat as heartbeat
    from whyhang.analyzer.api import (
        BundleError as BundleError,
        Event as Event,
        Evidence as Evidence,
        Finding as Finding,
        RankRow as RankRow,
        Report as Report,
        TargetError as TargetError,
        WhyhangError as WhyhangError,
        collect as collect,
        diagnose as diagnose,
        to_json as to_json,
        watch as watch,
    )

__version__ = "0.1.0"

__all__ = [
    "BundleError",
    "Event",
    "Evidence",
    "Finding",
    "RankRow",
    "Report",
    "TargetError",
    "WhyhangError",
    "collect",
    "diagnose",
    "heartbeat",
    "to_json",
    "watch",
]


def __getattr__(name: str) -> Any:
    """Import a public name from where it is made."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    place = "whyhang._heartbeat" if name == "heartbeat" else "whyhang.analyzer.api"
    value = getattr(importlib.import_module(place), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
