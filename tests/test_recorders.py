"""Recorder dumps of a live job: found where torch writes them, or asked for."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_proc import FakeProc
from fr_docs import REAL, entry, header, pickled
from live_sites import site_of

from whyhang.analyzer.cli import main
from whyhang.analyzer.facts import Gap
from whyhang.collectors.flight_recorder.places import left_behind, prefixes
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import HostJob, rank_by_environment
from whyhang.collectors.live.probes.probe import BundleFile, Collected, Site
from whyhang.collectors.live.probes.recorders import asked, from_debug_server, written
from whyhang.collectors.live.proc import Proc


def dump(ranks: int = 2) -> bytes:
    return pickled(header(("0", "default_pg", range(ranks))), [entry(0)])


def job(root: Path, *ranks: int, **environ: str) -> Site:
    """Make ranks of a job of two that began a minute ago and have a file system of their own."""
    (root / "proc").mkdir()
    fake = FakeProc(root / "proc")
    (root / "proc" / "stat").write_text(f"btime {int(time.time()) - 60}\n")
    for rank in ranks or (1,):
        values = {"HOME": "/home/u", "RANK": rank, "WORLD_SIZE": 2, **environ}
        fake.add(70 + rank, 1, "python train.py", values, started=0)
        (root / "proc" / f"{70 + rank}" / "root").symlink_to(root)
        (root / "proc" / f"{70 + rank}" / "cwd").symlink_to(root / "cwd")
    host = fake.host()
    members = tuple(rank_by_environment(host, pid) for pid in host.stats)
    return site_of(host, HostJob(members=members, world_size=2))


def take(
    collect: Callable[..., list[BundleFile]], site: Site, *arguments: object, **options: object
) -> Collected:
    """Return what a part of the probe brings, with its dumps among the files."""
    evidence = Collected()
    evidence.files += collect(site, evidence, *arguments, **options)
    return evidence


def put(root: Path, path: str, data: bytes, age: float = 0) -> None:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    os.utime(file, (time.time() - age, time.time() - age))


def test_places_are_those_of_all_versions_the_jobs_own_choice_first() -> None:
    """Torch has moved the default twice, and the environment can name another."""
    assert prefixes({"HOME": "/home/u"}) == (
        "/home/u/.cache/torch/comm_lib_trace_rank_",
        "/home/u/.cache/torch/nccl_trace_rank_",
        "/tmp/nccl_trace_rank_",
    )
    chosen = {
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/b_", "TORCH_FR_DUMP_TEMP_FILE": "/a_",
        "XDG_CACHE_HOME": "/c",
    }  # fmt: skip
    assert prefixes(chosen)[:3] == ("/a_", "/b_", "/c/torch/comm_lib_trace_rank_")


def test_a_bare_call_reads_the_dumps_of_the_last_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says where they are, how old they are, and what beside them is of another run."""
    put(tmp_path, ".cache/torch/nccl_trace_rank_0", b"of last week", age=7 * 86400)
    for rank in range(2):
        put(tmp_path, f".cache/torch/comm_lib_trace_rank_{rank}", dump(), age=200 + rank)
    put(tmp_path, ".cache/torch/comm_lib_trace_rank_2", dump(ranks=3), age=9000)
    put(tmp_path, ".cache/torch/comm_lib_trace_rank_2.old", dump(ranks=3))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TORCH_FR_DUMP_TEMP_FILE", str(tmp_path / "elsewhere_"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    left = left_behind({**os.environ, "HOME": str(tmp_path)})
    assert left is not None
    assert [Path(path).name for path in left.files] == [
        "comm_lib_trace_rank_0", "comm_lib_trace_rank_1",
    ]  # fmt: skip
    assert left.older == 1

    assert main(["--format", "json"]) == 0
    out, error = capsys.readouterr()
    assert json.loads(out)["job"]["world_size"] == 2
    assert "reading 2 recorder dumps at ~/.cache/torch/comm_lib_trace_rank_*" in error
    assert "written 3 minutes ago; 1 beside them are older, and left out" in error


