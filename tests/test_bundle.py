"""A bundle holds plain files and a manifest, and reads back to what was collected."""

from __future__ import annotations

import contextlib
import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path

import documents
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyhang.analyzer.errors import BundleError
from whyhang.analyzer.facts import (
    Address,
    Counters,
    DriverSilence,
    Excerpt,
    Fact,
    Gap,
    InitArguments,
    Library,
    LoopCounter,
    NearLimit,
    NoInterpreter,
    Process,
    Role,
    Setting,
    Source,
    Statement,
    StepsWritten,
    StepsWrittenBefore,
    ThreadState,
    Trust,
    Who,
    WorldSize,
    replace,
)
from whyhang.analyzer.reading import Document
from whyhang.collectors.files import claims
from whyhang.collectors.files.bundle import (
    Bundle,
    Entry,
    Manifest,
    documents_of,
    is_manifest,
    manifest_file,
    read_manifest,
    write_bundle,
)
from whyhang.collectors.files.own_files import OwnFiles, facts_file
from whyhang.collectors.live.bundling import bundle_of
from whyhang.collectors.live.job.members import HostJob, JobProcess
from whyhang.collectors.live.snapshot import Dump

PROCESS = Process(
    who=Who(rank=1, trust=Trust.ENVIRONMENT, host="h", pid=12, local_rank=1),
    source=Source(file="/proc/12"),
    look=1,
    taken_at=5.5,
    ppid=3,
    role=Role.RANK,
    command="python t.py",
    state="S",
    environ={"RANK": "1"},
    descriptors=("pipe x2",),
    before=Counters(cpu_ticks=1, switches=2),
    threads=(ThreadState(tid=12, name="python", state="S", syscall="read(5: /data/ä)"),),
)
GAP = Gap(what="stacks of rank 1", why="it ended", remedy="look", who=Who(pid=12))
EXCERPT = Excerpt(file="t.py", first_line=3, lines=('print("x")', ""))


def document(data: bytes, path: str = "h/processes.look0.json") -> Document:
    """Make a document of bytes."""
    return documents.document(data, path, Who())


def read(data: bytes) -> list[Fact]:
    """Read one of whyhang's own files."""
    return list(OwnFiles().read(document(data)))


def small_bundle(facts: Sequence[Fact] = (EXCERPT, GAP, GAP), order: int = 1) -> Bundle:
    """Lay out a small job: two ranks, a worker, a launcher; ``order`` is that of its dumps."""
    members = (
        JobProcess(pid=12, ppid=3, role=Role.RANK, rank=0, trust=Trust.ENVIRONMENT),
        JobProcess(pid=13, ppid=3, role=Role.RANK, rank=10, trust=Trust.ENVIRONMENT),
        JobProcess(pid=20, ppid=13, role=Role.DATALOADER_WORKER, owner=13),
        JobProcess(pid=3, ppid=1, role=Role.LAUNCHER),
    )
    dumps = tuple(
        Dump(pid=pid, look=look, taken_at=5.0 + look, data=b'[{"name": "--token=hunter2"}]\n')
        for look in (0, 1)
        for pid in (3, 20, 13, 12)
    )
    manifest = Manifest(
        created_at=1700000000.5,
        host="node 1/x",
        target=3,
        looks=2,
        interval=1.0,
        touched=("py-spy dump paused 4 processes",),
    )
    job = HostJob(members=members, launcher="torchrun", world_size=11)
    processes = (PROCESS, replace(PROCESS, look=0))
    return bundle_of(manifest, job, processes, dumps[::order], facts)


@pytest.mark.parametrize("facts", [[PROCESS, PROCESS], [GAP], [EXCERPT], []])
def test_own_files_read_back_to_the_same(facts: list[Fact]) -> None:
    """Every field survives; a process is cited by the line on which it begins."""
    kind = {Process: "processes", Gap: "gaps", Excerpt: "excerpts"}[type((facts or [GAP])[0])]
    data = facts_file(kind, facts)
    json.loads(data)
    back = read(data)
    lines = data.decode().splitlines()
    for before, after in zip(facts, back, strict=True):
        if isinstance(before, Process) and isinstance(after, Process):
            assert after.source.file == "h/processes.look0.json"
            assert lines[(after.source.line or 0) - 1] == "    {"
            after = replace(after, source=before.source)
        assert after == before


def test_own_files_are_known_by_their_first_bytes() -> None:
    """Other JSON is left to other readers."""
    reader = OwnFiles()
    assert reader.sniff(document(facts_file("gaps", [GAP])))
    assert not reader.sniff(document(b'[{"pid": 1}]'))
    assert not reader.sniff(document(manifest_file(Manifest())))
    assert not reader.sniff(document(b""))


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b'{\n  "whyhang": "processes"', b'{"whyhang": "news", "format": 1, "facts": []}'],
)
def test_damaged_own_file_is_a_gap(damage: bytes) -> None:
    """What cannot be read is said, with the file."""
    (gap,) = read(damage)
    assert isinstance(gap, Gap)
    assert "damaged" in str(gap)


