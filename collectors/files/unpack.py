"""Take archives and compressed files apart as streams, in bounded memory.

Formats are told by their first bytes, never by their name. A compressed tar is one step. All
streams give what they can before they complain: the exceptions that damage may raise are
listed in ``DAMAGE``.
"""

from __future__ import annotations

import bz2
import enum
import gzip
import io
import lzma
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO, cast

from whyhang.analyzer.facts import Record

CHUNK = 64 * 1024
MAGIC_BYTES = 512  # a tar names itself at byte 257
TAR_MAGIC = slice(257, 262)

# A window larger than this would take as much memory from whoever opens the file.
ZSTD_WINDOW = 1 << 28
# Long names and pax records are read into memory whole; real ones are a few hundred bytes.
TAR_HEADER_BYTES = 1 << 20


class DamagedError(Exception):
    """A stream that cannot be read on; wraps what zstandard raises, which is imported late."""


DAMAGE = (
    DamagedError,
    OSError,  # gzip.BadGzipFile among them
    EOFError,
    ValueError,
    RuntimeError,  # an encrypted zip member, an unknown zip method
    KeyError,
    IndexError,
    OverflowError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
)


class Kind(enum.Enum):
    """An archive or compression that can be opened."""

    GZIP = "gzip"
    ZSTD = "zstd"
    XZ = "xz"
    BZIP2 = "bzip2"
    TAR = "tar"
    ZIP = "zip"


_MAGIC: tuple[tuple[bytes, Kind], ...] = (
    (b"\x1f\x8b\x08", Kind.GZIP),
    (b"\x28\xb5\x2f\xfd", Kind.ZSTD),
    (b"\xfd7zXZ\x00", Kind.XZ),
    (b"BZh", Kind.BZIP2),
    (b"PK\x03\x04", Kind.ZIP),
    (b"PK\x05\x06", Kind.ZIP),
)


class Member:
    """A file in an archive. ``name`` is None for the content of a compressed file.

    ``stream`` is good until the next member is asked for.
    """

    def __init__(self, name: str | None, stream: BinaryIO) -> None:
        self.name = name
        self.stream = stream


class Refused(Record):
    """A member, or the rest of an archive (no name), that is not read, and why."""

    name: str
    why: str


def kind_of(head: bytes) -> Kind | None:
    """Tell from the first ``MAGIC_BYTES`` what kind of archive this is; None for a plain file."""
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            # "BZh" may start a text; the block size and the first block's mark may not.
            if kind is Kind.BZIP2 and head[4:10] not in (b"1AY&SY", b"\x17rE8P\x90"):
                continue
            return kind
    return Kind.TAR if head[TAR_MAGIC] == b"ustar" else None


def members(raw: BinaryIO, kind: Kind) -> Iterator[Member | Refused]:
    """Yield what is in an archive, in its order; damage ends the archive with a ``Refused``."""
    if kind is Kind.ZIP:
        yield from _zip(raw)
    elif kind is Kind.TAR:
        yield from _tar(raw)
    else:
        stream = decompress(raw, kind)
        start, trouble = _first(stream, MAGIC_BYTES)
        whole = cast("BinaryIO", _Joined(start, stream, trouble))
        if start[TAR_MAGIC] == b"ustar":
            yield from _tar(whole)
        else:
            yield Member(None, whole)


def decompress(raw: BinaryIO, kind: Kind) -> BinaryIO:
    """Give the plain bytes of a compressed stream; frames that follow each other are joined."""
    if kind is Kind.GZIP:
        return cast("BinaryIO", gzip.GzipFile(fileobj=raw))
    if kind is Kind.XZ:
        return cast("BinaryIO", lzma.LZMAFile(raw))
    if kind is Kind.BZIP2:
        return cast("BinaryIO", bz2.BZ2File(raw))
    return cast("BinaryIO", _Zstd(raw))


def read_some(stream: BinaryIO) -> bytes:
    """Read at most ``CHUNK`` bytes, so that damage further on does not cost these."""
    reader = getattr(stream, "read1", stream.read)
    chunk: bytes = reader(CHUNK)
    return chunk


class _Chunks(io.RawIOBase):
    """A read-only stream whose ``read`` may give less than asked for, but never nothing early."""

    def readable(self) -> bool:
        return True

    def read1(self, size: int = -1, /) -> bytes:
        return self.read(size)

    def read(self, size: int = -1, /) -> bytes:
        raise NotImplementedError

    def readinto(self, buffer: bytearray, /) -> int:  # type: ignore[override]
        chunk = self.read(len(buffer))
        buffer[: len(chunk)] = chunk
        return len(chunk)


