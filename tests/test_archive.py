"""Archives and folders: everything readable is read, and nothing is written outside."""

from __future__ import annotations

import bz2
import errno
import fcntl
import gzip
import lzma
import os
import resource
import tarfile
import tempfile
from pathlib import Path

import pytest
from archive_docs import CONTENTS, MEMBERS, MIB, find, tar_of, unpacked, zip_of, zstd

from whyhang.analyzer.facts import Gap
from whyhang.analyzer.reading import Document
from whyhang.collectors.files import spool
from whyhang.collectors.files.archive import Store
from whyhang.collectors.files.listing import Item


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.tar", tar_of(*MEMBERS)),
        ("a.tar.gz", gzip.compress(tar_of(*MEMBERS))),
        ("a.tar.zst", zstd(tar_of(*MEMBERS))),
        ("a.tar.xz", lzma.compress(tar_of(*MEMBERS))),
        ("a.tar.bz2", bz2.compress(tar_of(*MEMBERS))),
        ("a.zip", zip_of(*MEMBERS)),
        ("no-suffix", gzip.compress(tar_of(*MEMBERS))),
    ],
)
def test_archives(tmp_path: Path, name: str, data: bytes) -> None:
    """Archives are told by their bytes; members have their own paths when one is named."""
    (tmp_path / name).write_bytes(data)

    assert unpacked(tmp_path / name) == (CONTENTS, [])


@pytest.mark.parametrize("pack", [gzip.compress, zstd, lzma.compress, bz2.compress])
def test_compressed_files(tmp_path: Path, pack: object) -> None:
    """A compressed file keeps its name and is plain inside; frames that follow are joined."""
    assert callable(pack)
    (tmp_path / "rank3.log.x").write_bytes(pack(b"first ") + pack(b"second"))

    assert unpacked(tmp_path) == ({"rank3.log.x": b"first second"}, [])


