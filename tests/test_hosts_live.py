"""Real jobs on hosts that are namespaces of this machine, reached by their own sshd."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ssh_hosts import Hosts, missing, wait_for

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(bool(missing()), reason=missing() or "ok"),
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
TRAIN = """
import datetime, os, sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(hours=1))
print("rank", dist.get_rank(), "begins", flush=True)
def train():
    if dist.get_rank() == 1:
        time.sleep(100000)
    dist.all_reduce(torch.ones(4))
dist.barrier()
train()
"""
MPI = """
import time
from mpi4py import MPI
MPI.COMM_WORLD.Barrier()
if MPI.COMM_WORLD.rank == 5:
    time.sleep(100000)
MPI.COMM_WORLD.Barrier()
"""

MPI_BY_CTYPES = """
import ctypes, os, time
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
mpi.MPI_Init(None, None)
world = ctypes.byref(ctypes.c_char.in_dll(mpi, "ompi_mpi_comm_world"))
def wait():
    mpi.MPI_Barrier(world)
wait()
if os.environ["OMPI_COMM_WORLD_RANK"] == "5":
    while not os.path.exists("/not there"):
        time.sleep(0.05)
wait()
"""


def torchrun(folder: Path, nodes: int) -> list[str]:
    words = ["env", "GLOO_SOCKET_IFNAME=eth0", str(BIN / "torchrun"), "--nnodes", str(nodes)]
    words += ["--log-dir", str(folder / "logs"), "--redirects", "3", "--tee", "3"]
    words += ["--nproc-per-node", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "n0:29400"]
    return [*words, "--rdzv-id", "job7", str(folder / "train.py")]


@contextlib.contextmanager
def training(hosts: Hosts, nodes: int = 2) -> Iterator[None]:
    """Run a job on the first hosts until all its ranks hang."""
    folder = hosts.folder.parent
    (folder / "train.py").write_text(TRAIN)
    with contextlib.ExitStack() as stack:
        logs = [folder / f"{name}.out" for name in hosts.names[:nodes]]
        for name, log in zip(hosts.names, logs, strict=False):
            out = stack.enter_context(log.open("wb"))
            stack.enter_context(hosts.started(name, *torchrun(folder, nodes), stdout=out))
        wait_for(lambda: sum(log.read_bytes().count(b"begins") for log in logs) == 2 * nodes, 120)
        time.sleep(2)
        yield


def whyhang(hosts: Hosts, name: str, *words: str, limit: float = 120) -> tuple[dict[str, Any], str]:
    """Run it on a host; return its report and what it says beside."""
    command = ["env", f"PYTHONPATH={ROOT}/.pkg", sys.executable, "-m", "whyhang", *words]
    done = hosts.run(name, *command, "--format", "json", timeout=limit)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report, done.stderr


def pid_of(hosts: Hosts, name: str, words: str) -> str:
    lines = (line.split(None, 1) for line in hosts.processes(name))
    return next(
        pid for pid, line in lines if words in line and not line.startswith(("ssh", "/usr/bin/ssh"))
    )


def left_behind(hosts: Hosts) -> list[str]:
    """List what whyhang would leave on hosts: processes and files."""
    marks = ("whyhang", "far_side", "py-spy")
    return [
        line
        for name in hosts.names
        for line in (*hosts.processes(name), *hosts.files(name))
        for own in [line.replace(str(hosts.folder.parent), "").replace(str(ROOT), "")]
        if any(mark in own for mark in marks)
    ]


def states(report: dict[str, Any]) -> dict[int, str]:
    return {rank["rank"]: rank["state"] for rank in report["ranks"]}


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="hosts-", dir="/var/tmp"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


def test_a_pid_on_one_host_leads_to_all_ranks_and_a_bundle_says_the_same(folder: Path) -> None:
    """From a rank, from an agent of the other host, by --hosts; collected first; sent as a file."""
    with Hosts(folder / "rig", 2) as hosts, training(hosts):
        kept = folder / "kept.tar.zst"
        report, errors = whyhang(hosts, "n0", pid_of(hosts, "n0", "-u "), "--save", str(kept))
        assert "this host and, by ssh, n1" in errors
        check(report)
        again, _ = whyhang(hosts, "n0", str(kept))
        assert again["headline"] == report["headline"]
        assert again["findings"][0]["culprit_ranks"] == [1]
        assert again["gaps"] == report["gaps"]
        assert kept.stat().st_size < 4 * 50_000
        report, errors = whyhang(hosts, "n1", pid_of(hosts, "n1", "torchrun"))
        assert "this host and, by ssh, n0" in errors
        check(report)
        report, _ = whyhang(hosts, "n1", pid_of(hosts, "n1", "-u "), "--local")
        assert states(report)[0] == "unreachable"
        assert left_behind(hosts) == []

        # now n1 has neither this checkout nor its Python
        for place in {ROOT, BIN.parent}:
            hosts.run("n1", "mount", "-t", "tmpfs", "tmpfs", str(place))
        report, _ = whyhang(hosts, "n0", "--hosts", "n[0-1]", "--save", str(folder / "b"))
        check(report)
        assert left_behind(hosts) == []
        looks = [
            [json.loads(path.read_text())["facts"][0]["taken_at"] for path in sorted(place)]
            for place in (
                (folder / "b" / name).glob("processes.look[01].json") for name in hosts.names
            )
        ]
        assert all(abs(a - b) < 1 for a, b in zip(*looks, strict=True)), looks
        manifest = json.loads((folder / "b" / "manifest.json").read_text())
        logs = [folder / "b" / each["path"] for each in manifest["files"] if each["kind"] == "log"]
        beginnings = [log.read_bytes() for log in logs if log.name.startswith("stdout")]
        # all hosts see all logs, and of each one host is the reader
        assert sorted(beginnings) == [b"rank %d begins\n" % rank for rank in range(4)]
        assert {clock["host"] for clock in manifest["clocks"]} == {"n0", "n1"}
        assert all(abs(clock["ahead"]) < 1 for clock in manifest["clocks"])


def check(report: dict[str, Any]) -> None:
    first = report["findings"][0]
    assert first["signature"] == "missing-rank-in-collective"
    assert first["culprit_ranks"] == [1], (report["headline"], report["gaps"])
    assert first["affected_ranks"] == [0, 2, 3]
    assert report["job"]["hosts"] == ["n0", "n1"]


def test_hosts_that_do_not_answer_refuse_or_have_no_rights_are_named_with_their_reason(
    folder: Path,
) -> None:
    """One cut off, one whose sshd says nothing, one where this user may not look, one unknown."""
    more = {
        2: "iptables -A INPUT -j DROP",
        3: f'exec {sys.executable} -c \'import socket,time;s=socket.create_server(("",22));'
        "sshd=[s.accept() for _ in range(9)]'",
        4: "",
    }
    with Hosts(folder / "rig", 6, more) as hosts, training(hosts):
        config = hosts.folder / "ssh" / "ssh_config"
        config.write_text("Host n4\n  User nobody\n" + config.read_text())
        known = hosts.folder / "ssh" / "ssh_known_hosts"
        lines = known.read_text().splitlines(keepends=True)
        known.write_text("".join(line for line in lines if not line.startswith("n5,")))
        began = time.monotonic()
        report, _ = whyhang(hosts, "n0", "--hosts", "n[0-5]")
        took = time.monotonic() - began
        check(report)
        gaps = "\n".join(report["gaps"])
        for name, why in {
            "n2": "cannot be reached over the network",
            "n3": "does not answer as sshd",
            "n4": "no process of the job|was refused|said",
            "n5": "does not know its host key",
        }.items():
            lines = [
                x for x in gaps.splitlines() if re.match(rf"looking at host.*\b{name}\b.*:", x)
            ]
            assert lines, (name, gaps)
            assert any(one in lines[0] for one in why.split("|")), lines
        assert took < 30
        assert left_behind(hosts) == []


def test_where_no_other_host_lets_one_in_this_host_is_looked_at_soon(folder: Path) -> None:
    """Nothing is asked for, and it takes a few seconds more at most."""
    with Hosts(folder / "rig", 2) as hosts, training(hosts):
        (hosts.folder / "authorized").write_text((hosts.folder / "other_key.pub").read_text())
        pid = pid_of(hosts, "n0", "-u ")
        began = time.monotonic()
        whyhang(hosts, "n0", pid, "--local")
        alone = time.monotonic() - began
        report, _ = whyhang(hosts, "n0", pid)
        both = time.monotonic() - began - alone
        assert report["headline"].startswith("Rank 1 ")  # what ranks 2 and 3 do, nobody knows
        assert any("n1" in gap and "no key" in gap for gap in report["gaps"])
        assert both < alone + 5


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(MPI, id="mpi4py"),
        pytest.param(MPI_BY_CTYPES, id="ctypes", marks=pytest.mark.variation),
    ],
)
def test_mpirun_over_three_hosts_is_seen_from_any_of_them(folder: Path, program: str) -> None:
    """One that calls MPI through C shows it in native stacks alone."""
    if importlib.util.find_spec("mpi4py") is None:
        pytest.skip("mpi4py is not installed")
    with Hosts(folder / "rig", 3) as hosts:
        (folder / "train_mpi.py").write_text(program)
        words = ["env", "HOME=/root", "mpirun", "--allow-run-as-root"]
        for name in ("btl_tcp_if_include", "oob_tcp_if_include"):
            words += ["--mca", name, "eth0"]
        words += ["--host", "n0:2,n1:2,n2:2", "-np", "6", sys.executable]
        with hosts.started("n0", *words, str(folder / "train_mpi.py")):
            wait_for(lambda: any("train_mpi" in line for line in hosts.processes("n2")), 60)
            time.sleep(8)
            for name, process in (("n0", "mpirun"), ("n2", "train_mpi.py")):
                report, errors = whyhang(hosts, name, pid_of(hosts, name, process))
                assert "by ssh" in errors
                assert report["job"]["hosts"] == ["n0", "n1", "n2"]
                assert sorted(states(report)) == [0, 1, 2, 3, 4, 5]
                assert report["verdict"] == "hung", report["headline"]
                assert report["findings"][0]["culprit_ranks"] == [5], report["headline"]
            assert left_behind(hosts) == []


def test_ctrl_c_diagnoses_what_has_come_and_a_kill_leaves_nothing(folder: Path) -> None:
    with Hosts(folder / "rig", 2) as hosts, training(hosts):
        words = ["env", f"PYTHONPATH={ROOT}/.pkg", sys.executable, "-m", "whyhang"]
        words += ["--hosts", "n[0-1]", "--interval", "60", "--timeout", "100", "--format", "json"]
        for stop in (signal.SIGINT, signal.SIGKILL):
            process = subprocess.Popen(
                hosts.command("n0", *words),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            wait_for(lambda: any("-m whyhang" in line for line in hosts.processes("n0")))
            time.sleep(10)
            inside = pid_of(hosts, "n0", "-m whyhang")
            hosts.run("n0", "kill", f"-{stop.value}", inside)
            out, _ = process.communicate(timeout=30)
            if stop is signal.SIGINT:
                report = json.loads(out)
                assert sorted(states(report)) == [0, 1, 2, 3]
                assert report["findings"][0]["culprit_ranks"] == [1], report["headline"]
            wait_for(lambda: left_behind(hosts) == [], 10)


PATIENT = """
import functools, sys
from whyhang.analyzer.cli import main
from whyhang.collectors.hosts.planners import ssh
ssh.host.__kwdefaults__["connect"] = 80
ssh.Reach = functools.partial(ssh.Reach, patience=80)
sys.exit(main())
"""
"""Does not give a host up in the seconds in which a busy machine has the others answer."""


def test_ctrl_c_while_an_sshd_is_frozen_looks_at_those_that_answered(folder: Path) -> None:
    with Hosts(folder / "rig", 3) as hosts, training(hosts):
        os.kill(hosts.pids["n2"], signal.SIGSTOP)
        words = ["env", f"PYTHONPATH={ROOT}/.pkg", sys.executable, "-c", PATIENT]
        process = subprocess.Popen(
            hosts.command("n0", *words, "--hosts", "n[0-2]", "--timeout", "90", "--format", "json"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        wait_for(lambda: any("whyhang" in line for line in hosts.processes("n1")))
        time.sleep(12)  # in which the two answer
        assert process.poll() is None, process.communicate()
        hosts.run("n0", "kill", "-INT", pid_of(hosts, "n0", "functools"))
        out, errors = process.communicate(timeout=60)
        os.kill(hosts.pids["n2"], signal.SIGCONT)
        assert b"looking at the 2 hosts that answered" in errors
        report = json.loads(out)
        assert report["findings"][0]["culprit_ranks"] == [1], report["headline"]
        assert any("host n2: it had not answered when Ctrl-C came" in gap for gap in report["gaps"])


CUT = (
    TRAIN.partition("def train")[0]
    + """