class _Zstd(_Chunks):
    """Zstandard frames as a stream.

    The library's own reader ends quietly where a file was cut off, so its lower interface is
    used, which tells. Input goes in by 2 KiB: a frame can grow 32,768-fold.
    """

    _INPUT = 2048

    def __init__(self, raw: BinaryIO) -> None:
        import zstandard  # noqa: PLC0415 - takes 10 ms, and few need it

        self._raw = raw
        self._error = zstandard.ZstdError
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW)
        self._frame = self._decompressor.decompressobj()
        self._begun = False
        self._left = b""

    def read(self, size: int = -1, /) -> bytes:
        want = CHUNK if size < 0 else size
        while not self._left and self._more():
            pass
        chunk, self._left = self._left[:want], self._left[want:]
        return chunk

    def _more(self) -> bool:
        """Unpack a little more; False at the end of the file."""
        packed = self._raw.read(self._INPUT)
        if not packed:
            if self._begun:
                raise EOFError("the compressed data ends before its end-of-frame mark")
            return False
        try:
            while packed:
                self._begun = True
                self._left += self._frame.decompress(packed)
                packed = b""
                if self._frame.eof:
                    packed = self._frame.unused_data
                    self._frame = self._decompressor.decompressobj()
                    self._begun = False
        except self._error as error:
            raise DamagedError(str(error)) from error
        return True


class _Joined(_Chunks):
    """A stream with the bytes that were already read from it put back in front."""

    def __init__(self, start: bytes, rest: BinaryIO, trouble: BaseException | None) -> None:
        self._start = start
        self._rest = rest
        self._trouble = trouble

    def read(self, size: int = -1, /) -> bytes:
        if self._start:
            end = len(self._start) if size < 0 else size
            chunk, self._start = self._start[:end], self._start[end:]
            return chunk
        if self._trouble is not None:
            raise self._trouble
        want = CHUNK if size < 0 else min(size, CHUNK)
        return self._rest.read1(want) if hasattr(self._rest, "read1") else self._rest.read(want)


def _first(stream: BinaryIO, size: int) -> tuple[bytes, BaseException | None]:
    """Read the first bytes of a stream, and the trouble that ended them early, if any."""
    start = b""
    try:
        while len(start) < size and (chunk := read_some(stream)):
            start += chunk
    except DAMAGE as error:
        return start, error
    return start, None


class _SaneTarInfo(tarfile.TarInfo):
    """A tar header whose long names cannot fill the memory."""

    _LONG = (
        tarfile.GNUTYPE_LONGNAME,
        tarfile.GNUTYPE_LONGLINK,
        tarfile.XHDTYPE,
        tarfile.XGLTYPE,
        tarfile.SOLARIS_XHDTYPE,
    )

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in self._LONG and self.size > TAR_HEADER_BYTES:
            raise tarfile.ReadError("a name of more than 1 MiB")
        member: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        return member


def _tar(raw: BinaryIO) -> Iterator[Member | Refused]:
    try:
        with tarfile.open(
            fileobj=raw, mode="r|", tarinfo=_SaneTarInfo, errors="replace"
        ) as archive:
            for info in archive:
                archive.members.clear()  # type: ignore[attr-defined]  # tarfile would remember each of a million members
                yield from _tar_member(archive, info)
    except DAMAGE as error:
        yield Refused(name="", why=f"the archive is damaged or cut off ({error})")


def _tar_member(archive: tarfile.TarFile, info: tarfile.TarInfo) -> Iterator[Member | Refused]:
    if info.isdir():
        return
    if outside(info.name):
        yield Refused(name=info.name, why="its name leads out of the archive")
    elif info.issym() or info.islnk():
        yield Refused(name=info.name, why="it is a link, and links in archives are not followed")
    elif not info.isreg():
        yield Refused(name=info.name, why="it is a device or pipe")
    else:
        stream = archive.extractfile(info)
        if stream is not None:
            yield Member(info.name, cast("BinaryIO", stream))


def _zip(raw: BinaryIO) -> Iterator[Member | Refused]:
    try:
        archive = zipfile.ZipFile(raw)
    except DAMAGE as error:
        yield Refused(name="", why=f"the archive is damaged or cut off ({error})")
        return
    with archive:
        for info in archive.infolist():
            if info.is_dir():
                continue
            if outside(info.filename):
                yield Refused(name=info.filename, why="its name leads out of the archive")
                continue
            if stat.S_ISLNK(info.external_attr >> 16):
                yield Refused(
                    name=info.filename, why="it is a link, and links in archives are not followed"
                )
                continue
            try:
                with archive.open(info) as stream:
                    yield Member(info.filename, cast("BinaryIO", stream))
            except DAMAGE as error:
                yield Refused(name=info.filename, why=f"it cannot be unpacked ({error})")


def outside(name: str) -> bool:
    """Tell whether a member's name would lead out of the folder it is unpacked in."""
    parts = name.replace("\\", "/").split("/")
    return name.startswith(("/", "\\")) or ".." in parts or name[1:3] in (":/", ":\\")
