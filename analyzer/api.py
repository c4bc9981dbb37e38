"""The public functions of whyhang, for programs: ``import whyhang``.

They do what the commands of the same name do, raise ``WhyhangError`` where these end with a
message, and print nothing. Names, parameters and fields of what is returned follow semantic
versioning: within a major version they are added to, and none is removed or changes its meaning.
"""

import argparse
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from whyhang.analyzer.commands import live, live_options, redaction
from whyhang.analyzer.commands import watch as watching
from whyhang.analyzer.commands.diagnose import report_on, split
from whyhang.analyzer.commands.following import Event, follow
from whyhang.analyzer.errors import BundleError, TargetError, WhyhangError
from whyhang.analyzer.facts import replace
from whyhang.analyzer.report import Evidence, Finding, RankRow, Report, to_json

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
    "to_json",
    "watch",
]

Target: TypeAlias = int | str | os.PathLike[str]
"""A process by its PID, or a file or folder by its path."""


def diagnose(
    targets: Target | Iterable[Target],
    *,
    cards: Sequence[str | os.PathLike[str]] = (),
    save: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Report:
    """Say why a job hangs: from its processes, from what it left behind, or from both.

    ``targets`` are PIDs (int) and paths (str, Path) of one job. ``cards`` are folders of your own
    signatures, ``save`` is a bundle to keep what is taken of processes. ``options`` are those of
    the command line for looking at processes: ``looks`` (2), ``interval`` and ``timeout`` (seconds,
    1.0 and 15.0), ``native`` ("auto", "always", "never"), ``no_store`` (False)..., and ``redact``.
    The report has gone through the gate: secrets are blanked, control characters spelt.

    Raises ``TargetError`` for a target that is not there, ``BundleError`` for a bundle that cannot
    be written, ``WhyhangError`` for anything else that a person has to mend; ``TypeError`` and
    ``ValueError`` for arguments that are none.
    """
    pids, paths = _split(targets)
    chosen = _options(options)
    report, unsaved = report_on(
        pids,
        paths,
        chosen,
        cards=[os.fspath(each) for each in cards],
        save=None if save is None else os.fspath(save),
        quiet=True,
    )
    for error in unsaved:
        raise error
    return redaction.leaving(report, chosen)


def collect(pid: int, bundle: str | os.PathLike[str], **options: Any) -> Path:
    """Only collect: write what is taken of the job of ``pid`` to ``bundle``, and return its path.

    A folder, or a ``.tar.zst``. ``options`` as of ``diagnose``, which also reads the bundle.

    Raises ``TargetError`` where there is no such process, ``BundleError`` where the bundle cannot
    be written.
    """
    live.collect([pid], _options(options), os.fspath(bundle), quiet=True)
    return Path(bundle)


def watch(
    target: Target,
    *,
    every: float = watching.EVERY,
    stalled_for: float = watching.STALLED_FOR,
    cards: Sequence[str | os.PathLike[str]] = (),
    **options: Any,
) -> Iterator[Event]:
    """Follow a job and yield what happens to it, until it is over.

    ``target`` is a PID or a folder that the job writes to. It is looked at cheaply every ``every``
    seconds, and diagnosed after ``stalled_for`` seconds without a sign of progress. Of the events
    only those of the kind "hang" want attention; these have a ``report``. Between events the
    iterator blocks; ``options`` as of ``diagnose``.

    Raises ``TargetError`` at once where there is nothing to follow.
    """
    looks = watching.looks_at(os.fspath(target) if not isinstance(target, int) else str(target))
    chosen, folders = _options(options), [os.fspath(each) for each in cards]

    def ask(pids: tuple[int, ...], paths: tuple[str, ...]) -> Report:
        return report_on(pids, paths, chosen, cards=folders, quiet=True)[0]

    limits = watching.limits_of(looks, stalled_for)
    return (
        replace(event, report=redaction.leaving(event.report, chosen)) if event.report else event
        for event in follow(looks, ask, limits, every=every)
    )


def _split(targets: Target | Iterable[Target]) -> tuple[list[int], list[str]]:
    """Split targets by their type: a number is a process, also where a file has its name."""
    given: Any = targets
    one = isinstance(given, int | str | os.PathLike) or not isinstance(given, Iterable)
    listed = [given] if one else list(given)
    for each in listed:
        if isinstance(each, bool) or not isinstance(each, int | str | os.PathLike):
            raise TypeError(f"a target is a PID or a path, not {each!r}")
    if not listed:
        raise TargetError(
            "there is nothing to diagnose", "Give a PID, or the path of what it left."
        )
    paths = [os.fspath(each) for each in listed if not isinstance(each, int)]
    split(paths)  # refuses those that are not there
    return [each for each in listed if isinstance(each, int)], paths


def _options(given: dict[str, Any]) -> argparse.Namespace:
    """Return the options of the command line, with what was given in their place.

    Raises ``TypeError`` for one that there is not.
    """
    parser = argparse.ArgumentParser()
    live_options.add_arguments(parser)
    redaction.add_arguments(parser)
    options = parser.parse_args([])
    unknown = given.keys() - vars(options).keys()
    if unknown:
        raise TypeError(f"there is no option {', '.join(sorted(unknown))}")
    for name, value in given.items():
        _check(name, value, vars(options)[name])
    return argparse.Namespace(**{**vars(options), **given})


_LIMITS = {"looks": (int, 1, 100), "interval": (float, 0, 3600), "timeout": (float, 0, 3600)}


def _check(name: str, value: Any, default: Any) -> None:
    """Raise ``TypeError`` or ``ValueError`` for what the command line would not take."""
    if name in _LIMITS and value is not None:
        kind, least, most = _LIMITS[name]
        wanted = int if kind is int else int | float
        if isinstance(value, bool) or not isinstance(value, wanted):
            raise TypeError(f"{name} must be a number, not {value!r}")
        if not least <= value <= most:
            raise ValueError(f"{name} must be between {least} and {most}, not {value!r}")
    elif name in _LIMITS and default is not None:
        raise TypeError(f"{name} must be a number, not None")
    elif name == "native" and value not in live_options.NATIVE:
        choices = ", ".join(live_options.NATIVE)
        raise ValueError(f"native must be one of {choices}, not {value!r}")
    elif isinstance(default, bool) and not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {value!r}")
