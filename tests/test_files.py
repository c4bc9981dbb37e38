"""What the evidence names is touched with a deadline, and what hangs there is evidence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_proc import FakeProc
from hanging import mounted, needs_fuse
from live_sites import site_of

from whyhang.analyzer.facts import Excerpt, Gap
from whyhang.collectors.files.bundle import Bundle, documents_of
from whyhang.collectors.files.own_files import OwnFiles
from whyhang.collectors.live import file_child, files
from whyhang.collectors.live.capture import Capture
from whyhang.collectors.live.files import MOST_HANGING, Files
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.probes import source_lines
from whyhang.collectors.live.probes.probe import Options
from whyhang.collectors.live.proc import Proc

SLOW = f"""
import os, runpy, time
stat = os.stat
def late(path, *rest, **options):
    if "hangs" in os.path.basename(str(path)) or str(path).endswith("/7/environ"): time.sleep(600)
    return stat(path, *rest, **options)
os.stat = late
runpy.run_path({file_child.__file__!r}, run_name="__main__")
"""


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    """Give a reader for which every path hangs that says so."""
    (tmp_path / "child.py").write_text(SLOW)
    monkeypatch.setattr(files, "_CHILD", tmp_path / "child.py")
    (tmp_path / "proc").mkdir()
    return Files(Proc(str(tmp_path / "proc")), patience=0.3)


def test_plain_files_and_folders_are_read(tmp_path: Path) -> None:
    """A part may be asked for; what is not there is told from what may not be read."""
    (tmp_path / "a").write_bytes(b"0123456789" * 200_000)
    reader = Files(Proc())

    whole = reader.read(str(tmp_path / "a"))
    assert (whole.data[:10], len(whole.data), whole.length) == (b"0123456789", 2_000_000, 2_000_000)
    assert whole.is_file
    assert whole.inode == (tmp_path / "a").stat().st_ino
    assert reader.read(str(tmp_path / "a"), start=3, most=4).data == b"3456"
    assert reader.read(str(tmp_path / "b")).missing
    assert reader.read(f"{tmp_path}/a/b").missing
    assert reader.read("a\0b").trouble
    assert reader.names(str(tmp_path)).names == ("a",)
    assert not reader.read(str(tmp_path)).is_file
    assert reader.hanging == {}


def test_a_path_that_hangs_costs_only_itself(slow: Files, tmp_path: Path) -> None:
    """It costs its deadline; the others are read, and what lies beside it is not touched."""
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text(name)
    began = time.monotonic()
    paths = [f"{tmp_path}/{name}" for name in ("a/x", "b/hangs", "b/hangs too", "b/x", "c/x")]
    contents = slow.read_all(paths)
    assert time.monotonic() - began < 2.5

    assert [contents[path].data for path in paths] == [b"a", b"", b"", b"", b"c"]
    assert contents[paths[1]].trouble.startswith("it did not answer within 0.3 s")
    assert contents[paths[3]].trouble == f"folder {tmp_path}/b did not answer before"
    (gap,) = slow.hanging.values()
    assert f"{tmp_path}/b/hangs" in gap.what


def test_the_memory_of_one_process_that_hangs_costs_only_itself(
    slow: Files, tmp_path: Path
) -> None:
    """A thread that sleeps on a dead file server holds the lock that reading needs."""
    fake = FakeProc(tmp_path / "proc")
    for pid in (6, 7, 8):
        fake.add(pid, 1, f"python {pid}.py", {"RANK": pid})
    host = fake.host()
    host.files = slow
    host.prefetch([6, 7, 8])

    assert [host.arguments(pid)[-1] for pid in (6, 7, 8)] == ["6.py", "7.py", "8.py"]
    assert [host.readable(pid) for pid in (6, 7, 8)] == [True, False, True]
    assert [gap.who.pid for gap in slow.hanging.values()] == [7]


def test_after_some_places_no_file_is_touched(slow: Files, tmp_path: Path) -> None:
    """The whole costs a few deadlines, however many files the evidence names."""
    for number in range(MOST_HANGING + 3):
        slow.read(f"{tmp_path}/{number}/hangs")
    (tmp_path / "x").write_text("x")

    assert len(slow.hanging) == MOST_HANGING
    assert "other places did not answer" in slow.read(f"{tmp_path}/x").trouble


def test_a_pipe_is_not_opened(tmp_path: Path) -> None:
    """Whoever waits for its other end in the job would go on."""
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: os.close(os.open(tmp_path / "pipe", os.O_WRONLY)))
    writer.start()
    time.sleep(0.1)

    contents = Files(Proc()).read(str(tmp_path / "pipe"))
    time.sleep(0.1)
    waits = writer.is_alive()
    os.close(os.open(tmp_path / "pipe", os.O_RDONLY))
    writer.join(5)

    assert waits
    assert (contents.is_file, contents.data, contents.trouble) == (False, b"", "")


def test_a_child_that_ended_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ends it costs one file; where none can be started, nothing is read."""
    reader = Files(Proc())
    (tmp_path / "child.py").write_text("""print('{"size": 0}', flush=True)""")
    with monkeypatch.context() as patch:
        patch.setattr(files, "_CHILD", tmp_path / "child.py")
        assert reader.read("/x").trouble == "it cannot be read"
    assert reader.read("/proc/self/stat").data

    (tmp_path / "child.py").write_text("")
    monkeypatch.setattr(files, "_CHILD", tmp_path / "child.py")
    assert "no process could be started" in Files(Proc()).read("/x").trouble


