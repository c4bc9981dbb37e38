"""Files in object stores and on web servers are read where they lie."""

from __future__ import annotations

import functools
import http.server
import io
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from whyhang.analyzer.cli import main
from whyhang.analyzer.facts import Fact, Gap, LogLine, StackDump
from whyhang.collectors import READERS
from whyhang.collectors.files import remote
from whyhang.collectors.files.folder import read

fsspec = pytest.importorskip("fsspec")

DUMP = """\
Process {pid}: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread {pid} (idle): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:2806)
    main (train.py:{line})
    <module> (train.py:9)
"""
NAMES = [f"pyspy_rank{rank}.txt" for rank in range(12)]


def files() -> dict[str, bytes]:
    """Give the dumps of a job of 12 ranks."""
    return {
        name: DUMP.format(pid=100 + rank, line=7 if rank == 3 else 5).encode()
        for rank, name in enumerate(NAMES)
    }


def archive() -> bytes:
    """Give them as a .tar.zst."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for name, data in files().items():
            member = tarfile.TarInfo(f"dumps/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return zstandard.ZstdCompressor().compress(plain.getvalue())


@pytest.fixture
def memory() -> Iterator[Path]:
    """Fill fsspec's memory, in place of a bucket."""
    system = fsspec.filesystem("memory")
    for name, data in files().items():
        system.pipe_file(f"/bucket/run7/{name}", data)
    system.pipe_file("/bucket/run7/model.ckpt", b"\x80weights")
    system.pipe_file("/bucket/all.tar.zst", archive())
    yield system
    system.rm("/bucket", recursive=True)


def ranks(facts: list[Fact]) -> list[int | None]:
    """List the ranks of which there is a stack."""
    return sorted(fact.who.rank for fact in facts if isinstance(fact, StackDump))


@pytest.mark.parametrize(
    ("url", "first"),
    [
        ("memory://bucket/run7", "pyspy_rank0.txt"),
        ("memory://bucket/run7/", "pyspy_rank0.txt"),
        ("memory://bucket/run7/*_rank*.txt", "pyspy_rank0.txt"),
        ("memory://bucket/all.tar.zst", "dumps/pyspy_rank0.txt"),
        ("memory://bucket", "all.tar.zst/dumps/pyspy_rank0.txt"),
    ],
)
def test_a_bucket_is_read_like_a_folder(memory: object, url: str, first: str) -> None:
    """Files, globs and archives, in the order of their names; checkpoints are left alone."""
    facts = list(read([url], readers=READERS))

    assert not [fact for fact in facts if isinstance(fact, Gap)]
    dumps = [fact for fact in facts if isinstance(fact, StackDump)]
    assert dumps[0].source.file == first
    assert set(ranks(facts)) == set(range(12))


