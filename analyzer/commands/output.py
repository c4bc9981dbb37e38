"""Where a report goes: standard output in one format, and files by their extension."""

import argparse
import contextlib
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console

from whyhang.analyzer.commands import notify, redaction
from whyhang.analyzer.errors import TargetError, WhyhangError
from whyhang.analyzer.report import Report, Verdict
from whyhang.analyzer.reports.faces import ENDINGS, FACES, FILE_WIDTH, as_text, face_of
from whyhang.analyzer.reports.outgoing import plain
from whyhang.analyzer.reports.terminal import show
from whyhang.collectors.files.bundle import obstacle

EXIT_CODES: dict[Verdict, int] = {
    "healthy": 0,
    "hung": 3,
    "failed": 3,
    "inconclusive": 4,
    "slow": 5,
}

NARROWEST = 40
"""Columns below which a report that is piped does not go: less is no width of a terminal."""


def add_places(parser: argparse.ArgumentParser, formats: Iterable[str], *, files: str) -> None:
    """Declare the format on standard output, and the files; their help is ``files``."""
    parser.add_argument(
        "--format",
        choices=tuple(formats),
        help="format on standard output (default: terminal on a terminal, Markdown when piped)",
    )
    parser.add_argument(
        "-o", "--output", action="append", default=[], metavar="FILE", help=f"also write {files}"
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options that say where a report goes."""
    ends = f"in the format of its end: {', '.join(ENDINGS)}"
    add_places(parser, FACES, files=f"the report to FILE, {ends}; may be repeated")
    parser.add_argument(
        "--full",
        action="store_true",
        help="show all evidence, and all that follows from the causes",
    )
    redaction.add_arguments(parser)
    notify.add_arguments(parser)
    parser.add_argument(
        "--exit-code",
        action="store_true",
        help="end with 0 healthy, 3 hung or failed, 4 inconclusive, 5 slow (otherwise 0)",
    )


def with_tilde(path: str | Path) -> str:
    """Write a path as people do: with ~ for their home."""
    home = os.path.expanduser("~")  # noqa: PTH111 - gives "~" where there is no home
    text = str(path)
    return "~" + text[len(home) :] if text.startswith(home + "/") else text


def check(options: argparse.Namespace) -> None:
    """Refuse unusable output files before any work is done. Raises ``WhyhangError``."""
    notify.receivers(options)
    for name in options.output:
        if face_of(name) is None:
            raise TargetError(
                f"cannot tell the format of {name} from its extension",
                f"Use one of {', '.join(sorted(ENDINGS))}.",
            )
    check_places(options.output)


def check_places(names: Iterable[str]) -> None:
    """Refuse files that cannot be written, as far as that can be seen. Raises ``WhyhangError``.

    Folders that are missing above them are made when they are written.
    """
    for name in names:
        if why := _obstacle(Path(name)):
            raise _unwritten(name, why)


def emit(report: Report, options: argparse.Namespace, unsaved: Sequence[WhyhangError] = ()) -> int:
    """Write the report everywhere it should go and return the exit code.

    A place or a receiver that takes nothing does not keep the report from the others; then it is
    raised, and so are the errors in ``unsaved``, of bundles that could not be kept.
    """
    report = redaction.leaving(report, options)
    written = [
        write(Path(name), face.render(report, full=options.full))
        for name in options.output
        if (face := face_of(name)) is not None
    ]
    _print(report, options.format, full=options.full)
    asked = [*map(face_of, options.output), FACES.get(options.format or "")]
    if not report.stack_groups and any(face is not None and face.of_stacks for face in asked):
        sys.stderr.write("whyhang: there are no stacks in the evidence, so their export is empty\n")
    untold = notify.send_all(report, notify.receivers(options))
    errors = [error for error in (*written, *untold, *unsaved) if error is not None]
    for error in errors[:-1]:
        sys.stderr.write(f"whyhang: {plain(str(error))}\n")
    if errors:
        raise errors[-1]
    return EXIT_CODES[report.verdict] if options.exit_code else 0


def _print(report: Report, format_: str | None, *, full: bool) -> None:
    at_terminal = sys.stdout.isatty()
    format_ = format_ or ("terminal" if at_terminal else "markdown")
    if format_ == "terminal" and (at_terminal or os.environ.get("FORCE_COLOR")):
        width = None if at_terminal else piped_width()
        show(report, Console(highlight=False, width=width), full=full)
    elif format_ == "terminal":  # what cannot be encoded is spelt: see streams.py
        sys.stdout.write(as_text(report, full=full, width=piped_width()))
    else:
        sys.stdout.buffer.write(FACES[format_].render(report, full=full))
    sys.stdout.flush()


def piped_width() -> int:
    """Return how wide a terminal's report is that goes elsewhere: COLUMNS, else as a file."""
    columns = os.environ.get("COLUMNS", "")
    given = columns.isdecimal() and len(columns) < 5 and int(columns) > 0
    return max(NARROWEST, int(columns)) if given else FILE_WIDTH


def write(path: Path, content: bytes) -> WhyhangError | None:
    """Write a file, and the folders that are missing above it; half a file is none.

    Returns what to tell the person if that fails.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        if path.is_file():
            with contextlib.suppress(OSError):
                path.unlink()
        return _unwritten(path, error.strerror or str(error))
    return None


def _obstacle(path: Path) -> str:
    """Return what keeps a report from being written there, if that can be seen now."""
    try:
        if path.is_dir():
            return "it is a folder"
        if path.exists():
            return "" if os.access(path, os.W_OK) else "it is not writable for this user"
    except OSError as error:
        return error.strerror or str(error)
    return obstacle(path)


def _unwritten(path: str | Path, why: str) -> WhyhangError:
    return WhyhangError(f"cannot write {path}: {why}", "Choose another place with -o.")