def test_one_damaged_record_costs_only_itself() -> None:
    """The records around it are still read."""
    sizes = [WorldSize(size=size, who=Who(), source=Source(file="f")) for size in (4, 5, 6)]
    data = facts_file("claims", [row for size in sizes for row in claims.rows(size)])
    for damage in (b'"value": 7', b'"value": "many"'):
        records = read(data.replace(b'"value": "5"', damage))
        assert [type(fact) for fact in records] == [WorldSize, Gap, WorldSize]


ABOUT = Who(rank=1, host="n", pid=7)
HERE = Source(file="h/processes.look0.json", line=5)
STATEMENTS: list[Statement] = [
    Setting(name="backend", value="nccl", who=Who(host="n"), source=HERE),
    Setting(name="torch", value="2.13.0+cpu", who=Who(host="n"), source=HERE),
    Setting(name="torch", value="2.13.0+cpu", who=ABOUT, source=HERE),
    Setting(name="driver", value="570.86.10", who=ABOUT, source=HERE),
    Library(name="libnccl.so", path="/a, b/libnccl.so.2", build="aa11", who=ABOUT, source=HERE),
    Library(
        name="libnccl-net-ofi.so",
        path="/x/libnccl-net-ofi.so",
        deleted=True,
        inode="08:01/103",
        who=ABOUT,
        source=HERE,
    ),
    InitArguments(address=Address(host="head", port=29500), who=ABOUT, source=HERE),
    InitArguments(address=Address(host="fe80::1", port=29500), who=ABOUT, source=HERE),
    InitArguments(address=Address(file="/shared/meet"), who=ABOUT, source=HERE),
    InitArguments(rank=3, who=ABOUT, source=HERE),
    InitArguments(world_size=8, who=ABOUT, source=HERE),
    LoopCounter(
        name="i", value=12, function="<listcomp>", file="a (1)/train.py", who=ABOUT, source=HERE
    ),
    NoInterpreter(who=ABOUT, source=HERE),
    NearLimit(limit="load", measured=16, size=4, who=ABOUT, source=HERE),
    NearLimit(limit="cpu-quota", measured=19, of=20, who=ABOUT, source=HERE),
    NearLimit(limit="group-memory", measured=0.97, size=2.5, who=ABOUT, source=HERE),
    NearLimit(limit="oom-kills", measured=2, who=ABOUT, source=HERE),
    NearLimit(limit="host-memory", measured=0.03, who=ABOUT, source=HERE),
    StepsWritten(text="step 118 loss 0.3", who=ABOUT, source=HERE),
    StepsWrittenBefore(text="round 4", who=ABOUT, source=HERE),
    DriverSilence(says="nvidia-smi did not come back", who=ABOUT, source=HERE),
]


@pytest.mark.parametrize("fact", STATEMENTS, ids=lambda fact: type(fact).__name__)
def test_statements_read_back_to_the_same(fact: Statement) -> None:
    """What a live run states is the same after its bundle was written and read."""
    assert read(facts_file("claims", claims.rows(fact))) == [fact]


def test_a_row_that_a_newer_version_wrote_is_left_out() -> None:
    """What this version does not know about is no damage."""
    row = claims.ClaimRow(about="weather", value="fine", who=Who(), source=Source(file="f"))
    assert read(facts_file("claims", [row])) == []


@given(st.binary(max_size=300), st.integers(0, 400))
def test_no_bytes_break_the_readers(noise: bytes, at: int) -> None:
    """Whatever a file was turned into, reading it ends with facts or gaps."""
    whole = facts_file("processes", [PROCESS])
    for fact in read(whole[:at] + noise + whole[at + len(noise) :]):
        assert isinstance(fact, Process | Gap)
    with contextlib.suppress(BundleError):  # the one error that it may end with
        read_manifest(manifest_file(Manifest(host="h"))[:at] + noise)


def entry_of(manifest: Manifest, path: str) -> Entry:
    (entry,) = (entry for entry in manifest.files if entry.path == path)
    return entry


def test_manifest_says_whom_a_file_is_about() -> None:
    """Rank, process, look and time of a dump come from the manifest."""
    bundle = small_bundle()
    manifest = read_manifest(manifest_file(bundle.manifest))
    assert manifest == bundle.manifest
    entry = entry_of(manifest, "node_1_x/rank10.13.look1.pyspy.json")
    assert entry.who() == Who(rank=10, trust=Trust.ENVIRONMENT, pid=13, host="node 1/x")
    assert (entry.look, entry.taken_at) == (1, 6.0)


