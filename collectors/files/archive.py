"""Open what a user names: a file, a folder, an archive, a compressed file, or these nested.

Nothing is ever written under a name that an archive gives: members go into one spool file
(large ones into a numbered file each) in a temporary folder that vanishes with the ``Store``.
So an archive cannot write outside, whatever its names say; names that try are refused all the
same, because an archive that holds one is not what it seems. Damage costs what is damaged:
everything before it, and every other file, is read.
"""

from __future__ import annotations

import shlex
import stat
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.facts import Gap, Who, replace
from whyhang.analyzer.reading import HEAD_BYTES, Document
from whyhang.collectors.files import naming, remote, unpack
from whyhang.collectors.files.listing import (
    LONGEST_NAME,
    UNREADABLE,
    Item,
    Unopened,
    clean,
    gap,
    reason,
    walk,
)
from whyhang.collectors.files.meter import Meter
from whyhang.collectors.files.remote import RemoteFile
from whyhang.collectors.files.spool import (
    MIB,
    Extent,
    SpentError,
    Spool,
    UnpackBudget,
    UnpackLimits,
)

STDIN = "-"
START_BYTES = 8
DUMP_BYTES = 4 * MIB
"""Up to here a pickle is read once and whole: its reader needs all of it, and nobody else any."""


class Store(AbstractContextManager["Store"]):
    """Finds the files in what the user named, and holds what was unpacked until it is closed."""

    def __init__(self, limits: UnpackLimits | None = None) -> None:
        self.limits = limits or UnpackLimits()
        self.meter = Meter()
        # All files, by the path under which they are cited.
        self.files: dict[str, Extent | RemoteFile] = {}
        self._budget = UnpackBudget(self.limits)
        self._spool = Spool(self._budget)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove what was unpacked."""
        self._spool.close()

    def expand(self, file: Unopened) -> Iterator[Item | Gap]:
        """Yield the file itself, or what is in it."""
        item = file.item
        try:
            with item.extent.open() as stream:
                start = stream.read(unpack.MAGIC_BYTES)
        except (OSError, ValueError) as error:
            yield gap(item.path, f"it cannot be read ({reason(error)})", remedy=UNREADABLE)
            return
        try:
            yield from self._expand(item, start, 0, asked=file.asked, inside=file.inside)
        except (OSError, RuntimeError) as error:
            yield gap(item.path, f"it cannot be looked at ({reason(error)})")

    def listed(
        self, named: str | Path, shown: str | None = None
    ) -> Iterator[Unopened | Item | Gap]:
        """Yield every file in ``named``, archives not yet looked into, in order of name.

        Paths are relative to ``named``. ``shown`` is put in front of them, or, for a single
        file, stands for its name: what is named beside others must be told from them.
        """
        path = Path(named)
        if str(named) == STDIN:
            if sys.stdin is None:
                yield gap(shown or "stdin", "standard input is closed")
                return
            self.meter.start("reading standard input")
            yield from self._to_its_end(sys.stdin.buffer, shown or "stdin")
            self.meter.stop()
            return
        if remote.is_remote(str(named)):
            yield from self._remote(str(named), shown)
            return
        try:
            state = path.stat()
        except (OSError, ValueError) as error:
            yield gap(str(named), f"it cannot be opened ({reason(error)})", remedy="Check the path")
            return
        if stat.S_ISDIR(state.st_mode):
            yield from walk(path, path.resolve(), shown or "", self.limits.folder_depth)
        elif stat.S_ISREG(state.st_mode):
            extent = Extent(local=str(path), size=state.st_size)
            item = Item(path=shown or clean(path.name), extent=extent)
            yield Unopened(item=item, asked=True, inside="" if shown is None else None)
        else:
            yield gap(
                str(named),
                "it is neither a file nor a folder",
                remedy="If it is a pipe, give its content as standard input: "
                f"whyhang - < {shlex.quote(str(named))}",
            )

    def document(self, item: Item, who: Who | None = None) -> Document | Gap:
        """Open one file; ``who`` is whose it is, if not what its name says."""
        is_dump = item.start.startswith(b"\x80") and item.size <= DUMP_BYTES
        try:
            with item.extent.open() as stream:
                head = stream.read(item.size if is_dump else HEAD_BYTES)
        except (OSError, ValueError) as error:
            return gap(item.path, f"it cannot be read ({reason(error)})", remedy=UNREADABLE)
        return Document(
            path=item.path,
            head=head,
            size=item.size,
            open=item.extent.open,
            who=naming.from_path(item.path) if who is None else who,
            local=item.extent.path,
        )

    def _to_its_end(self, stream: unpack.Stream, shown: str) -> Iterator[Item | Gap]:
        """Keep a stream of which nobody tells how long it is."""
        try:
            yield from self._keep(unpack.Charged(stream, self._budget.spend), shown, 0)
        except SpentError as error:
            yield gap(shown, str(error), cost=_REST, remedy=error.remedy)

    def _remote(self, url: str, shown: str | None) -> Iterator[Unopened | Item | Gap]:
        """Yield the files at a URL, as those of a folder here, or the one file that it names."""
        self.meter.start(f"listing {remote.without_secrets(url)}")
        try:
            folder = remote.RemoteFolder(url)
        except TargetError as error:
            yield gap(shown or url, error.message, remedy=error.remedy.rstrip("."))
            return
        finally:
            self.meter.stop()
        for file in folder.files:
            name = clean(folder.shown(file))
            if not folder.is_file and name[name.rfind(".") :].lower() in naming.NEVER_EVIDENCE:
                continue
            if shown is not None:
                name = shown if folder.is_file else f"{shown}/{name}"
            if file.size < 0:
                try:
                    with file.open() as stream:
                        yield from self._to_its_end(stream, name)
                except OSError as error:
                    yield gap(name, f"it cannot be read ({reason(error)})")
                continue
            inside = "" if folder.is_file and shown is None else None
            item = Item(path=name, extent=file)
            yield Unopened(item=item, asked=folder.is_file, inside=inside)

    def _expand(
        self,
        item: Item,
        start: bytes,
        depth: int,
        *,
        asked: bool = False,
        inside: str | None = None,
    ) -> Iterator[Item | Gap]:
        """Yield the file itself, or what is in it if it is an archive or compressed.

        ``start`` are its first bytes. ``depth`` counts the archives around it. ``asked``: the user
        named it. ``inside`` is put before the names of members, else the archive's own path is.
        """
        is_other_zip = unpack.is_zip(start) and not (asked or item.path.endswith(".zip"))
        if is_other_zip or not unpack.is_packed(start):
            yield replace(item, start=start[:START_BYTES])
        elif depth >= self.limits.depth:
            yield gap(item.path, f"archives are nested deeper than {self.limits.depth} levels")
        else:
            inside = item.path + "/" if inside is None else inside
            yield from self._unpack(item, start, depth, inside)

    def _unpack(self, item: Item, start: bytes, depth: int, inside: str) -> Iterator[Item | Gap]:
        self._budget.enter(item.size)
        try:
            with item.extent.open() as raw:
                self.meter.start(f"unpacking {item.path}", item.size)
                for member in unpack.members(raw, start, self._budget.spend):
                    self.meter.at(raw.tell(), item.path)
                    name = clean(member.name).removeprefix("./")
                    shown = inside + name[:LONGEST_NAME] if name else item.path
                    if why := refusal(member):
                        yield gap(shown, why)
                    elif member.stream is not None:
                        self._budget.count_member()
                        yield from self._keep(member.stream, shown, depth + 1)
        except SpentError as error:
            if error.depth < depth:
                raise  # what is spent is the share of an archive around this one
            yield gap(item.path, str(error), cost=_REST, remedy=error.remedy)
        finally:
            self._budget.leave()

    def _keep(self, stream: unpack.Stream, shown: str, depth: int) -> Iterator[Item | Gap]:
        """Copy a stream into the temporary folder and yield what it holds.

        Raises ``SpentError`` when the budget ends it, after what came before.
        """
        most = self.limits.member_bytes
        extent, start, error = self._spool.keep(stream, most)
        if isinstance(error, SpentError) and error.bomb:
            raise error
        if extent.size or error is None:
            yield from self._expand(Item(path=shown, extent=extent), start, depth)
        if isinstance(error, SpentError):
            raise error
        if error is not None:
            yield gap(shown, f"it is damaged or cut off ({reason(error)})", cost=_REST)
        elif extent.size >= most:
            why = f"it unpacks to more than {most / MIB:,.0f} MiB and was left there"
            yield gap(shown, why, cost=_REST)


_REST = "what comes after that in it is not known"


def refusal(member: unpack.ArchiveMember) -> str:
    """Say why a member is not read; "" for one that is."""
    name = member.name
    parts = name.replace("\\", "/").split("/")
    if name.startswith(("/", "\\")) or ".." in parts or name[1:3] in (":/", ":\\"):
        return "its name leads out of the archive"
    if max(map(len, parts)) > LONGEST_NAME:
        return "its name is longer than file systems allow"
    return member.why
