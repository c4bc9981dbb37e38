"""Take archives, compressed files and text in UTF-16 apart as streams, in bounded memory.

Formats are told by their first bytes, never by their name. A compressed tar is one step. All
streams give what they can before they complain: the exceptions that damage may raise are
listed in ``DAMAGE``.
"""

import bz2
import codecs
import gzip
import io
import lzma
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple, Protocol, TypeAlias, cast

import zstandard

CHUNK = 64 * 1024
MAGIC_BYTES = 512  # a tar names itself at byte 257
TAR_MAGIC = slice(257, 262)

# A window larger than this would take as much memory from whoever opens the file.
ZSTD_WINDOW = 1 << 28
# Long names and pax records are read into memory whole; real ones are a few hundred bytes.
TAR_HEADER_BYTES = 1 << 20
# An archive that tells a size beyond its end would be read on and on.
MAX_READS_AT_END = 64

LEAST_LETTERS = 32  # letters by which a text in UTF-16 without a mark is known
_TEXT = bytes([*b"\t\n\r\x1b", *range(0x20, 0x7F)])

LINK = "it is a link, and links in archives are not followed"

DAMAGE = (
    zstandard.ZstdError,
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


Charge: TypeAlias = Callable[[int], None]


class Stream(Protocol):
    """What bytes are read from; a read may give fewer than asked for, and none at the end."""

    def read(self, size: int, /) -> bytes:
        """Give at most ``size`` bytes."""


class ArchiveMember(NamedTuple):
    """A file in an archive; without a name the content of a compressed file, or an archive's rest.

    ``stream`` is good until the next member is asked for; None where it is not read, and ``why``.
    """

    name: str
    stream: Stream | None
    why: str = ""


def is_zip(start: bytes) -> bool:
    """Return whether a file that begins so is a zip archive."""
    return start.startswith((b"PK\x03\x04", b"PK\x05\x06"))


def is_packed(start: bytes) -> bool:
    """Return whether a file that begins so, with ``MAGIC_BYTES``, must be unpacked to be read."""
    return is_zip(start) or start[TAR_MAGIC] == b"ustar" or _opener(start) is not None


def members(raw: BinaryIO, start: bytes, charge: Charge) -> Iterator[ArchiveMember]:
    """Yield what is in an archive, in its order; damage ends it with a member that is not read.

    ``start`` are its first bytes. ``charge`` is called with the size of whatever is unpacked,
    read or skipped. What it raises ends the unpacking.
    """
    if is_zip(start):
        yield from _zip(raw, charge)
        return
    opener = _opener(start)
    unpacked = Charged(raw if opener is None else opener(raw), charge)
    if unpacked.peek(MAGIC_BYTES)[TAR_MAGIC] == b"ustar":
        yield from _tar(unpacked)
    else:
        yield ArchiveMember("", unpacked)


def _opener(start: bytes) -> Callable[[BinaryIO], Stream] | None:
    """Return what gives the plain bytes of a compressed stream; frames that follow are joined."""
    order = _utf16(start)
    if order is not None:
        return lambda raw: _Utf16(raw, order)
    return next((opener for magic, opener in _COMPRESSED if start.startswith(magic)), None)


def _utf16(start: bytes) -> str | None:
    """Return in which order of bytes a file is text in UTF-16, as a shell of Windows writes it.

    By the mark in front, or since every other byte of a text in English is zero.
    """
    for mark, order in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        if start.startswith(mark) and not start.startswith(codecs.BOM_UTF32_LE):
            return order
    for low, high, order in ((0, 1, "utf-16-le"), (1, 0, "utf-16-be")):
        letters, zeros = start[low::2], start[high::2]
        if len(zeros) >= LEAST_LETTERS and not any(zeros) and not letters.translate(None, _TEXT):
            return order
    return None


def read_some(stream: Stream, size: int = CHUNK) -> bytes:
    """Read at most ``size`` bytes, so that damage further on does not cost these."""
    read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
    return read(size)


class Charged:
    """A stream whose bytes are charged as they are read, and whose damage comes after them."""

    def __init__(self, stream: Stream, charge: Charge) -> None:
        self._stream = stream
        self._charge = charge
        self._ahead = b""
        self._damage: BaseException | None = None
        self._reads_at_end = 0

    def peek(self, size: int) -> bytes:
        """Give the first bytes, which stay to be read."""
        try:
            while len(self._ahead) < size and (chunk := self._fresh()):
                self._ahead += chunk
        except DAMAGE as error:
            self._damage = error
        return self._ahead[:size]

    def read(self, size: int, /) -> bytes:
        """Give at most ``size`` bytes. Raises what ``charge`` raises, and the damage."""
        if self._ahead:
            chunk, self._ahead = self._ahead[:size], self._ahead[size:]
            return chunk
        if self._damage is not None:
            raise self._damage
        return self._fresh(size)

    def _fresh(self, size: int = CHUNK) -> bytes:
        chunk = read_some(self._stream, min(size, CHUNK))
        self._reads_at_end = 0 if chunk else self._reads_at_end + 1
        if self._reads_at_end > MAX_READS_AT_END:
            raise EOFError("it ends before the size that it tells")
        self._charge(len(chunk))
        return chunk


class _Zstd:
    """Zstandard frames as a stream.

    The library's own reader ends quietly where a file was cut off, so its lower interface is
    used, which tells. Input goes in by 2 KiB: a frame can grow 32,768-fold.
    """

    _INPUT = 2048

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW)
        self._frame = self._decompressor.decompressobj()
        self._in_frame = False
        self._unpacked = io.BytesIO()

    def read(self, size: int, /) -> bytes:
        while not (chunk := self._unpacked.read(size)):
            packed = self._raw.read(self._INPUT)
            if not packed and self._in_frame:
                raise EOFError("the compressed data ends before its end-of-frame mark")
            if not packed:
                break
            self._unpacked = io.BytesIO(b"".join(self._more(packed)))
        return chunk

    def _more(self, packed: bytes) -> Iterator[bytes]:
        while packed:
            yield self._frame.decompress(packed)
            self._in_frame = not self._frame.eof
            packed = b""
            if self._frame.eof:
                packed = self._frame.unused_data
                self._frame = self._decompressor.decompressobj()