@pytest.mark.parametrize("order", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_text_in_utf_16(tmp_path: Path, order: str, pack: object) -> None:
    """What a shell of Windows wrote is read as the text that it is, with a mark or without."""
    assert callable(pack)
    text = "[rank1]: Watchdog caught collective operation timeout\r\n" * 9
    (tmp_path / "job.log").write_bytes(pack(text.encode(order)))

    assert unpacked(tmp_path) == ({"job.log": text.encode()}, [])


def test_text_in_utf_16_that_is_damaged(tmp_path: Path) -> None:
    """Half a letter and a lone surrogate cost themselves; small numbers of 16 bits are no text."""
    numbers = b"".join(number.to_bytes(2, "little") for number in range(200))
    (tmp_path / "cut.log").write_bytes("\ufeffrank é 3 ".encode("utf-16-le") + b"\x00\xd8a\x00b")
    (tmp_path / "numbers.bin").write_bytes(numbers)

    text = "rank é 3 \ufffda\ufffd".encode()
    assert unpacked(tmp_path) == ({"cut.log": text, "numbers.bin": numbers}, [])


def test_nested_archives(tmp_path: Path) -> None:
    """Archives in archives in a folder are read, and their paths lead to them."""
    inner = gzip.compress(tar_of(("deep.txt", b"deep")))
    (tmp_path / "all.tar.zst").write_bytes(zstd(tar_of(("x.zip", zip_of(("in.tgz", inner))))))

    assert unpacked(tmp_path) == ({"all.tar.zst/x.zip/in.tgz/deep.txt": b"deep"}, [])


def test_what_archives_must_not_do(tmp_path: Path) -> None:
    """Links, devices and names that lead outside are refused; the rest is read."""
    link, device, outside, absolute = (
        tarfile.TarInfo(name) for name in ("link", "device", "../../evil", "/etc/evil")
    )
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    device.type = tarfile.CHRTYPE
    outside.size = absolute.size = 3
    folder = tmp_path / "deep" / "deeper"
    folder.mkdir(parents=True)
    data = tar_of(*MEMBERS, extra=(link, device, outside, absolute))
    (folder / "a.tar").write_bytes(data)

    contents, troubles = unpacked(folder / "a.tar")

    assert contents == CONTENTS
    assert len(troubles) == 4
    assert not (tmp_path / "evil").exists()
    assert [entry.name for entry in folder.iterdir()] == ["a.tar"]


def test_temporary_files_vanish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was unpacked is gone when the store is closed."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    (tmp_path / "a.tar").write_bytes(tar_of(("big.log", os.urandom(9 * MIB)), *MEMBERS))

    contents, _ = unpacked(tmp_path / "a.tar")

    assert len(contents["big.log"]) == 9 * MIB
    assert list((tmp_path / "temporary").iterdir()) == []


def test_large_members_are_files(tmp_path: Path) -> None:
    """A large member lies in a file of its own; no member is said to be a file of the user's."""
    (tmp_path / "a.tar").write_bytes(tar_of(("big.log", b"x" * (9 * MIB)), ("small", b"x")))
    with Store() as store:
        items = [item for item in find(store, tmp_path / "a.tar") if isinstance(item, Item)]
        big, small = (store.document(item) for item in items)

        assert isinstance(big, Document)
        assert isinstance(small, Document)
        assert big.local is small.local is None
        with big.open() as stream:
            assert os.fstat(stream.fileno()).st_size == 9 * MIB


def test_folders(tmp_path: Path) -> None:
    """A folder is read in natural order; links are not followed, pipes are not opened."""
    inside = tmp_path / "inside"
    (inside / "sub").mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("secret")
    for name in ("rank10.txt", "rank9.txt", "sub/x.o", "model.pt"):
        (inside / name).write_text(name)
    (inside / "again.txt").symlink_to(inside / "rank9.txt")
    (inside / "out.txt").symlink_to(tmp_path / "secret.txt")
    (inside / "loop").symlink_to(inside)
    os.mkfifo(inside / "pipe")

    contents, troubles = unpacked(inside)

    assert list(contents) == [
        "rank9.txt",
        "rank10.txt",
        "sub/x.o",
    ]  # as PBS and Slurm scripts end them
    assert len(troubles) == 2


def test_unreadable_targets(tmp_path: Path) -> None:
    """A path that is not there, and one that is no file, are troubles."""
    os.mkfifo(tmp_path / "pipe")

    for name in ("missing", "pipe", "nul\0byte"):
        assert len(unpacked(tmp_path / name)[1]) == 1


def test_what_a_killed_run_left_is_removed(tmp_path: Path) -> None:
    """Gigabytes may lie there. What another run still uses, and what is no run's, stays."""
    names = ("dead", "busy", "young", "empty")
    killed, busy, young, empty = (tmp_path / f"whyhang-unpacked-{name}" for name in names)
    other = tmp_path / "whyhang-sample"
    for folder in (killed, busy, young, other):
        folder.mkdir()
        (folder / "spool").write_bytes(b"x")
    empty.mkdir()
    link = tmp_path / "whyhang-unpacked-link"
    link.symlink_to(other)
    for folder in (killed, busy, empty, other):
        os.utime(folder, (1, 1))
    with (busy / "spool").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        spool.remove_left_behind(tmp_path)

    assert sorted(tmp_path.iterdir()) == sorted([busy, young, empty, other, link])


def test_a_run_holds_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long ago it was made, nobody else removes it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "a.tar").write_bytes(tar_of(("log", b"x" * 100)))
    with Store() as store:
        assert list(find(store, tmp_path / "a.tar"))
        (folder,) = tmp_path.glob("whyhang-unpacked-*")
        os.utime(folder, (1, 1))

        spool.remove_left_behind(tmp_path)

        assert folder.is_dir()
    assert not folder.exists()


@pytest.mark.parametrize("size", [6000, 3 * spool.SPOOLED_BYTES], ids=["small", "large"])
def test_a_full_disk_where_archives_are_unpacked_is_reported_and_no_half_file_is_read(
    tmp_path: Path, size: int
) -> None:
    """A disk that is full takes a part of what is written and says nothing."""
    content = os.urandom(size)
    path = tmp_path / "a.tar"
    path.write_bytes(tar_of(("first.txt", b"one"), ("second.txt", content), ("third.txt", b"x")))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Store() as store:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
        try:
            first, gap = find(store, path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert isinstance(first, Item)
    assert first.path == "first.txt"
    assert isinstance(gap, Gap)
    assert f"cannot be unpacked to {tempfile.gettempdir()}" in gap.why
    assert "TMPDIR" in gap.remedy


def test_archives_are_read_where_files_cannot_be_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Lustre mounted without flock; nobody takes the folder for one left behind there."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "a.tar").write_bytes(tar_of(("log", b"x" * 100)))
    with Store() as store:
        (item,) = find(store, tmp_path / "a.tar")
        assert isinstance(item, Item)
        (folder,) = tmp_path.glob("whyhang-unpacked-*")
        os.utime(folder, (1, 1))

        spool.remove_left_behind(tmp_path)

        assert folder.is_dir()
