"""A bundle: what was collected from a live job, as plain files with a manifest.

A folder or a ``.tar.zst``. ``manifest.json`` lists every file with what it is, of which
process, when and at which look it was taken. The rest is what each tool printed, with secrets
blanked, and for what whyhang read itself (processes, source lines, gaps) JSON of one shape:
``own_files.py``. A live run is read through the same documents as a saved one, so both give the
same facts.
"""

import functools
import io
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from whyhang.analyzer.errors import BundleError
from whyhang.analyzer.facts import Record, Trust, Who
from whyhang.analyzer.reading import HEAD_BYTES, Document

FORMAT = 1
MANIFEST = "manifest.json"

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