def test_a_bucket_gives_the_report_of_its_copy(
    memory: object, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """The report is that of the same folder on this machine, byte for byte."""
    copy = tmp_path / "run7"
    copy.mkdir()
    for name, data in files().items():
        (copy / name).write_bytes(data)

    assert main([str(copy), "--format", "json"]) == 0
    here = capsysbinary.readouterr().out
    assert main(["memory://bucket/run7", "--format", "json"]) == 0
    assert capsysbinary.readouterr().out == here


def test_small_files_come_together_and_large_ones_in_pieces(
    memory: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One request brings many dumps; a log is never held whole."""
    system = fsspec.filesystem("memory")
    lines = b"[rank3]: step\n" * 200_000
    system.pipe_file("/bucket/run7/job.log", lines + b"[rank3]: ValueError: no\n")
    asked: list[int] = []
    cat = system.cat
    monkeypatch.setattr(
        type(system), "cat", lambda self, names, **o: asked.append(len(names)) or cat(names, **o)
    )

    folder = remote.RemoteFolder("memory://bucket/run7")
    for file in folder.files:
        with file.open() as stream:
            start = stream.read(10)
            assert start
            assert folder.shown(file) != "job.log" or not isinstance(stream, io.BytesIO)
    assert asked == [13]


class _Server(http.server.SimpleHTTPRequestHandler):
    """A web server that lists folders, knows no ranges, and keeps some paths shut."""

    def do_GET(self) -> None:
        if self.path.startswith("/shut"):
            self.send_error(403)
        else:
            super().do_GET()

    do_HEAD = do_GET  # noqa: N815 - the name that the library calls

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """Serve a folder with the dumps on the loopback interface."""
    (tmp_path / "run7").mkdir()
    for name, data in files().items():
        (tmp_path / "run7" / name).write_bytes(data)
    (tmp_path / "all.tar.zst").write_bytes(archive())
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as packed:
        for name, data in files().items():
            packed.writestr(name, data)
    handler = functools.partial(_Server, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as served:
        thread = threading.Thread(target=served.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()
        thread.join()


@pytest.mark.parametrize("path", ["/run7/", "/all.tar.zst", "/all.tar.zst?sig=abc", "/all.zip"])
def test_a_web_server_is_read(server: str, path: str) -> None:
    """A listed folder, and archives, streamed."""
    pytest.importorskip("aiohttp")
    facts = list(read([server + path], readers=READERS))

    assert ranks(facts) == list(range(12))
    assert not any("abc" in fact.source.file for fact in facts if isinstance(fact, StackDump))


@pytest.mark.parametrize(
    ("target", "says", "remedy"),
    [
        ("memory://bucket/nothing", "nothing is at memory://bucket/nothing", "spelling"),
        ("gopher://x/y", "gopher:// is no protocol that fsspec knows", "s3, gs, hdfs"),
        ("{server}/none", "nothing is at {server}/none", "/ at its end"),
        ("{server}/shut/run7", "may not be read: 403", "aws, gcloud, kinit"),
        ("http://127.0.0.1:9/x", "http://127.0.0.1:9/x cannot be reached", "proxy"),
    ],
)
def test_what_cannot_be_read_is_reported_in_words(
    memory: object,
    server: str,
    capsys: pytest.CaptureFixture[str],
    target: str,
    says: str,
    remedy: str,
) -> None:
    """Not found, not allowed, not reachable, not known: each with what to do."""
    assert main([target.format(server=server)]) == 2
    err = capsys.readouterr().err
    assert says.format(server=server) in err
    assert remedy in err


def test_a_package_that_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without fsspec, and without the package that it wants for a protocol."""
    monkeypatch.setitem(sys.modules, "s3fs", None)
    assert main(["s3://bucket/run7"]) == 2
    err = capsys.readouterr().err
    assert "s3:// cannot be read here: a package for it is not installed" in err
    assert "Install s3fs" in err
    monkeypatch.setitem(sys.modules, "fsspec", None)
    assert main(["s3://bucket/run7"]) == 2
    assert "pip install 'whyhang[remote]'" in capsys.readouterr().err


def test_no_credentials_are_distinguished_from_no_bucket(
    memory: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the store's own library raises is known by its name; a key in a URL is never shown."""

    class NoCredentialsError(Exception):
        """As botocore raises it."""

    def info(*_: object, **__: object) -> bool:
        raise NoCredentialsError("Unable to locate credentials")

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "info", info)
    assert main(["memory://user:hunter2@bucket/run7?X-Amz-Signature=f00d"]) == 2
    err = capsys.readouterr().err
    assert "memory://bucket/run7 may not be read: Unable to locate credentials" in err
    assert "hunter2" not in err
    assert "f00d" not in err


def test_a_file_that_breaks_off_costs_that_file(
    memory: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that fails in the middle is a gap; the other files are read."""
    system = fsspec.filesystem("memory")
    system.pipe_file("/bucket/run7/z.log", b"[rank3]: RuntimeError: boom\n" * 40_000)
    opening = type(system).open

    def failing(self: object, path: str, *rest: object, **options: object) -> object:
        if path.endswith("z.log"):
            raise ConnectionResetError("reset by the store")
        return opening(self, path, *rest, **options)

    monkeypatch.setattr(type(system), "open", failing)
    facts = list(read(["memory://bucket/run7"], readers=READERS))

    assert ranks(facts) == list(range(12))
    gaps = [str(fact.why) for fact in facts if isinstance(fact, Gap)]
    assert gaps == ["it cannot be read (reset by the store)"]
    assert not [fact for fact in facts if isinstance(fact, LogLine)]