def test_files_are_named_so_that_people_find_them() -> None:
    """Ranks are padded to sort, workers stand under their rank, the order is that of the ranks."""
    bundle = small_bundle()
    assert list(bundle.files) == [entry.path for entry in bundle.manifest.files]
    assert list(bundle.files) == [
        f"node_1_x/{name}.json"
        for name in (
            "processes.look0",
            "processes.look1",
            "rank00.12.look0.pyspy",
            "rank10.13.look0.pyspy",
            "rank10.worker.20.look0.pyspy",
            "launcher.3.look0.pyspy",
            "rank00.12.look1.pyspy",
            "rank10.13.look1.pyspy",
            "rank10.worker.20.look1.pyspy",
            "launcher.3.look1.pyspy",
            "excerpts",
            "claims",
            "gaps",
        )
    ]
    assert b"hunter2" not in b"".join(bundle.files.values())
    worker = entry_of(bundle.manifest, "node_1_x/rank10.worker.20.look0.pyspy.json")
    assert (worker.rank, worker.owner_rank, worker.role) == (None, 10, "dataloader-worker")


def test_same_evidence_makes_the_same_bundle() -> None:
    """Nothing in a bundle depends on when or in what order it was put together."""
    assert small_bundle() == small_bundle(order=-1)


def test_equal_gaps_are_reported_once() -> None:
    """The same gap at two looks is one; that of many processes is one with their ranks."""
    alike = tuple(
        Gap(what=f"stacks of rank {n}", why="no right", who=Who(rank=n, pid=n)) for n in range(6)
    )
    bundle = small_bundle((GAP, GAP, *alike))
    records = read(bundle.files["node_1_x/gaps.json"])
    assert [str(gap) for gap in records] == [
        "stacks of rank 1: it ended. Look.",
        "stacks of 6 processes, of ranks 0-5 among them: no right.",
    ]


@pytest.mark.parametrize("name", ["b", "deep/er/b", "b.tar.zst"])
def test_written_bundle_reads_back_byte_for_byte(tmp_path: Path, name: str) -> None:
    """Folder and archive hold the same files, the manifest first."""
    bundle = small_bundle()
    write_bundle(bundle, tmp_path / name)
    files = _files(tmp_path / name)
    assert next(iter(files)) == "manifest.json"
    assert read_manifest(files.pop("manifest.json")) == bundle.manifest
    assert files == dict(bundle.files)
    assert not list(tmp_path.glob("*.part"))


def _files(path: Path) -> dict[str, bytes]:
    if path.is_dir():
        names = ["manifest.json"] + [
            str(p.relative_to(path)) for p in path.rglob("*") if p.parent != path and p.is_file()
        ]
        return {name: (path / name).read_bytes() for name in names}
    import zstandard

    plain = zstandard.ZstdDecompressor().decompress(path.read_bytes())
    with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
        values = {}
        for member in archive:
            stream = archive.extractfile(member)
            assert stream is not None
            values[member.name] = stream.read()
        return values


def test_archive_is_the_same_each_time(tmp_path: Path) -> None:
    """Writing one bundle twice gives equal archives: no clock, no user, no mode of this machine."""
    bundle = small_bundle()
    for name in ("a.tar.zst", "b.tar.zst"):
        write_bundle(bundle, tmp_path / name)
    assert (tmp_path / "a.tar.zst").read_bytes() == (tmp_path / "b.tar.zst").read_bytes()


def test_places_that_cannot_take_a_bundle(tmp_path: Path) -> None:
    """A folder in use, a name of another kind, an unwritable place: said, with a remedy."""
    bundle = small_bundle()
    used = tmp_path / "used"
    used.mkdir()
    (used / "file").write_text("x")
    for target in (used, used / "file", tmp_path / "b.tar.gz", used / "file" / "b.tar.zst"):
        with pytest.raises(BundleError) as caught:
            write_bundle(bundle, target)
        assert caught.value.remedy
    assert (used / "file").read_text() == "x"


def test_manifest_of_a_newer_whyhang_is_refused() -> None:
    """A format that this version does not know is not guessed at."""
    newer = manifest_file(replace(Manifest(), format=99))
    with pytest.raises(BundleError, match="format 99"):
        read_manifest(newer)
    assert is_manifest("x/manifest.json", newer)
    assert not is_manifest("x/manifest.json", b'{"name": "a web app"}')
    assert not is_manifest("other.json", newer)


def test_documents_of_a_bundle_in_memory() -> None:
    """A live run hands readers the same documents as a saved bundle would."""
    entry = Entry(path="a.json", kind="py-spy", pid=3, rank=2, look=1, taken_at=9.0)
    bundle = Bundle(manifest=Manifest(files=(entry,)), files={"a.json": b"x" * 10})
    (document,) = documents_of(bundle)
    assert (document.path, document.who.rank, document.who.pid) == ("a.json", 2, 3)
    assert (document.look, document.taken_at, document.size) == (1, 9.0, 10)
    assert document.open().read() == document.open().read() == b"x" * 10