def test_the_newest_dump_of_the_present_run_is_taken(tmp_path: Path) -> None:
    """It is read through the process's own root, as in a container."""
    put(tmp_path, "/tmp/nccl_trace_rank_1", b"\x80\x02older", age=9)
    put(tmp_path, "/home/u/.cache/torch/comm_lib_trace_rank_1", dump())

    (one,) = take(written, job(tmp_path)).files

    assert (one.entry.rank, one.entry.pid) == (1, 71)
    assert one.data == dump()


def test_a_relative_choice_is_below_the_working_directory(tmp_path: Path) -> None:
    """Jobs write beside themselves."""
    put(tmp_path / "cwd", "traces/rank_1", dump())

    assert take(written, job(tmp_path, TORCH_FR_DUMP_TEMP_FILE="traces/rank_")).files


@pytest.mark.parametrize(
    ("data", "age", "why"),
    [(dump(), 3600, "of an earlier run"), (dump(ranks=8), 0, "of a job of 8 ranks")],
)
def test_what_does_not_fit_the_job_is_left_and_reported(
    data: bytes, age: float, why: str, tmp_path: Path
) -> None:
    """Dumps of an earlier run or of another job lie in the same place."""
    put(tmp_path, "/tmp/nccl_trace_rank_1", data, age=age)

    taken = take(written, job(tmp_path))

    assert taken.files == []
    assert why in str(taken.facts[0])


def test_nothing_written_is_nothing_reported(tmp_path: Path) -> None:
    """Most jobs that hang have written no dump yet."""
    assert take(written, job(tmp_path)) == Collected()


def test_a_pipe_where_a_dump_should_be_is_never_waited_for(tmp_path: Path) -> None:
    """Opening it would hang."""
    path = tmp_path / "tmp/nccl_trace_rank_1"
    path.parent.mkdir()
    os.mkfifo(path)

    assert take(written, job(tmp_path)).files == []


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[Path]:
    """Give a pipe that answers what is written to it with a dump, as torch's thread does."""
    pipe = tmp_path / "pipes/hang_1.pipe"
    pipe.parent.mkdir()
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    def answer() -> None:
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            if os.read(reading, 100):
                put(tmp_path, "/tmp/nccl_trace_rank_1", dump())
                return
            time.sleep(0.02)

    thread = threading.Thread(target=answer)
    thread.start()
    yield pipe
    thread.join()
    os.close(reading)


def test_a_rank_with_a_pipe_is_asked(tmp_path: Path, listening: Path) -> None:
    """What was done is told, and the dump that comes is taken."""
    taken = take(asked, job(tmp_path, TORCH_NCCL_DEBUG_INFO_PIPE_FILE="/pipes/hang_"))

    assert [made.data for made in taken.files] == [dump()]
    assert taken.touched == ["asked rank 1 for a recorder dump through its pipe"]
    assert listening.exists()


def test_a_pipe_that_nobody_reads_is_a_gap(tmp_path: Path) -> None:
    """Writing to it would wait for ever; a file in its place is left alone."""
    (tmp_path / "pipes").mkdir()
    os.mkfifo(tmp_path / "pipes/hang_1.pipe")
    (tmp_path / "pipes/hang_2.pipe").write_bytes(b"mine")
    ranks = job(tmp_path, 1, 2, 3, TORCH_NCCL_DEBUG_INFO_PIPE_FILE="/pipes/hang_")
    (tmp_path / "none").mkdir()

    taken = take(asked, ranks)

    seen_as = f"{tmp_path}/proc/72/root"
    assert [gap.why.replace(seen_as, "") for gap in taken.facts if isinstance(gap, Gap)] == [
        "nobody reads its pipe",
        "/pipes/hang_2.pipe is no pipe",
        "its pipe cannot be written to (No such file or directory)",
    ]
    assert taken.touched == []
    assert "was not set at its start" in str(take(asked, job(tmp_path / "none")).facts[0])
    assert (tmp_path / "pipes/hang_2.pipe").read_bytes() == b"mine"