class _Utf16:
    """Text in UTF-16 as a stream of UTF-8; what is no text becomes U+FFFD."""

    def __init__(self, raw: BinaryIO, order: str) -> None:
        self._raw = raw
        self._decoder = codecs.getincrementaldecoder(order)("replace")
        self._text = io.BytesIO()

    def read(self, size: int, /) -> bytes:
        while not (chunk := self._text.read(size)):
            data = self._raw.read(CHUNK)
            text = self._decoder.decode(data, final=not data)
            if not data and not text:
                break
            self._text = io.BytesIO(text.replace("\ufeff", "").encode("utf-8", "replace"))
        return chunk


# "BZh" may start a text; with the block size and the first block's mark it may not.
_BZIP2 = tuple(
    b"BZh%d%s" % (size, mark) for size in range(1, 10) for mark in (b"1AY&SY", b"\x17rE8P\x90")
)
_COMPRESSED: tuple[tuple[bytes | tuple[bytes, ...], Callable[[BinaryIO], Stream]], ...] = (
    (b"\x1f\x8b\x08", lambda raw: gzip.GzipFile(fileobj=raw)),
    (b"\x28\xb5\x2f\xfd", _Zstd),
    (b"\xfd7zXZ\x00", lzma.LZMAFile),
    (_BZIP2, bz2.BZ2File),
)


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


def _tar(unpacked: Charged) -> Iterator[ArchiveMember]:
    try:
        with tarfile.open(
            fileobj=cast("BinaryIO", unpacked), mode="r|", tarinfo=_SaneTarInfo, errors="replace"
        ) as archive:
            for info in archive:
                archive.members.clear()  # type: ignore[attr-defined]  # tarfile would remember all
                if info.issym() or info.islnk():
                    yield ArchiveMember(info.name, None, LINK)
                elif info.isreg():
                    yield ArchiveMember(info.name, archive.extractfile(info))
                elif not info.isdir():
                    yield ArchiveMember(info.name, None, "it is a device or pipe")
    except DAMAGE as error:
        yield ArchiveMember("", None, f"the archive is damaged or cut off ({error})")


def _zip(raw: BinaryIO, charge: Charge) -> Iterator[ArchiveMember]:
    try:
        archive = zipfile.ZipFile(raw)
    except DAMAGE as error:
        yield ArchiveMember("", None, f"the archive is damaged or cut off ({error})")
        return
    with archive:
        for info in archive.infolist():
            if stat.S_ISLNK(info.external_attr >> 16):
                yield ArchiveMember(info.filename, None, LINK)
            elif not info.is_dir():
                try:
                    with archive.open(info) as stream:
                        yield ArchiveMember(info.filename, Charged(stream, charge))
                except DAMAGE as error:
                    yield ArchiveMember(info.filename, None, f"it cannot be unpacked ({error})")
