"""The option --redact, and the key that makes pseudonyms this user's own."""

import argparse
import contextlib
import functools
import os
import secrets
import sys
from pathlib import Path

from whyhang.analyzer.configuration.config_files import home
from whyhang.analyzer.configuration.settings import settings
from whyhang.analyzer.errors import WhyhangError
from whyhang.analyzer.pseudonyms import Pseudonyms
from whyhang.analyzer.pseudonyms.report import with_pseudonyms
from whyhang.analyzer.report import Report
from whyhang.analyzer.reports.outgoing import outgoing

KEY = "redact.key"
KEY_BYTES = 32
SHORTEST = 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the option."""
    parser.add_argument(
        "--redact",
        action="store_true",
        help="hosts, users, addresses and paths as pseudonyms, the same everywhere (secrets are "
        "always blanked); the key is kept in ~/.config/whyhang",
    )


def leaving(report: Report, options: argparse.Namespace) -> Report:
    """Return a report as it may leave: through the gate, and redacted where that is asked for."""
    report = outgoing(report)
    names = pseudonyms(options)
    return report if names is None else with_pseudonyms(report, names)


def pseudonyms(options: argparse.Namespace) -> Pseudonyms | None:
    """Return what replaces names, or None where that is not asked for.

    Raises ``WhyhangError`` for a key that cannot be used.
    """
    configured = settings().table("redaction")
    if not (getattr(options, "redact", False) or configured.get("always", False)):
        return None
    named = configured.get("key_file")
    key = read_key(Path(named)) if named else _key()
    return Pseudonyms(key, hide=configured.get("hide", ()), keep=configured.get("keep", ()))


def _key() -> bytes:
    """Read the user's key, or make it; where none can be kept, one for this run alone."""
    folder = home()
    if folder is not None and (folder / KEY).exists():
        return read_key(folder / KEY)
    with contextlib.suppress(OSError):
        if folder is not None:
            return _made(folder / KEY)
    return _of_this_run()


@functools.cache
def _of_this_run() -> bytes:
    """Make a key that is not kept: one for all that a run writes."""
    sys.stderr.write(
        "whyhang: no key could be kept for --redact: the pseudonyms of this run are of this run "
        "alone\n"
    )
    return secrets.token_bytes(KEY_BYTES)


def read_key(path: Path) -> bytes:
    """Read a key from a file. Raises ``WhyhangError`` for one that cannot be used."""
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise WhyhangError(
            f"the key for --redact cannot be read from {path}: {error}",
            "Make it (openssl rand -hex 32 > FILE), or name another file.",
        ) from error
    if len(text) < SHORTEST:
        raise WhyhangError(
            f"the key for --redact in {path} has less than {SHORTEST} characters",
            "Remove the file, so that a new key is made (and new pseudonyms).",
        )
    return text.encode()


def _made(path: Path) -> bytes:
    """Make a key that only this user may read; of two processes at once one makes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    key = secrets.token_hex(KEY_BYTES)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return read_key(path)
    with os.fdopen(descriptor, "w") as file:
        file.write(key + "\n")
    return key.encode()
