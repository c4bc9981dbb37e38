"""Reading what people hand in: any mix of files, bundles, looks, and troubles told once."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
import zstandard
from stack_docs import document

from whyhang.analyzer.facts import Fact, Gap, StackDump, Trust
from whyhang.analyzer.reading import Document, Reader
from whyhang.collectors import READERS
from whyhang.collectors.files.bundle import Entry, Manifest
from whyhang.collectors.files.folder import read, read_documents

STACK = """\
Process {pid}: python train.py
Python v3.11.7 (python)

Thread {pid} (idle): "MainThread"
    {top} (train.py:3)
    <module> (train.py:9)
Thread {other} (idle): "monitor"
    run (threading.py:982)
    _bootstrap (threading.py:1002)
"""


def stack(pid: int, top: str = "all_reduce", threads_from: int | None = None) -> str:
    return STACK.format(pid=pid, top=top, other=(threads_from or pid) + 1)


def write(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text)


def facts(*paths: Path, readers: Sequence[Reader] = READERS) -> list[Fact]:
    return list(read(paths, readers=readers))


def dumps(*paths: Path) -> list[StackDump]:
    return [fact for fact in facts(*paths) if isinstance(fact, StackDump)]


def gaps(*paths: Path, readers: Sequence[Reader] = READERS) -> list[str]:
    return [str(fact) for fact in facts(*paths, readers=readers) if isinstance(fact, Gap)]


def test_any_mix(tmp_path: Path) -> None:
    """Files of several tools side by side give their dumps, with paths relative to the folder."""
    write(tmp_path, rank0=stack(10), rank1=stack(11))
    (tmp_path / "rank2.log").write_text(
        "Current thread 0x00007f (most recent call first):\n"
        '  File "/job/train.py", line 3 in f\n  File "/job/train.py", line 9 in <module>\n'
    )

    stacks = dumps(tmp_path)

    assert [(d.source.file, d.who.rank, d.tool) for d in stacks] == [
        ("rank0.txt", 0, "py-spy"),
        ("rank1.txt", 1, "py-spy"),
        ("rank2.log", 2, "faulthandler"),
    ]


def test_several_targets_keep_their_own_names(tmp_path: Path) -> None:
    """Files of equal names in different folders are told apart by what differs in their paths."""
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, rank0=stack(10))

    stacks = dumps(tmp_path / "before" / "rank0.txt", tmp_path / "after" / "rank0.txt")
    both = dumps(tmp_path / "before", tmp_path / "after")

    expected = ["before/rank0.txt", "after/rank0.txt"]
    assert [dump.source.file for dump in stacks] == expected
    assert [dump.source.file for dump in both] == expected


def test_looks_of_one_process(tmp_path: Path) -> None:
    """Dumps of one pid in files that follow each other are looks 0, 1, 2."""
    write(tmp_path, **{f"dump_{n}": stack(10, f"step{n}") + stack(11) for n in (9, 10, 11)})

    stacks = dumps(tmp_path)

    assert [(d.who.pid, d.look) for d in stacks] == [
        (10, 0), (11, 0), (10, 1), (11, 1), (10, 2), (11, 2),
    ]  # fmt: skip
    assert stacks[4].threads[0].frames[0].function == "step11"


def test_other_tools_are_no_later_looks(tmp_path: Path) -> None:
    """A native dump beside a plain one of the same process is not a second look."""
    write(tmp_path, a=stack(10), b=stack(10, "poll (libc.so.6)\n    all_reduce"))

    assert [dump.look for dump in dumps(tmp_path)] == [0, 0]


def test_equal_pids_on_different_hosts(tmp_path: Path) -> None:
    """Two containers each have their pid 1: different threads, so different processes."""
    write(tmp_path, alpha=stack(1, threads_from=50), beta=stack(1, "step", threads_from=70))

    stacks = dumps(tmp_path)

    assert [dump.look for dump in stacks] == [0, 0]
    assert stacks[0].who != stacks[1].who


@pytest.mark.parametrize(
    ("names", "hosts"),
    [
        (("node0", "node1"), ["node0", "node1"]),
        (("gpu-a", "gpu-b"), ["gpu-a", "gpu-b"]),
        (("worker-0", "worker-1"), ["worker-0", "worker-1"]),
        (("n1", "n2"), ["n1", "n2"]),
        (("look1", "look2"), [None, None]),
        (("before", "after-30s"), [None, None]),
        (("10-31-07", "10-31-37"), [None, None]),
    ],
)
def test_folders_with_equal_pids_are_hosts_or_moments(
    names: tuple[str, str], hosts: list[str | None], tmp_path: Path
) -> None:
    """Side by side, named like hosts: two processes. Named after moments: two looks at one."""
    for number, name in enumerate(names):
        (tmp_path / name).mkdir()
        other = 50 if hosts == [None, None] else 50 + 20 * number
        write(tmp_path / name, dump=stack(101, threads_from=other))

    in_order = sorted(dumps(tmp_path), key=lambda dump: names.index(dump.source.file.split("/")[0]))

    assert [dump.who.host for dump in in_order] == hosts
    assert {dump.look for dump in in_order} == ({0, 1} if hosts == [None, None] else {0})


def test_folders_with_the_same_threads_are_moments(tmp_path: Path) -> None:
    """Whatever they are called: threads beside the main one are numbered anew on each host."""
    for name in ("good", "bad"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, dump=stack(101))

    assert {dump.look for dump in dumps(tmp_path)} == {0, 1}


def test_bundles_follow_their_manifest(tmp_path: Path) -> None:
    """In a bundle the manifest says whose a file is and which look, in a folder or an archive."""
    files = {"stacks/x1.txt": stack(10), "stacks/x0.txt": stack(11), "notes.md": "hello"}
    manifest = Manifest(
        files=tuple(
            Entry(path=path, kind="py-spy", pid=pid, rank=rank, trust=Trust.ENVIRONMENT, look=look)
            for path, pid, rank, look in (("stacks/x1.txt", 10, 4, 0), ("stacks/x0.txt", 11, 5, 1))
        )
    )
    folder = tmp_path / "bundle"
    for path, text in {**files, "manifest.json": msgspec.json.encode(manifest).decode()}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(folder, arcname=".")
    (tmp_path / "bundle.tar.zst").write_bytes(
        zstandard.ZstdCompressor().compress(packed.getvalue())
    )

    plain, archived = facts(folder), facts(tmp_path / "bundle.tar.zst")

    owners = [(d.who.rank, d.who.trust, d.look) for d in plain if isinstance(d, StackDump)]
    assert owners == [(4, Trust.ENVIRONMENT, 0), (5, Trust.ENVIRONMENT, 1)]
    assert archived == plain
    assert not [fact for fact in plain if isinstance(fact, Gap)]


def test_a_damaged_manifest_costs_only_itself(tmp_path: Path) -> None:
    """Without its manifest a bundle is a folder of files."""
    write(tmp_path, rank3=stack(10))
    (tmp_path / "manifest.json").write_text('{"tool": "whyhang", "format": 99}')

    all_facts = facts(tmp_path)

    assert [fact.who.rank for fact in all_facts if isinstance(fact, StackDump)] == [3]
    assert any("Upgrade" in str(fact) or "format" in str(fact) for fact in all_facts)


def test_troubles_are_folded(tmp_path: Path) -> None:
    """A hundred empty files and one of no known kind make a handful of gaps."""
    for number in range(100):
        (tmp_path / f"rank{number}.txt").touch()
    (tmp_path / "core.bin").write_bytes(bytes(range(256)))
    (tmp_path / "train.py").write_text("print()")

    notes = gaps(tmp_path)

    assert len(notes) == 5
    assert sum("empty" in gap for gap in notes) == 4
    assert any("97 more" in gap for gap in notes)


class _Broken:
    name = "broken"

    def sniff(self, document: Document) -> bool:
        if "sniff" in document.path:
            raise ValueError("no idea")
        return True

    def read(self, document: Document) -> Iterator[Fact]:
        raise RuntimeError("never tested")
        yield


def test_a_reader_that_fails_costs_what_it_reads(tmp_path: Path) -> None:
    """An exception in one reader becomes a gap, and the other readers go on."""
    write(tmp_path, rank0=stack(10), sniff=stack(11))

    all_facts = facts(tmp_path, readers=(_Broken(), *READERS))

    assert [fact.who.pid for fact in all_facts if isinstance(fact, StackDump)] == [10, 11]
    assert {str(fact).split(": ")[1][:17] for fact in all_facts if isinstance(fact, Gap)} == {
        "the reader failed"
    }


class _Curious(_Broken):
    name = "curious"

    def sniff(self, document: Document) -> bool:
        return True


def test_a_file_of_one_form_is_for_one_reader(tmp_path: Path) -> None:
    """Nothing but py-spy's output is not searched for anything else; a log around it is."""
    write(tmp_path, rank0=stack(10), rank1="step 1\n" + stack(11))

    notes = gaps(tmp_path, readers=(*READERS, _Curious()))

    assert [gap.split(" as ")[0] for gap in notes] == ["reading rank1.txt"]


def test_missing_paths_are_gaps(tmp_path: Path) -> None:
    """A path that is not there does not keep the others from being read."""
    write(tmp_path, rank0=stack(10))

    all_facts = facts(tmp_path / "missing", tmp_path / "rank0.txt")

    assert [type(fact) for fact in all_facts] == [StackDump, Gap]


def test_progress_is_reported(tmp_path: Path) -> None:
    """The caller hears what is being read."""
    write(tmp_path, rank0=stack(10))
    messages: list[str] = []

    list(read([tmp_path], readers=READERS, progress=messages.append))

    assert messages == ["found 1 files", "reading 0 of 1 files: rank0.txt"]


def test_documents_at_hand() -> None:
    """What was just taken of a live job goes through the same readers."""
    listed = list(read_documents([document(stack(10), "rank7.txt")], readers=READERS))

    assert [fact.who.rank for fact in listed if isinstance(fact, StackDump)] == [7]
