"""Archives that grow without end, or are damaged, cost their own contents and little else."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import tarfile
import time
from pathlib import Path

import pytest
import zstandard
from archive_docs import CONTENTS, MEMBERS, MIB, tar_of, unpacked, zip_of, zstd
from hypothesis import given
from hypothesis import strategies as st

from whyhang.collectors.files.archive import UnpackLimits


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
    limits = UnpackLimits(ratio_free_bytes=2 * MIB, ratio=100)
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
    limits = UnpackLimits(ratio_free_bytes=8 * MIB, ratio=100)

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
        (UnpackLimits(members=3), "more than 3 files"),
        (UnpackLimits(total_bytes=3000), "unpack to more than"),
        (UnpackLimits(member_bytes=500), "unpacks to more than"),
        (UnpackLimits(depth=0), "nested deeper"),
    ],
)
def test_limits(tmp_path: Path, limits: UnpackLimits, why: str) -> None:
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

    contents, troubles = unpacked(path, UnpackLimits(total_bytes=4 * MIB, members=50))

    assert len(contents) + len(troubles) <= 200


ARCHIVES = [
    tar_of(*MEMBERS),
    gzip.compress(tar_of(*MEMBERS)),
    zstd(tar_of(*MEMBERS)),
    lzma.compress(tar_of(*MEMBERS)),
    zip_of(*MEMBERS, ("in.zip", zip_of(*MEMBERS))),
    bz2.compress(b"text"),
]
