"""Open what a user names: a file, a folder, an archive, a compressed file, or these nested.

Nothing is ever written under a name that an archive gives: members go into one spool file
(large ones into a numbered file each) in a temporary folder that vanishes with the ``Store``.
So an archive cannot write outside, whatever its names say; names that try are refused all
the same, because an archive that holds one is not what it seems. Damage costs what is
damaged: everything before it, and every other file, is read.
"""

from __future__ import annotations

import functools
import io
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from whyhang.analyzer.facts import Gap, Record, Source, Who, replace
from whyhang.analyzer.reading import HEAD_BYTES, Document
from whyhang.collectors.files import naming, unpack
from whyhang.collectors.files.meter import Meter

MIB = 1 << 20
STDIN = "-"
START_BYTES = 8
DUMP_BYTES = 4 * MIB
"""Up to here a pickle is read once and whole: its reader needs all of it, and nobody else any."""

# Large files that are never evidence; opening checkpoints of many gigabytes (which are zip
# files) would take longer than the diagnosis. A file that the user names himself is read.
NOT_EVIDENCE = frozenset(
    {".pt", ".pth", ".ckpt", ".safetensors", ".npz", ".npy", ".onnx", ".h5", ".hdf5"}
    | {".whl", ".jar", ".egg", ".so", ".a", ".o", ".pyc", ".docx", ".xlsx", ".iso"}
    | {".parquet", ".arrow", ".tfrecord", ".tfevents"}
    | {".png", ".jpg", ".jpeg", ".gif", ".mp4", ".pdf"}
)


_BOMB = "it grows without end when it is unpacked, as a bomb does, and was left out"


class Limits(Record):
    """How much is taken from archives before the rest is left: bytes, counts, levels.

    ``ratio`` and ``ratio_free_bytes``: a stream that grows by more than this factor, and to
    more than this size, is taken for a bomb (logs compress by 10 to 100).
    """

    total_bytes: int = 32 << 30
    member_bytes: int = 8 << 30
    members: int = 1_000_000
    depth: int = 4
    folder_depth: int = 64
    ratio: int = 1000
    ratio_free_bytes: int = 256 * MIB
    own_file_bytes: int = 8 * MIB  # members from this size on get a file of their own


class Item(Record):
    """A file that was found: what is needed to make a Document of it. ``start``: first bytes."""

    path: str
    size: int
    start: bytes = b""
    local: str | None = None
    offset: int | None = None  # in the spool file


