"""All signatures are read from one file of bytecode, which never says other than their files."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import whyhang
from whyhang import signatures
from whyhang.signatures._bytecode import codes


@pytest.fixture
def topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder of two modules in one topic; bytecode is written beside them."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    folder = tmp_path / "signatures" / "topic"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("WORD = 'no signature'")
    (folder / "a.py").write_text("WORD = 'a'")
    (folder / "b.py").write_text("WORD = 'b'")
    (folder.parent / "frames.py").write_text("WORD = 'no signature'")
    return folder


def words(topic: Path) -> list[str]:
    """Run what is read of the folder."""
    found = []
    for code in codes(str(topic.parent), "made_up"):
        names: dict[str, str] = {}
        exec(code, names)
        found.append(names["WORD"])
    return found


def kept(topic: Path) -> list[Path]:
    """List the files that hold the bytecode of all."""
    return list((topic.parent / "__pycache__").glob("all_signatures.*"))


def test_what_is_kept_follows_every_change_of_the_files(topic: Path) -> None:
    """A file that changed, came or went is seen, also where its size stays the same."""
    assert words(topic) == ["a", "b"] == words(topic)

    (topic / "a.py").write_text("WORD = 'c'")
    os.utime(topic / "a.py", (1, 1))
    assert words(topic) == ["c", "b"]
    (topic / "d.py").write_text("WORD = 'd'")
    assert words(topic) == ["c", "b", "d"]
    (topic / "b.py").unlink()
    assert words(topic) == ["c", "d"]
    assert len(kept(topic)) == 1


def test_what_is_kept_is_what_is_read(topic: Path) -> None:
    """The second time no file of a signature is opened: bytecode with other words shows."""
    words(topic)
    (file,) = kept(topic)
    file.write_bytes(file.read_bytes().replace(b"\x01a", b"\x01z"))

    assert words(topic) == ["z", "b"]


@pytest.mark.parametrize("damage", [b"", b"nonsense", importlib.util.MAGIC_NUMBER + b"\xff\0"])
def test_a_damaged_file_is_as_none(topic: Path, damage: bytes) -> None:
    """What another Python wrote, or what was cut off, is made anew."""
    words(topic)
    (file,) = kept(topic)
    whole = file.read_bytes()
    for data in (damage, whole[: len(whole) // 2], importlib.util.MAGIC_NUMBER + b"i\1\0\0\0"):
        file.write_bytes(data)
        assert words(topic) == ["a", "b"]
        assert file.read_bytes() != data


def test_where_nothing_may_be_written_nothing_is(
    topic: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PYTHONDONTWRITEBYTECODE is heeded, and a folder that takes nothing is no trouble."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert words(topic) == ["a", "b"]
    assert not kept(topic)

    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (topic.parent / "__pycache__").write_text("no folder")
    assert words(topic) == ["a", "b"]


def test_all_of_them_are_found_in_pieces_and_at_once() -> None:
    """Reading some at a time leaves none out."""
    script = (
        "from whyhang import signatures\n"
        "while signatures.load_some(7): pass\n"
        "print(*(one.id for one in signatures.load()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == [one.id for one in signatures.load()]


def test_a_zipped_package_has_its_signatures(tmp_path: Path) -> None:
    """Where there are no folders the modules are imported."""
    package = tmp_path / "room" / "whyhang"
    package.mkdir(parents=True)
    shutil.copy(Path(whyhang.__file__), package)
    skip = shutil.ignore_patterns("__pycache__", "fabric", "gpus", "other", "processes", "startup")
    for name in ("analyzer", "signatures"):
        found = importlib.util.find_spec(f"whyhang.{name}")
        assert found is not None
        assert found.submodule_search_locations is not None
        shutil.copytree(found.submodule_search_locations[0], package / name, ignore=skip)
    zipped = shutil.make_archive(str(tmp_path / "zipped"), "zip", tmp_path / "room")
    done = subprocess.run(
        [sys.executable, "-c", "from whyhang import signatures as s; print(len(s.load()))"],
        env={**os.environ, "PYTHONPATH": zipped},
        capture_output=True,
        text=True,
        check=True,
    )

    folder = Path(signatures.__path__[0])
    topics = ("collectives", "mpi", "storage")
    files = [f for name in topics for f in (folder / name).glob("[!_]*.py")]
    assert int(done.stdout) == len(files) > 50
