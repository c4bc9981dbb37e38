"""The file that ranks meet through: read as torch writes it, and judged as each rank sees it."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from fake_proc import FakeProc
from live_sites import collected, site_of
from small_jobs import ALL_REDUCE, INIT, dump, process, report_of

from whyhang.analyzer.facts import Address, Fact, FileView, InitArguments, Source, Who, replace
from whyhang.analyzer.report import Report
from whyhang.collectors.live.job.find import find_job
from whyhang.collectors.live.probes.file_store import collect, entries_of


def entry(key: str, value: str) -> bytes:
    return b"".join(struct.pack("=I", len(text)) + text.encode() for text in (key, value))


ADDRESS = "/default_pg/0//cpu//0/0"
FRESH = entry("refcount/", "1") + entry(ADDRESS, "a") + entry("refcount/", "2")
STALE = FRESH + entry("refcount/", "3") + entry(ADDRESS, "b")


def test_entries_are_read_as_torch_writes_them() -> None:
    """A file that is cut off in the middle, or none of its kind, gives what is whole."""
    assert next(entries_of(FRESH)) == ("refcount/", "1")
    assert len(list(entries_of(FRESH))) == 3
    assert len(list(entries_of(FRESH[:-2]))) == 2
    assert not list(entries_of(b"\xff" * 40))
    assert not list(entries_of(b"\0" * 40))


def views(tmp_path: Path, url: str, command: str = "python train.py") -> list[FileView]:
    fake = FakeProc(tmp_path / "proc")
    fake.add(20, 1, command, {"RANK": 0, "WORLD_SIZE": 2})
    (tmp_path / "proc" / "20" / "root").symlink_to("/")
    (tmp_path / "proc" / "20" / "cwd").symlink_to(tmp_path)
    host = fake.host()
    address = Address(file=url.removeprefix("file://"))
    call = InitArguments(address=address, who=Who(pid=20), source=Source(file="claims.json"))
    site = site_of(host, find_job(host, 20), spots=(call,) if url else ())
    return collected(collect, site).facts


@pytest.fixture(autouse=True)
def proc_folder(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()


def test_the_file_is_looked_at_through_the_process(tmp_path: Path) -> None:
    """Its own root counts, and nothing in the file is changed."""
    (tmp_path / "meet").write_bytes(STALE)

    (view,) = views(tmp_path, f"file://{tmp_path}/meet")

    assert (view.exists, view.folder_exists, view.processes) == (True, True, 3)
    assert view.inode == (tmp_path / "meet").stat().st_ino
    assert view.repeated == (ADDRESS.removeprefix("/"),)
    assert (tmp_path / "meet").read_bytes() == STALE


def test_the_path_may_stand_on_the_command_line(tmp_path: Path) -> None:
    """Ranks that are past their start-up tell it there."""
    (view,) = views(tmp_path, "", f"python train.py --dist-url file://{tmp_path}/none/meet")

    assert (view.exists, view.folder_exists) == (False, False)


def test_a_pipe_in_its_place_holds_nobody_up(tmp_path: Path) -> None:
    """It is opened without waiting, and not read."""
    os.mkfifo(tmp_path / "meet")

    (view,) = views(tmp_path, f"file://{tmp_path}/meet")

    assert (view.exists, view.keys) == (True, ())


def seen(*ranks: int, **more: object) -> FileView:
    view = FileView(
        who=Who(host="n"), source=Source(file="n/file_stores.json"), path="/shared/meet",
        asked_by=tuple(1000 + rank for rank in ranks), folder_exists=True, exists=True,
        device=1, inode=7, processes=3,
    )  # fmt: skip
    return replace(view, **more)


def report(*extra: Fact, stack: str = INIT) -> Report:
    facts: list[Fact] = list(extra)
    for rank in range(3):
        for look in (0, 1):
            facts.append(process(rank, look=look, environ={"WORLD_SIZE": "3"}))
            facts.append(dump(rank, stack, look=look))
    return report_of(facts)


def first(outcome: Report) -> tuple[str, tuple[int, ...] | None]:
    return outcome.findings[0].signature, outcome.findings[0].culprit_ranks


def test_another_inode_is_another_file() -> None:
    """The rank that is alone with its file is named."""
    assert first(report(seen(0, 1), seen(2, inode=8))) == ("init-file-not-shared", (2,))
    assert "init-file-not-shared" not in {f.signature for f in report(seen(0, 1), seen(2)).findings}


def test_a_missing_folder_is_nobodys_fault_where_all_lack_it() -> None:
    """Where some have it, the others are named."""
    gone = {"exists": False, "folder_exists": False, "inode": None, "device": None}
    assert first(report(seen(0, 1, 2, **gone))) == ("init-file-missing", None)
    assert first(report(seen(0, 1), seen(2, **gone))) == ("init-file-missing", (2,))


def test_more_processes_than_ranks_make_a_file_stale() -> None:
    """A full house does not; past the start-up, an address must have been set twice as well."""
    assert first(report(seen(0, 1, 2, processes=5))) == ("init-file-stale", None)
    twice = ("default_pg/0//cpu//0/0",)
    past = report(seen(0, 1, 2, processes=5, repeated=twice), stack=ALL_REDUCE)
    assert first(past) == ("init-file-stale", None)
    for outcome in (report(seen(0, 1, 2)), report(seen(0, 1, 2, processes=5), stack=ALL_REDUCE)):
        assert "init-file-stale" not in {f.signature for f in outcome.findings}