while True:
    dist.all_reduce(torch.ones(1000))
    time.sleep(0.05)
"""
)


@pytest.mark.parametrize("how", ["one path", "one host", "one interface"])
def test_what_was_cut_between_hosts_is_found_in_their_sockets(folder: Path, how: str) -> None:
    """A firewall between two, a host that nobody reaches; a fourth host looks at them."""
    with contextlib.ExitStack() as stack:
        hosts = stack.enter_context(Hosts(folder / "rig", 4))
        (folder / "cut.py").write_text(CUT)
        logs = [folder / f"rank{rank}.log" for rank in range(3)]
        for rank, log in enumerate(logs):
            about = [f"RANK={rank}", "WORLD_SIZE=3", "MASTER_ADDR=n0", "MASTER_PORT=29500"]
            words = ["env", *about, "GLOO_SOCKET_IFNAME=eth0", sys.executable, "-u"]
            out = stack.enter_context(log.open("wb"))
            stack.enter_context(
                hosts.started(f"n{rank}", *words, str(folder / "cut.py"), stdout=out)
            )
        wait_for(lambda: all(b"begins" in log.read_bytes() for log in logs), 120)
        time.sleep(2)
        if how == "one path":
            rule = [
                "iptables",
                "-A",
                "INPUT",
                "-p",
                "tcp",
                "-s",
                hosts.addresses["n1"],
                "-j",
                "DROP",
            ]
            hosts.run("n2", *rule)
        elif how == "one host":
            hosts.run("n2", "ip", "link", "set", "eth0", "down")
        else:
            rule = ["iptables", "-A", "INPUT", "-p", "tcp", "!", "--dport", "22"]
            hosts.run("n2", *rule, "-j", "DROP")
        time.sleep(8)
        report, _ = whyhang(hosts, "n3", "--hosts", "n[0-2]")
        found = report["findings"][0]
        assert (found["signature"], found["culprit_ranks"]) == {
            "one path": ("connection-gets-no-answer", None),
            "one host": ("host-does-not-answer", [2]),
            "one interface": ("host-is-cut-off", [2]),
        }[how], report["headline"]


def test_bundles_of_each_host_collected_by_hand_are_read_as_one_job(folder: Path) -> None:
    with Hosts(folder / "rig", 2) as hosts, training(hosts):
        together = folder / "together"
        together.mkdir()
        for name in hosts.names:
            words = ["env", f"PYTHONPATH={ROOT}/.pkg", sys.executable, "-m", "whyhang", "collect"]
            pid = pid_of(hosts, name, "-u ")
            done = hosts.run(name, *words, pid, "--local", "-o", str(together / f"{name}.tar.zst"))
            assert done.returncode == 0, done.stderr
        report, _ = whyhang(hosts, "n0", str(together))
        check(report)
