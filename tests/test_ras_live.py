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
from test_ras import BEHIND, answer

from whyhang.analyzer.model import Role
from whyhang.collectors.live.descriptors import Sockets
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import Job, Member
from whyhang.collectors.live.probes.ras import Answer, RasQuestion, endpoint
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


def question(*pids: int, looks: int = 1, interval: float = 0.2) -> RasQuestion:
    """Ask the RAS of a job that these processes are."""
    host = Host(Proc())
    members = tuple(
        Member(pid=pid, ppid=1, role=Role.RANK, rank=rank) for rank, pid in enumerate(pids)
    )
    job = Job(members=members, launcher=None, world_size=4)
    return RasQuestion(host, job, looks, interval, Sockets(host.proc))


def ask(*pids: int, extra: float = 2.0) -> tuple[tuple[Answer, ...], str]:
    """Ask, and give the reports and what is said of trouble."""
    asked = question(*pids)
    answers = asked.finish(extra)
    return answers, "; ".join(gap.why for gap in asked.gaps)


def test_a_report_is_taken_as_it_came(tmp_path: Path) -> None:
    """The bundle gets RAS's own bytes, once for the first look and once for the last."""
    with served(tmp_path, "answer") as pids:
        asked = question(*pids, looks=2)
        answers = asked.finish()

    assert [answer.data for answer in answers] == [REPORT.encode()] * 2
    assert [(answer.look, answer.form) for answer in answers] == [(0, "json"), (1, "json")]
    assert answers[0].pid == pids[0]
    assert answers[1].taken_at - answers[0].taken_at >= 0.19
    assert asked.gaps == []
    assert "asked NCCL RAS" in asked.touched[0]


@pytest.mark.parametrize("mode", ["old", "rude"])
def test_a_version_without_json_gives_text(tmp_path: Path, mode: str) -> None:
    """NCCL before 2.28.7 refuses the format, or ends the dialogue; then text is asked for."""
    with served(tmp_path, mode, report=BEHIND) as pids:
        answers, trouble = ask(*pids)

    assert [(one.form, one.data) for one in answers] == [("text", BEHIND.encode())]
    assert trouble == ""


@pytest.mark.parametrize("mode", ["silent", "frozen"])
def test_a_stopped_process_is_passed_by(tmp_path: Path, mode: str) -> None:
    """One that takes the connection and says nothing is left for the next one of the job."""
    with served(tmp_path, mode, "answer") as pids:
        answers, _ = ask(*pids, extra=8.0)

    assert [one.pid for one in answers] == [pids[1]]


def test_another_job_at_the_same_port_is_not_taken_for_ours(tmp_path: Path) -> None:
    """Whoever answers must be a process of this job; a stranger's report is never read."""
    with served(tmp_path, "answer", "answer") as pids:
        for _ in range(3):
            answers, _ = ask(pids[1], extra=5.0)
            assert [one.pid for one in answers] == [pids[1]]

    with served(tmp_path, "answer") as (stranger,):
        other = subprocess.Popen(
            [sys.executable, "-I", "-c", "import time; time.sleep(60)"],
            env={"NCCL_RAS_ADDR": endpoint_of(stranger)},
        )
        try:
            answers, trouble = ask(other.pid, extra=5.0)
        finally:
            other.kill()
            other.wait()

    assert answers == ()
    assert "another job" in trouble


def endpoint_of(pid: int) -> str:
    """Give the address that a process was told."""
    return Host(Proc()).environ(pid)["NCCL_RAS_ADDR"]


@pytest.mark.parametrize(
    ("mode", "said"),
    [("silent", "no report came"), ("garbage", "not RAS")],
)
def test_what_never_answers_costs_a_sentence_and_no_more_time(
    tmp_path: Path, mode: str, said: str
) -> None:
    """A server that stalls is ended after the time that was given, and said."""
    with served(tmp_path, mode) as pids:
        before = time.monotonic()
        answers, trouble = ask(*pids, extra=0.7)
        spent = time.monotonic() - before

    assert answers == ()
    assert said in trouble
    assert spent < 2.5


@pytest.mark.parametrize("mode", ["cut", "drip"])
def test_a_cut_report_is_kept_as_far_as_it_goes(tmp_path: Path, mode: str) -> None:
    """What came before the connection broke, or before the time was up, is evidence."""
    with served(tmp_path, mode) as pids:
        answers, _ = ask(*pids, extra=0.7)

    assert answers[0].data == REPORT.encode()[: len(REPORT) * 9 // 10]


def test_a_huge_report_is_cut_to_a_size(tmp_path: Path) -> None:
    """A report without end fills no memory."""
    with served(tmp_path, "huge") as pids:
        answers, _ = ask(*pids, extra=10.0)

    assert len(answers[0].data) == 64 << 20


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
        answers, _ = ask(child.pid)
    finally:
        child.kill()
        child.communicate()

    assert [one.data for one in answers] == [REPORT.encode()]


def test_nothing_is_asked_where_nothing_listens() -> None:
    """A job without NCCL, or with RAS switched off, is left alone and costs no process."""
    asked = question(os.getpid())

    assert asked.finish() == ()
    assert asked.gaps == []
    assert asked.touched == []


def test_ras_that_is_switched_off_is_not_asked(tmp_path: Path) -> None:
    """Another program may use the port of a job that has no RAS."""
    with served(tmp_path, "answer", NCCL_RAS_ENABLE="0") as pids:
        assert question(*pids).touched == []


@pytest.mark.parametrize(
    ("told", "place"),
    [
        ("", ("localhost", 28028)),
        ("10.0.0.4:3000", ("10.0.0.4", 3000)),
        ("[::1]:3000", ("::1", 3000)),
        (":3000", ("localhost", 3000)),
        ("nonsense", ("localhost", 28028)),
        ("host:99999", ("localhost", 28028)),
    ],
)
def test_the_address_is_the_one_that_the_job_was_told(told: str, place: tuple[str, int]) -> None:
    """NCCL_RAS_ADDR names host and port; without it RAS listens at localhost:28028."""
    assert endpoint({"NCCL_RAS_ADDR": told}) == place
