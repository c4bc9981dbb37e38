"""A bundle: what was collected from a live job, as plain files with a manifest.

A folder or a ``.tar.zst``. ``manifest.json`` lists every file with what it is, of which
process, when and at which look it was taken. The rest is what each tool printed, with secrets
blanked, and for what whyhang read itself (processes, source lines, gaps) JSON of one shape:
``own_files.py``. A live run is read through the same documents as a saved one, so both give the
same facts.
"""

import contextlib
import functools
import io
import os
import shutil
import tarfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import zstandard

from whyhang.analyzer.errors import BundleError
from whyhang.analyzer.facts import Record, Trust, Who
from whyhang.analyzer.reading import HEAD_BYTES, Document

FORMAT = 1
MANIFEST = "manifest.json"
ARCHIVES = (".tar.zst", ".tzst")

# What msgspec raises: broken UTF-8 and deep nesting come as errors of Python.
DAMAGE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Entry(Record):
    """One file of a bundle. ``rank`` is that of the process itself, ``owner_rank`` of its rank."""

    path: str
    kind: str  # "py-spy", "py-spy-native", "processes", "stores", "excerpts", "claims", "gaps", ...
    host: str | None = None
    pid: int | None = None
    rank: int | None = None
    trust: Trust = Trust.NONE
    local_rank: int | None = None
    owner_rank: int | None = None
    role: str | None = None
    look: int | None = None
    taken_at: float | None = None

    def who(self) -> Who:
        """Say whom the file is about."""
        return Who(
            rank=self.rank,
            trust=self.trust,
            host=self.host,
            pid=self.pid,
            local_rank=self.local_rank,
        )


class Clock(Record):
    """How many seconds the clock of a host is ahead of that of whoever collected; how surely."""

    host: str
    ahead: float
    within: float


class Manifest(Record):
    """What a bundle says of itself. ``touched`` tells in words what was done to the target."""

    format: int = FORMAT
    tool: str = "whyhang"
    version: str = ""
    created_at: float | None = None
    created: str = ""
    host: str | None = None
    target: int | None = None
    looks: int = 0
    interval: float | None = None
    touched: tuple[str, ...] = ()
    clocks: tuple[Clock, ...] = ()
    files: tuple[Entry, ...] = ()


class Bundle(Record):
    """A bundle in memory: the manifest, and the bytes of each file by its path."""

    manifest: Manifest
    files: Mapping[str, bytes]


def read_manifest(data: bytes) -> Manifest:
    """Read a manifest. Raises ``BundleError`` if it is none, or of a newer format."""
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except DAMAGE as error:
        raise BundleError(f"this is no manifest of a bundle: {error}") from error
    if manifest.tool != "whyhang" or not 1 <= manifest.format <= FORMAT:
        raise BundleError(
            f"the bundle has format {manifest.format} of {manifest.tool!r}, this whyhang reads "
            f"format {FORMAT}",
            "Upgrade whyhang to the version that wrote it: it stands in manifest.json.",
        )
    return manifest


def is_manifest(path: str, head: bytes) -> bool:
    """Tell by name and first bytes whether a file is the manifest of a bundle."""
    return Path(path).name == MANIFEST and b'"whyhang"' in head[:4096]


def documents_of(bundle: Bundle) -> Iterator[Document]:
    """Give the files of a bundle in memory as documents, in the order of the manifest."""
    return (document_of(entry, bundle.files[entry.path]) for entry in bundle.manifest.files)


def document_of(entry: Entry, data: bytes) -> Document:
    """Give one file as a document."""
    return Document(
        path=entry.path,
        head=data[:HEAD_BYTES],
        size=len(data),
        open=functools.partial(io.BytesIO, data),
        who=entry.who(),
        look=entry.look,
        taken_at=entry.taken_at,
    )


def time_text(moment: float) -> str:
    """Write a time the way the manifest does: UTC, ISO 8601."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))


def write_bundle(bundle: Bundle, path: str | Path) -> None:
    """Write a bundle as a folder, or as one file if the name ends in ``.tar.zst``.

    Raises ``BundleError`` where that fails; nothing half-written is left.
    """
    target = Path(path)
    files = {MANIFEST: manifest_file(bundle.manifest), **bundle.files}
    try:
        check_name(target)
        if target.name.endswith(ARCHIVES):
            _write_archive(files, target, bundle.manifest.created_at or 0.0)
        else:
            _write_folder(files, target)
    except OSError as error:
        raise _unwritable(target, error.strerror or str(error)) from error


def check_name(path: str | Path) -> None:
    """Raise ``BundleError`` if no bundle can be written under this name."""
    target = Path(path)
    archive = target.name.endswith(ARCHIVES)
    if not archive and target.suffix in {".tar", ".tgz", ".gz", ".zip", ".zst", ".xz"}:
        raise BundleError(
            f"a bundle cannot be written as {target.suffix}",
            "Name a folder, or a file that ends in .tar.zst.",
        )
    try:
        exists = not archive and target.exists()
        if exists and (not target.is_dir() or any(target.iterdir())):
            raise BundleError(
                f"{target} is already there", "Name a new folder, so that two bundles do not mix."
            )
    except OSError as error:
        raise _unwritable(target, error.strerror or str(error)) from error
    if why := obstacle(target / MANIFEST if exists else target):
        raise _unwritable(target, why)


def obstacle(target: Path) -> str:
    """Return what keeps a new file or folder from being written, if that can be seen now.

    Folders that are missing above it are no obstacle: whoever writes makes them.
    """
    try:
        above = next(p for p in target.absolute().parents if p.exists())
        if not above.is_dir():
            return f"{above} is no folder"
    except OSError as error:
        return error.strerror or str(error)
    return "" if os.access(above, os.W_OK | os.X_OK) else f"{above} is not writable for this user"


def numbered(name: str, number: int) -> str:
    """Return a name for what is written of a second job or a later hang, beside the first."""
    if number < 2:
        return name
    path = Path(name)
    stem, dot, rest = path.name.partition(".")
    return str(path.with_name(f"{stem}-{number}{dot}{rest}"))


def _unwritable(target: Path, why: str) -> BundleError:
    return BundleError(
        f"the bundle could not be written to {target}: {why}",
        "Name a place with room that this user may write to.",
    )


def manifest_file(manifest: Manifest) -> bytes:
    """Write the manifest as JSON, indented."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


def _write_folder(files: Mapping[str, bytes], folder: Path) -> None:
    """Write into a folder that is not there, or empty; leave it so if that fails."""
    fresh = not folder.exists()
    try:
        for name, data in files.items():
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
    except BaseException:
        for name in {Path(name).parts[0] for name in files}:
            shutil.rmtree(folder / name, ignore_errors=True)
            with contextlib.suppress(OSError):
                (folder / name).unlink()
        if fresh:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


def archive(files: Mapping[str, bytes], moment: float) -> bytes:
    """Pack files as a ``.tar.zst``; all have the time ``moment``, in seconds since the epoch."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as packed:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(data), int(moment), 0o644
            packed.addfile(member, io.BytesIO(data))
    # a window over many files: what processes have in common is packed once
    how = zstandard.ZstdCompressionParameters.from_level(6, window_log=24, enable_ldm=True)
    return zstandard.ZstdCompressor(compression_params=how).compress(plain.getvalue())


def _write_archive(files: Mapping[str, bytes], target: Path, moment: float) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    try:
        part.write_bytes(archive(files, moment))
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
