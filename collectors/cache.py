"""What takes long to make, kept from one run to the next in the user's cache folder.

Whatever goes wrong with that only costs time. What is kept is trusted (native data, a program that
other hosts are sent), so a file is only read that belongs to this user and that nobody else may
write.
"""

import contextlib
import os
import stat
import tempfile
from pathlib import Path


def folder(kind: str) -> Path:
    """Return the folder for things of one kind (in ``$XDG_CACHE_HOME`` or ``~/.cache``)."""
    root = os.environ.get("XDG_CACHE_HOME") or ""
    base = Path(root) if Path(root).is_absolute() else Path("~/.cache").expanduser()
    return base / "whyhang" / kind


def kept(kind: str, name: str) -> bytes | None:
    """Return what was kept under a name; None where it is not there, or not to be trusted."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)
    with contextlib.suppress(OSError, RuntimeError):
        handle = os.open(folder(kind) / name, flags)
        with os.fdopen(handle, "rb") as file:
            about = os.fstat(handle)
            plain = stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid()
            if plain and not about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                os.utime(handle)  # what is in use is not the oldest
                return file.read()
    return None


def keep(kind: str, name: str, data: bytes, *, most: int) -> None:
    """Keep something, if that is possible, and of its kind the ``most`` that were used last."""
    with contextlib.suppress(OSError, RuntimeError):
        home = folder(kind)
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=home)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(temporary).replace(home / name)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise
        files = sorted(home.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in files[most:]:
            path.unlink(missing_ok=True)