@needs_fuse
def test_a_mount_that_hangs_is_named(tmp_path: Path) -> None:
    """The kernel tells what is mounted there; nothing else below it is touched."""
    (tmp_path / "data").mkdir()
    (tmp_path / "x").write_text("x")
    reader = Files(Proc(), patience=0.3)
    with mounted(tmp_path / "data"):
        assert reader.read(f"{tmp_path}/data/a").trouble.startswith("it did not answer")
        began = time.monotonic()
        assert reader.names(f"{tmp_path}/data/b").trouble == (
            f"fuse.gone from gone at {tmp_path}/data did not answer before"
        )
        assert reader.read(f"/proc/{os.getpid()}/root{tmp_path}/data/c").trouble
        assert time.monotonic() - began < 0.2
        assert reader.read(f"{tmp_path}/x").data == b"x"
    (gap,) = reader.hanging.values()
    assert "asleep in" in gap.why


PROGRAM = "import time; print('up', flush=True); time.sleep(600)\n"


@pytest.fixture
def program(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a script from a folder of its own."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(PROGRAM)
    environ = {**os.environ, "RANK": "0", "WORLD_SIZE": "1"}
    command = [sys.executable, str(tmp_path / "code" / "train.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child
        child.kill()


def look(pid: int) -> tuple[Bundle, list[Excerpt], list[Gap]]:
    """Look once; give source lines and gaps."""
    bundle = Capture(pid, Options(looks=1, limit=5.0), lambda _: None).take().bundle()
    reader = OwnFiles()
    facts = [f for d in documents_of(bundle) if reader.sniff(d) for f in reader.read(d)]
    return (
        bundle,
        [fact for fact in facts if isinstance(fact, Excerpt)],
        [fact for fact in facts if isinstance(fact, Gap)],
    )


@needs_fuse
def test_code_on_a_dead_file_server_costs_the_source_lines(
    program: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """The stacks are there, and what does not answer is said."""
    with mounted(tmp_path / "code"):
        began = time.monotonic()
        bundle, excerpts, gaps = look(program.pid)
        took = time.monotonic() - began

    assert took < 5
    assert any(entry.kind == "py-spy" for entry in bundle.manifest.files)
    assert excerpts == []
    (gap,) = (gap for gap in gaps if "train.py" in gap.what)
    assert f"fuse.gone from gone at {tmp_path}/code" in gap.what
    assert "did not answer within" in gap.why


def test_a_pipe_in_place_of_the_script_costs_the_source_lines(
    program: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """It would never open."""
    script = tmp_path / "code" / "train.py"
    script.unlink()
    os.mkfifo(script)
    began = time.monotonic()
    bundle, excerpts, gaps = look(program.pid)

    assert time.monotonic() - began < 5
    assert any(entry.kind == "py-spy" for entry in bundle.manifest.files)
    assert excerpts == []
    assert [gap.why for gap in gaps if "train.py" in gap.what] == [
        "it is no plain file any more, and whoever opens it may wait for ever"
    ]


def test_source_lines_are_read_as_the_process_sees_them(tmp_path: Path) -> None:
    """A relative path is below its working directory."""
    fake = FakeProc(tmp_path)
    fake.add(50, 1, "python train.py", {})
    (tmp_path / "50" / "cwd").symlink_to(tmp_path)
    (tmp_path / "train.py").write_text("import time\ntime.sleep(9)\n")
    site = site_of(Host(Proc(str(tmp_path))))
    dump = json.dumps([{"pid": 7, "frames": [{"filename": "train.py", "line": 2}]}]).encode()
    contents = dict.fromkeys(source_lines.places(dump), 50)

    (excerpt,) = source_lines.excerpts(site.host, contents)

    assert isinstance(excerpt, Excerpt)
    assert excerpt.lines == ("import time", "time.sleep(9)")
