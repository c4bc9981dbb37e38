"""Compiled pattern databases, kept from one run to the next in the user's cache folder.

Compiling some hundred patterns takes a third of a second, loading them a few milliseconds.
Whatever goes wrong here only costs that time. A database is native data that Hyperscan trusts,
so one is only read from a file that belongs to this user and that nobody else may write.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import hyperscan

FORMAT = 5  # to be raised when what is looked for instead of a pattern changes
KEEP = 8  # databases; older ones are deleted


def name(version: str, patterns: Sequence[str]) -> str:
    """Name the database of these patterns: equal names, equal content."""
    parts = [str(FORMAT), version, platform.machine(), *patterns]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def folder() -> Path:
    """Return the folder for compiled patterns (``$XDG_CACHE_HOME`` or ``~/.cache``)."""
    root = os.environ.get("XDG_CACHE_HOME") or ""
    base = Path(root) if Path(root).is_absolute() else Path("~/.cache").expanduser()
    return base / "whyhang" / "patterns"


def load(key: str) -> hyperscan.Database | None:
    """Load a database compiled before; None if there is none or it does not serve here."""
    import hyperscan  # noqa: PLC0415 - heavy

    try:
        data = _read_own(folder() / key)
        if data is None:
            return None
        database = hyperscan.loadb(data, mode=hyperscan.HS_MODE_BLOCK)
        database.scratch = hyperscan.Scratch(database)
        # One compiled on another kind of CPU says so on its first use.
        database.scan(b"", match_event_handler=lambda *_: None)
    except (OSError, RuntimeError, ValueError, hyperscan.HyperscanError):
        return None
    return database


def save(key: str, database: hyperscan.Database) -> None:
    """Keep a database for the next run, if that is possible."""
    import hyperscan  # noqa: PLC0415 - heavy

    with contextlib.suppress(OSError, RuntimeError, ValueError, hyperscan.HyperscanError):
        data = hyperscan.dumpb(database)
        home = folder()
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=home)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(temporary).replace(home / key)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise
        _forget_old(home)


def _read_own(path: Path) -> bytes | None:
    """Read a file if it is a plain one of this user that no one else may write."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)
    try:
        handle = os.open(path, flags)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        about = os.fstat(handle)
        others = stat.S_IWGRP | stat.S_IWOTH
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
            return None
        return None if about.st_mode & others else file.read()


def _forget_old(home: Path) -> None:
    files = sorted(home.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in files[KEEP:]:
        path.unlink(missing_ok=True)