def test_a_rank_that_does_not_answer_is_a_gap(tmp_path: Path) -> None:
    """A process that is stopped cannot write."""
    (tmp_path / "pipes").mkdir()
    os.mkfifo(tmp_path / "pipes/hang_1.pipe")
    reading = os.open(tmp_path / "pipes/hang_1.pipe", os.O_RDONLY | os.O_NONBLOCK)
    own = job(tmp_path, TORCH_NCCL_DEBUG_INFO_PIPE_FILE="/pipes/hang_")

    taken = take(asked, own, patience=0.3)

    os.close(reading)
    assert "it wrote none within 0.3 s of being asked" in str(taken.facts[0])


@pytest.fixture
def server() -> Iterator[str]:
    """Give the address of a page as torch 2.13's debug server makes it."""
    texts = [(REAL / f"comm_lib_trace_rank_{rank}.json").read_text() for rank in (0, 2)]
    page = "".join(
        f"<h2>Rank {rank}: http://vm:1/handler/fr_trace_json?</h2>\n\n            <pre>"
        f"{text.replace('&', '&amp;').replace(chr(34), '&#34;')}</pre>"
        for rank, text in zip((0, 2), texts, strict=True)
    )

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/fr_trace_json" else 404)
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with http.server.HTTPServer(("127.0.0.1", 0), Page) as serving:
        thread = threading.Thread(target=serving.handle_request)
        thread.start()
        yield f"127.0.0.1:{serving.server_port}"
        thread.join(5)


def test_the_debug_server_gives_all_ranks(server: str) -> None:
    """Its page holds a JSON dump for each."""
    taken = take(from_debug_server, site_of(Host(Proc())), server)

    assert [made.entry.rank for made in taken.files] == [0, 2]
    assert json.loads(taken.files[1].data)["version"] == "2.10"
    assert taken.touched == [f"asked the debug server at {server} for the recorders of all ranks"]


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nonsense"])
def test_no_debug_server_is_a_gap(address: str) -> None:
    """Nobody listens there."""
    taken = take(from_debug_server, site_of(Host(Proc())), address)

    assert taken.files == []
    assert taken.facts


JOB = """
import os, time
os.environ["TORCH_FR_BUFFER_SIZE"] = "100"
import torch, torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace
dist.init_process_group("gloo")
rank = dist.get_rank()
for step in range(5):
    dist.all_reduce(torch.ones(3))
work = dist.all_reduce(torch.ones(3), async_op=True) if rank else None
time.sleep(1)
folder = os.path.join(os.environ["XDG_CACHE_HOME"], "torch")
os.makedirs(folder, exist_ok=True)
with open(f"{folder}/comm_lib_trace_rank_{rank}", "wb") as file:
    file.write(_dump_fr_trace())
print("written", flush=True)
time.sleep(600)
"""


@pytest.mark.live
def test_a_live_look_takes_the_dumps_of_the_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Stacks say that all sleep; the recorders in the job's own cache folder name the late rank."""
    script = tmp_path / "train.py"
    script.write_text(JOB)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "3"]
    job = subprocess.Popen(
        [*launcher, "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", str(script)],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    too_late = threading.Timer(120, job.kill)  # a rank that says nothing must not be waited for
    too_late.start()
    try:
        assert job.stdout is not None
        notices = 0
        while notices < 3:
            line = job.stdout.readline()
            assert line
            notices += line.count("written")  # two may stand in one line
        assert main([str(job.pid), "--format", "json"]) == 0
    finally:
        too_late.cancel()
        job.terminate()
        job.wait(60)

    report = json.loads(capsys.readouterr().out)

    sources = {piece["source"] for one in report["findings"] for piece in one["evidence"]}
    assert any(source.endswith("rank1.flight_recorder") for source in sources), report["headline"]
    assert report["findings"][0]["culprit_ranks"] == [0]
