"""RAS of a job is asked over TCP: every mood of a server ends in a report or in one sentence."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_sites import collected, site_of
from ras_docs import BEHIND, answer

from whyhang.analyzer.facts import Role
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import HostJob, JobProcess
from whyhang.collectors.live.probes.probe import Collected, Options, Site
from whyhang.collectors.live.probes.ras import Endpoint, RasAnswer, ask, collect, endpoint
from whyhang.collectors.live.proc import Proc

SERVER = Path(__file__).parent / "programs" / "ras_server.py"
REPORT = answer({0: (9, 412), 1: (9, 412), 2: (9, 411), 3: (9, 412)})

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sockets are found in /proc/net")


def free_port() -> int:
    """Find a port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def served(
    folder: Path, *modes: str, report: str = REPORT, **environ: str
) -> Iterator[tuple[int, ...]]:
    """Let servers in these moods listen on one port; give their pids."""
    path = folder / "report"
    path.write_text(report)
    port = free_port()
    with contextlib.ExitStack() as stack:
        pids = []
        for mode in modes:
            command = [sys.executable, "-I", str(SERVER), mode, str(port), str(path)]
            env = {**os.environ, "NCCL_RAS_ADDR": f"127.0.0.1:{port}", **environ}
            child = stack.enter_context(
                subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
            )
            stack.callback(child.kill)
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            pids.append(child.pid)
        yield tuple(pids)


def site(*pids: int, looks: int = 1) -> Site:
    """Give a job that these processes are."""
    members = tuple(
        JobProcess(pid=pid, ppid=1, role=Role.RANK, rank=rank) for rank, pid in enumerate(pids)
    )
    options = Options(looks=looks)
    return site_of(Host(Proc()), HostJob(members=members, world_size=4), options=options)


def asked(*pids: int, limit: float = 2.0) -> tuple[RasAnswer | None, str]:
    """Ask the RAS of a job that these processes are."""
    name, port = endpoint(Host(Proc()).environ(pids[0]))
    netns = pids[0] if Proc().foreign(pids[0], "net") else None
    answer = ask(Endpoint(host=name, port=port, netns=netns), pids, limit)
    return None if answer.trouble else answer, answer.trouble


def test_a_report_is_taken_as_it_came(tmp_path: Path) -> None:
    """The bundle gets RAS's own bytes, once for the first look and once for the last."""
    with served(tmp_path, "answer") as pids:
        evidence = collected(collect, site(*pids, looks=2))

    assert [file.data for file in evidence.files] == [REPORT.encode()] * 2
    assert [file.entry.path for file in evidence.files] == ["ras.look0.json", "ras.look1.json"]
    assert evidence.facts == []
    assert "asked NCCL RAS" in evidence.touched[0]


@pytest.mark.parametrize("mode", ["old", "rude"])
def test_a_version_without_json_gives_text(tmp_path: Path, mode: str) -> None:
    """NCCL before 2.28.7 refuses the format, or ends the dialogue; then text is asked for."""
    with served(tmp_path, mode, report=BEHIND) as pids:
        answer, trouble = asked(*pids)

    assert answer is not None
    assert (answer.form, answer.data, trouble) == ("text", BEHIND.encode(), "")


@pytest.mark.parametrize("mode", ["silent", "frozen"])
def test_a_stopped_process_is_passed_by(tmp_path: Path, mode: str) -> None:
    """One that takes the connection and says nothing is left for the next one of the job."""
    with served(tmp_path, mode, "answer") as pids:
        answer, _ = asked(*pids, limit=8.0)

    assert answer is not None
    assert answer.pid == pids[1]


def test_another_job_at_the_same_port_is_not_taken_for_ours(tmp_path: Path) -> None:
    """Whoever answers must be a process of this job; a stranger's report is never read."""
    with served(tmp_path, "answer", "answer") as pids:
        for _ in range(3):
            answer, _ = asked(pids[1], limit=5.0)
            assert answer is not None
            assert answer.pid == pids[1]

    with served(tmp_path, "answer") as (stranger,):
        other = subprocess.Popen(
            [sys.executable, "-I", "-c", "import time; time.sleep(60)"],
            env={"NCCL_RAS_ADDR": endpoint_of(stranger)},
        )
        try:
            answer, trouble = asked(other.pid, limit=5.0)
        finally:
            other.kill()
            other.wait()

    assert answer is None
    assert "another job" in trouble


def endpoint_of(pid: int) -> str:
    """Give the address that a process was told."""
    return Host(Proc()).environ(pid)["NCCL_RAS_ADDR"]


@pytest.mark.parametrize(("mode", "why"), [("silent", "said nothing"), ("garbage", "not RAS")])
def test_what_never_answers_costs_a_sentence_and_no_more_time(
    tmp_path: Path, mode: str, why: str
) -> None:
    """A server that stalls is ended after the time that was given, and said."""
    with served(tmp_path, mode) as pids:
        before = time.monotonic()
        answer, trouble = asked(*pids, limit=0.7)
        spent = time.monotonic() - before

    assert answer is None
    assert why in trouble
    assert spent < 2.5


@pytest.mark.parametrize("mode", ["cut", "drip"])
def test_a_cut_report_is_kept_as_far_as_it_goes(tmp_path: Path, mode: str) -> None:
    """What came before the connection broke, or before the time was up, is evidence."""
    with served(tmp_path, mode) as pids:
        answer, _ = asked(*pids, limit=0.7)

    assert answer is not None
    assert answer.data == REPORT.encode()[: len(REPORT) * 9 // 10]


def test_a_huge_report_is_cut_to_a_size(tmp_path: Path) -> None:
    """A report without end fills no memory."""
    with served(tmp_path, "huge") as pids:
        answer, _ = asked(*pids, limit=10.0)

    assert answer is not None
    assert len(answer.data) == 64 << 20


def test_a_job_in_a_network_of_its_own_is_asked_there(tmp_path: Path) -> None:
    """A container has its own localhost; the question is put inside it, where that is allowed."""
    (tmp_path / "report").write_text(REPORT)
    command = f"ip link set lo up && exec {sys.executable} -I {SERVER} answer 28028 report"
    child = subprocess.Popen(
        ["unshare", "-n", "sh", "-c", command],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert child.stdout is not None
        if child.stdout.readline() != "ready\n":
            pytest.skip("a network namespace cannot be made here")
        answer, _ = asked(child.pid)
    finally:
        child.kill()
        child.communicate()

    assert answer is not None
    assert answer.data == REPORT.encode()


def test_nothing_is_asked_where_nothing_listens() -> None:
    """A job without NCCL, or with RAS switched off, is left alone and costs no process."""
    assert collected(collect, site(os.getpid())) == Collected()


def test_ras_that_is_switched_off_is_not_asked(tmp_path: Path) -> None:
    """Another program may use the port of a job that has no RAS."""
    with served(tmp_path, "answer", NCCL_RAS_ENABLE="0") as pids:
        assert collected(collect, site(*pids)) == Collected()


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ("", ("localhost", 28028)),
        ("10.0.0.4:3000", ("10.0.0.4", 3000)),
        ("[::1]:3000", ("::1", 3000)),
        (":3000", ("localhost", 3000)),
        ("nonsense", ("localhost", 28028)),
        ("host:99999", ("localhost", 28028)),
    ],
)
def test_the_address_is_the_one_that_the_job_was_given(given: str, place: tuple[str, int]) -> None:
    """NCCL_RAS_ADDR names host and port; without it RAS listens at localhost:28028."""
    assert endpoint({"NCCL_RAS_ADDR": given}) == place
