"""Archives and folders: everything readable is read, nothing is written outside, all is bounded."""

from __future__ import annotations

import bz2
import errno
import fcntl
import gzip
import io
import lzma
import os
import resource
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from whyhang.analyzer.facts import Gap
from whyhang.analyzer.reading import Document
from whyhang.collectors.files import spool
from whyhang.collectors.files.archive import Limits, Store
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


def unpacked(path: Path, limits: Limits | None = None) -> tuple[dict[str, bytes], list[str]]:
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


@pytest.mark.parametrize("cut", [0.3, 0.6, 0.95])
def test_cut_archives(tmp_path: Path, cut: float) -> None:
    """A cut archive gives the members before the cut, and a trouble."""
    data = gzip.compress(tar_of(*((f"{n}.txt", os.urandom(4000)) for n in range(50))))
    (tmp_path / "a.tar.gz").write_bytes(data[: int(len(data) * cut)])

    contents, troubles = unpacked(tmp_path / "a.tar.gz")

    assert len(contents) >= int(50 * cut) - 2
    assert any("cut off" in trouble for trouble in troubles)


@pytest.mark.parametrize("pack", [gzip.compress, zstd, lzma.compress])
def test_cut_compressed_files(tmp_path: Path, pack: object) -> None:
    """What stands before the cut of a compressed log is read, and the cut is said."""
    assert callable(pack)
    data = pack(os.urandom(400_000))
    (tmp_path / "rank0.log.gz").write_bytes(data[: len(data) // 2])

    contents, troubles = unpacked(tmp_path / "rank0.log.gz")

    assert len(contents["rank0.log.gz"]) > 100_000
    assert "cut off" in troubles[0]


def test_bombs(tmp_path: Path) -> None:
    """A stream that grows without end is left out, however it is nested."""
    limits = Limits(ratio_free_bytes=2 * MIB, ratio=100)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b"\0" * (20 * MIB)))
    (tmp_path / "bomb.tar").write_bytes(
        tar_of(("b.gz", gzip.compress(b"\0" * (20 * MIB))), ("rank0.txt", b"zero"))
    )

    contents, troubles = unpacked(tmp_path, limits)

    assert contents == {"bomb.tar/rank0.txt": b"zero"}
    assert len(troubles) == 2


def test_archives_in_archives_have_one_budget(tmp_path: Path) -> None:
    """Many small members that each grow a little too much are one bomb; what is beside is read."""
    data = zip_of(("x.log", b"0" * MIB))
    for _ in range(3):
        data = zip_of(*((f"n{number}.zip", data) for number in range(16)))
    (tmp_path / "fan.zip").write_bytes(data)
    (tmp_path / "good.tar.gz").write_bytes(gzip.compress(tar_of(*MEMBERS)))
    limits = Limits(ratio_free_bytes=8 * MIB, ratio=100)

    contents, troubles = unpacked(tmp_path, limits)

    logs = [content for path, content in contents.items() if path.startswith("fan.zip/")]
    assert 0 < sum(map(len, logs)) <= 8 * MIB + 100 * len(data)
    assert {path: contents[path] for path in contents if path.startswith("good")} == {
        f"good.tar.gz/{name}": content for name, content in MEMBERS
    }
    assert len(troubles) == 1
    assert "fan.zip: it unpacks to over 100 times its size" in troubles[0]


def test_a_bomb_takes_seconds(tmp_path: Path) -> None:
    """Half a gigabyte of zeros in a few kilobytes is left after the first part of it."""
    compressor = zstandard.ZstdCompressor().compressobj()
    zeros = bytes(32 * MIB)
    packed = b"".join(compressor.compress(zeros) for _ in range(16)) + compressor.flush()
    (tmp_path / "zeros.zst").write_bytes(packed)
    (tmp_path / "rank0.txt").write_bytes(b"zero")
    started = time.process_time()

    contents, troubles = unpacked(tmp_path)

    assert time.process_time() - started < 5
    assert contents == {"rank0.txt": b"zero"}
    assert len(troubles) == 1


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd])
def test_a_member_that_tells_an_impossible_size(tmp_path: Path, pack: object) -> None:
    """A tar that ends long before the size of its member is cut off, and takes no time."""
    assert callable(pack)
    info = tarfile.TarInfo("huge.log")
    info.size = 1 << 87
    (tmp_path / "a.tar").write_bytes(pack(tar_of(*MEMBERS)[:2048] + info.tobuf() + b"step 1\n"))
    started = time.process_time()

    contents, troubles = unpacked(tmp_path / "a.tar")

    assert time.process_time() - started < 2
    assert contents == CONTENTS
    assert any("cut off" in trouble for trouble in troubles)


def test_names_that_no_file_has(tmp_path: Path) -> None:
    """A name of a megabyte is neither taken apart nor shown whole."""
    long = "r" * 60_000 + "_" * 5_000
    (tmp_path / "a.zip").write_bytes(zip_of((long, b"x"), ("a\x1b]0;b.log", b"y")))

    contents, (trouble,) = unpacked(tmp_path / "a.zip")

    assert contents == {"a\N{REPLACEMENT CHARACTER}]0;b.log": b"y"}
    assert len(trouble) < 1000


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        (Limits(members=3), "more than 3 files"),
        (Limits(total_bytes=3000), "unpack to more than"),
        (Limits(member_bytes=500), "unpacks to more than"),
        (Limits(depth=0), "nested deeper"),
    ],
)
def test_limits(tmp_path: Path, limits: Limits, why: str) -> None:
    """Each limit ends the unpacking with a trouble of its own."""
    (tmp_path / "a.tar").write_bytes(tar_of(*((f"{n}.txt", b"x" * 1000) for n in range(10))))

    contents, troubles = unpacked(tmp_path / "a.tar", limits)

    assert len(contents) < 10 or all(len(data) <= 500 for data in contents.values())
    assert any(why in trouble for trouble in troubles)


def test_a_tar_with_an_endless_name(tmp_path: Path) -> None:
    """A long-name record of gigabytes does not fill the memory."""
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 4 << 30
    (tmp_path / "a.tar").write_bytes(info.tobuf() + b"x" * 4096)

    contents, troubles = unpacked(tmp_path / "a.tar")

    assert contents == {}
    assert troubles


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


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_damaged_archives_never_raise(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Archives with bytes changed, cut out or appended give what they give, without an error."""
    whole = data.draw(st.sampled_from(ARCHIVES))
    at = data.draw(st.integers(0, len(whole) - 1))
    junk = data.draw(st.binary(max_size=40))
    gone = data.draw(st.integers(0, 60))
    path = tmp_path_factory.mktemp("fuzz") / "a.bin"
    path.write_bytes(whole[:at] + junk + whole[at + gone :])

    contents, troubles = unpacked(path, Limits(total_bytes=4 * MIB, members=50))

    assert len(contents) + len(troubles) <= 200


ARCHIVES = [
    tar_of(*MEMBERS),
    gzip.compress(tar_of(*MEMBERS)),
    zstd(tar_of(*MEMBERS)),
    lzma.compress(tar_of(*MEMBERS)),
    zip_of(*MEMBERS, ("in.zip", zip_of(*MEMBERS))),
    bz2.compress(b"text"),
]


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
def test_a_full_disk_where_archives_are_unpacked_is_said_and_no_half_file_is_read(
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
