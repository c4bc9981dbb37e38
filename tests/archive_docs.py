"""Small archives for tests, and what is read from them."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import zstandard

from whyhang.analyzer.facts import Gap
from whyhang.analyzer.reading import Document
from whyhang.collectors.files.archive import Store, UnpackLimits
from whyhang.collectors.files.listing import Item, Unopened

MIB = 1 << 20


def find(store: Store, path: Path) -> Iterator[Item | Gap]:
    """Yield every file in what a user names."""
    for file in store.listed(path):
        yield from store.expand(file) if isinstance(file, Unopened) else [file]


def tar_of(*members: tuple[str, bytes], extra: tuple[tarfile.TarInfo, ...] = ()) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for info in extra:
            archive.addfile(info, io.BytesIO(b"x" * info.size))
    return data.getvalue()


def zip_of(*members: tuple[str, bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return data.getvalue()


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def unpacked(path: Path, limits: UnpackLimits | None = None) -> tuple[dict[str, bytes], list[str]]:
    """Give every document's bytes by its path, and why the rest was not read."""
    contents: dict[str, bytes] = {}
    troubles: list[str] = []
    with Store(limits) as store:
        for item in list(find(store, path)):
            made = store.document(item) if isinstance(item, Item) else item
            if isinstance(made, Document):
                with made.open() as stream:
                    contents[made.path] = stream.read()
                assert made.size == len(contents[made.path])
                assert contents[made.path].startswith(made.head)
            else:
                assert isinstance(made, Gap)
                troubles.append(f"{made.what}: {made.why}")
    return contents, troubles


MEMBERS = (("rank0.txt", b"zero"), ("logs/rank1.txt", b"one"))
CONTENTS = dict(MEMBERS)
