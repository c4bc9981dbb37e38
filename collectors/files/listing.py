"""Files as they are listed, before any is looked into: which are left out, and why."""

import os
from collections.abc import Iterator
from pathlib import Path

from whyhang.analyzer.facts import Gap, Record, Source
from whyhang.collectors.files import naming
from whyhang.collectors.files.remote import RemoteFile
from whyhang.collectors.files.spool import Extent

LONGEST_NAME = 255
"""Characters of a name between two slashes, which is as many as file systems allow."""

UNREADABLE = "Make it readable for this user"


class Item(Record):
    """A file that was found. ``start``: its first bytes."""

    path: str
    extent: Extent | RemoteFile
    start: bytes = b""

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return self.extent.size


class Unopened(Record):
    """A file that was listed and not looked into: it may be an archive.

    ``asked``: the user named it. ``inside`` is put before the names of its members, else its own
    path is.
    """

    item: Item
    asked: bool = False
    inside: str | None = None


def walk(
    folder: Path, root: Path, shown: str, deepest: int, depth: int = 0
) -> Iterator[Unopened | Gap]:
    """Yield the files below a folder, in order of name, and why others cannot be.

    ``root`` is what links may lead into; ``shown`` the name under which the folder is cited.
    """
    if depth > deepest:
        yield gap(shown, f"folders are nested deeper than {deepest} levels")
        return
    try:
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: naming.natural(entry.name))
    except OSError as error:
        yield gap(
            shown or str(folder),
            f"the folder cannot be listed ({reason(error)})",
            remedy=UNREADABLE,
        )
        return
    for entry in entries:
        name = f"{shown}/{clean(entry.name)}" if shown else clean(entry.name)
        yield from _entry(entry, root, name, deepest, depth)


def _entry(
    entry: os.DirEntry[str], root: Path, shown: str, deepest: int, depth: int
) -> Iterator[Unopened | Gap]:
    try:
        if entry.is_symlink():
            # What a link points at inside the folder is read there, once.
            if not Path(entry.path).resolve().is_relative_to(root):
                yield gap(
                    shown,
                    "it is a link that leads out of the folder",
                    remedy="Name its target as well to have it read",
                )
        elif entry.is_dir():
            yield from walk(Path(entry.path), root, shown, deepest, depth + 1)
        elif not entry.is_file():
            yield gap(shown, "it is a device, pipe or socket and was not opened")
        elif entry.name[entry.name.rfind(".") :].lower() not in naming.NEVER_EVIDENCE:
            extent = Extent(local=entry.path, size=entry.stat().st_size)
            yield Unopened(item=Item(path=shown, extent=extent))
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links (3.12 and older)
        yield gap(shown, f"it cannot be looked at ({reason(error)})")


def clean(name: str) -> str:
    """Make a file name safe to print: no control characters, no broken Unicode."""
    if name.isprintable():
        return name
    whole = name.encode("utf-8", "replace").decode("utf-8", "replace")
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in whole)


def reason(error: BaseException) -> str:
    """Say in a few words what went wrong."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)[:120] or type(error).__name__


def gap(path: str, why: str, *, cost: str = "", remedy: str = "") -> Gap:
    """Say why a file was not read, or not whole."""
    return Gap(what=f"reading {path}", why=why, cost=cost, remedy=remedy, source=Source(file=path))