class Store:
    """Finds the files in what the user named, and holds what was unpacked until it is closed."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._spool: BinaryIO | None = None
        self._spooled = 0
        self._unpacked = 0
        self._count = 0
        self.meter = Meter()

    def __enter__(self) -> Store:  # noqa: PYI034 - typing.Self is of Python 3.11
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._spool is not None:
            self._spool.close()
        if self._folder is not None:
            self._folder.cleanup()

    def find(self, named: str | Path, shown: str | None = None) -> Iterator[Item | Gap]:
        """Yield every file in ``named``, those in archives included, in order of name.

        Paths are relative to ``named``. ``shown`` is put in front of them, or, for a single
        file, stands for its name: what is named beside others must be told from them.
        """
        path = Path(named)
        if str(named) == STDIN:
            yield from self._standard_input(shown or "stdin")
            return
        try:
            state = path.stat()
        except (OSError, ValueError) as error:
            yield _gap(
                str(named), f"it cannot be opened ({_reason(error)})", remedy="Check the path"
            )
            return
        if stat.S_ISDIR(state.st_mode):
            yield from self._walk(path, path.resolve(), shown or "", 0)
        elif stat.S_ISREG(state.st_mode):
            item = Item(path=shown or clean(path.name), size=state.st_size, local=str(path))
            yield from self._expand(item, 0, asked=True, inside="" if shown is None else None)
        else:
            yield _gap(
                str(named),
                "it is neither a file nor a folder",
                remedy=f"If it is a pipe, give its content as standard input: whyhang - < {named}",
            )

    def document(self, item: Item, who: Who | None = None) -> Document | Gap:
        """Open one file that ``find`` gave; ``who`` is whose it is, if not what its name says."""
        try:
            with self._open(item) as stream:
                head = stream.read(item.size if _is_dump(item) else HEAD_BYTES)
        except (OSError, ValueError) as error:
            return _gap(
                item.path,
                f"it cannot be read ({_reason(error)})",
                remedy="Make it readable for this user",
            )
        return Document(
            path=item.path,
            head=head,
            size=item.size,
            open=functools.partial(self._open, item),
            who=naming.from_path(item.path) if who is None else who,
            local=item.local,
        )

    def _open(self, item: Item) -> BinaryIO:
        if item.offset is None:
            return open(item.local or item.path, "rb")  # noqa: PTH123 - 100,000 times
        if self._spool is None or self._spool.closed:
            raise OSError("the archive was closed")
        self._spool.flush()
        # Without the file's own place, which workers share.
        return io.BytesIO(os.pread(self._spool.fileno(), item.size, item.offset))

    def _standard_input(self, shown: str) -> Iterator[Item | Gap]:
        """Keep what comes in to its end, then look at it as at any file."""
        if sys.stdin is None:
            yield _gap(shown, "standard input is closed")
            return
        self.meter.start("reading standard input")
        kept = self._keep(shown, sys.stdin.buffer, self.limits.total_bytes)
        yield from self._kept(kept, shown, 0)
        self.meter.stop()

    def _walk(self, folder: Path, root: Path, shown: str, depth: int) -> Iterator[Item | Gap]:
        if depth > self.limits.folder_depth:
            yield _gap(shown, f"folders are nested deeper than {self.limits.folder_depth} levels")
            return
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: naming.natural(entry.name))
        except OSError as error:
            yield _gap(
                shown or str(folder),
                f"the folder cannot be listed ({_reason(error)})",
                remedy="Make it readable for this user",
            )
            return
        for entry in entries:
            name = f"{shown}/{clean(entry.name)}" if shown else clean(entry.name)
            yield from self._entry(entry, root, name, depth)

    def _entry(
        self, entry: os.DirEntry[str], root: Path, shown: str, depth: int
    ) -> Iterator[Item | Gap]:
        try:
            if entry.is_symlink():
                # What a link points at inside the folder is read there, once.
                if not Path(entry.path).resolve().is_relative_to(root):
                    yield _gap(
                        shown,
                        "it is a link that leads out of the folder",
                        remedy="Name its target as well to have it read",
                    )
            elif entry.is_dir():
                yield from self._walk(Path(entry.path), root, shown, depth + 1)
            elif not entry.is_file():
                yield _gap(shown, "it is a device, pipe or socket and was not opened")
            elif entry.name[entry.name.rfind(".") :].lower() not in NOT_EVIDENCE:
                item = Item(path=shown, size=entry.stat().st_size, local=entry.path)
                yield from self._expand(item, 0)
        except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links (3.12 and older)
            yield _gap(shown, f"it cannot be looked at ({_reason(error)})")

    def _expand(
        self, item: Item, level: int, *, asked: bool = False, inside: str | None = None
    ) -> Iterator[Item | Gap]:
        """Yield the file itself, or what is in it if it is an archive or compressed.

        ``asked``: the user named it. ``inside`` is put before the names of members, else the
        archive's own path is.
        """
        try:
            with self._open(item) as stream:
                start = stream.read(unpack.MAGIC_BYTES)
                kind = unpack.kind_of(start)
        except (OSError, ValueError) as error:
            yield _gap(
                item.path,
                f"it cannot be read ({_reason(error)})",
                remedy="Make it readable for this user",
            )
            return
        if kind is None or (kind is unpack.Kind.ZIP and not (asked or item.path.endswith(".zip"))):
            yield replace(item, start=start[:START_BYTES])
        elif level >= self.limits.depth:
            yield _gap(item.path, f"archives are nested deeper than {self.limits.depth} levels")
        else:
            prefix = item.path + "/" if inside is None else inside
            yield from self._unpack(item, kind, level, prefix)

    def _unpack(
        self, item: Item, kind: unpack.Kind, level: int, inside: str
    ) -> Iterator[Item | Gap]:
        with self._open(item) as raw:
            self.meter.start(f"unpacking {item.path}", item.size)
            for member in unpack.members(raw, kind):
                if isinstance(member, unpack.Refused):
                    yield _gap(
                        inside + clean(member.name) if member.name else item.path, member.why
                    )
                    continue
                shown = item.path
                if member.name is not None:
                    shown = inside + clean(member.name).removeprefix("./")
                if self._count >= self.limits.members:
                    yield _gap(item.path, f"it holds more than {self.limits.members} files")
                    return
                kept = self._keep(shown, member.stream, max(item.size, 1), raw)
                yield from self._kept(kept, shown, level)
                if self._unpacked >= self.limits.total_bytes:
                    yield _gap(item.path, _too_much(self.limits.total_bytes))
                    return

    def _kept(
        self, kept: tuple[Item | None, str | None], shown: str, level: int
    ) -> Iterator[Item | Gap]:
        item, trouble = kept
        if item is not None and (item.size or trouble is None):
            yield from self._expand(item, level + 1)
        if trouble is not None:
            yield _gap(shown, trouble, cost="what came after in it is not known")

    def _keep(
        self, shown: str, stream: BinaryIO, packed: int, raw: BinaryIO | None = None
    ) -> tuple[Item | None, str | None]:
        """Copy one member into the temporary folder; give it and what went wrong, if anything.

        ``packed`` is the size of what it is unpacked from, ``raw`` the place in it.
        """
        self._count += 1
        limits = self.limits
        allowed = min(limits.member_bytes, limits.total_bytes - self._unpacked)
        bomb = max(limits.ratio_free_bytes, packed * limits.ratio)
        spool = self._spool_file()
        target, offset, size, trouble = spool, self._spooled, 0, None
        own: str | None = None
        spool.seek(offset)
        try:
            while chunk := unpack.read_some(stream):
                size += len(chunk)
                if size > min(allowed, bomb):
                    size -= len(chunk)
                    trouble = _too_much(allowed) if allowed < bomb else _BOMB
                    break
                if own is None and size > limits.own_file_bytes:
                    own = str(Path(self._temporary()) / f"{self._count:07d}")
                    target = self._move(spool, offset, size - len(chunk), own)
                target.write(chunk)
                self.meter.at(size if raw is None else raw.tell(), shown)
        except unpack.DAMAGE as error:
            trouble = f"it is damaged or cut off ({_reason(error)})"
        finally:
            if own is not None:
                target.close()
        if trouble is _BOMB:
            return None, trouble
        self._unpacked += size
        if own is not None:
            return Item(path=shown, size=size, local=own), trouble
        self._spooled += size
        return Item(path=shown, size=size, offset=offset), trouble

    def _move(self, spool: BinaryIO, offset: int, size: int, own: str) -> BinaryIO:
        """Take a member that grew large out of the spool, into a file of its own."""
        spool.seek(offset)
        target = Path(own).open("wb")  # noqa: SIM115 - closed by the caller
        target.write(spool.read(size))
        return target

    def _spool_file(self) -> BinaryIO:
        if self._spool is None:
            self._spool = (Path(self._temporary()) / "spool").open("w+b")
        return self._spool

    def _temporary(self) -> str:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="whyhang-")
            # Never fill the disk of the machine that hangs.
            free = shutil.disk_usage(self._folder.name).free
            total = min(self.limits.total_bytes, free * 9 // 10)
            self.limits = replace(self.limits, total_bytes=total)
        return self._folder.name


def clean(name: str) -> str:
    """Make a file name safe to print: no control characters, no broken Unicode."""
    if name.isprintable():
        return name
    whole = name.encode("utf-8", "replace").decode("utf-8", "replace")
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in whole)


def _too_much(limit: int) -> str:
    return f"it unpacks to more than {limit / MIB:,.0f} MiB and was left there"


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)[:120] or type(error).__name__


def _gap(path: str, why: str, *, cost: str = "", remedy: str = "") -> Gap:
    return Gap(what=f"reading {path}", why=why, cost=cost, remedy=remedy, source=Source(file=path))


def _is_dump(item: Item) -> bool:
    return item.start.startswith(b"\x80") and item.size <= DUMP_BYTES
