"""Many hosts: how they are named, what goes over the wire, and one bundle of what they send."""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import cast

import pytest
import tomli
from small_jobs import report_of

from whyhang.analyzer.commands import hosts, live_options
from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.facts import Gap, Role
from whyhang.collectors.files.bundle import MANIFEST, Entry, Manifest, archive, manifest_file
from whyhang.collectors.hosts import boot, payload, remote_host, wire
from whyhang.collectors.hosts.connections import Connections
from whyhang.collectors.hosts.conversation import Conversation
from whyhang.collectors.hosts.merge import HostJobNumber, Parts
from whyhang.collectors.hosts.planners import local, ssh
from whyhang.collectors.hosts.reach import Reach, ReachedHost
from whyhang.collectors.hosts.remote_host import RemoteHost, how_far, left_to_others
from whyhang.collectors.hosts.wire import Answer
from whyhang.collectors.live.job.members import HostJob, JobProcess
from whyhang.collectors.live.probes.probe import Options


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    live_options.add_host_arguments(parser)
    return parser.parse_args(words)


def test_a_node_set_names_hosts_and_each_gets_a_command_that_asks_for_no_password() -> None:
    reach = ssh.reach("n[1-3],login")
    assert [host.name for host in reach.hosts] == ["login", "n1", "n2", "n3"]
    assert reach.sentence == "4 hosts by ssh"
    command = reach.hosts[1].command(("sh", "-c", "echo $0"))
    assert command[0] == "ssh"
    assert command[-5:] == ("--", "n1", "sh", "-c", "'echo $0'")
    assert {"BatchMode=yes", "StrictHostKeyChecking=yes", "ForwardAgent=no"} < set(command)


def test_a_hostfile_of_mpi_or_deepspeed_names_hosts(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("# nodes\nn1 slots=8\nn2:8\n\nn1 slots=8\nn[5-6]\n")
    assert [host.name for host in ssh.reach(str(file)).hosts] == ["n1", "n2", "n5", "n6"]


@pytest.mark.parametrize("text", ["-oProxyCommand=x", "n1,-oX", "a b", "n[1", "", "n1;reboot"])
def test_what_is_no_name_is_never_given_to_ssh(text: str) -> None:
    with pytest.raises(TargetError):
        ssh.reach(text)


def test_a_dry_run_prints_the_hosts_and_one_command_for_all_and_reaches_none() -> None:
    sentence, way, there = hosts.dry_run([], options("--hosts", "n[1-200]")).splitlines()
    assert sentence == "200 hosts by ssh"
    assert way.startswith("n1, n2, n3,")
    assert ", n200: NAME is each of these: ssh -o BatchMode=yes " in way
    assert way.endswith(" -- NAME COMMAND")
    assert there.startswith("COMMAND is sh -c ")
    assert sys.executable in there


def test_a_dry_run_of_one_host_prints_its_own_name() -> None:
    _, way, _ = hosts.dry_run([], options("--hosts", "n7")).splitlines()
    assert way.startswith("n7: ssh -o BatchMode=yes ")
    assert way.endswith(" -- n7 COMMAND")


def test_a_dry_run_prints_ways_that_differ_each_with_its_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where one is this host, and others are known by another name to what reaches them."""
    there = (
        ReachedHost(name="here"),
        ReachedHost(name="a", argv=("run", "id1")),
        ReachedHost(name="b", argv=("id2",)),
    )
    reach = Reach(kind="ray", sentence="3 nodes", hosts=there)
    monkeypatch.setattr(hosts, "to_reach", lambda *_: [(0, reach)])
    _, *ways, _ = hosts.dry_run([], options()).splitlines()
    assert ways == ["here: COMMAND", "a: run id1 COMMAND", "b: id2 COMMAND"]


def test_each_process_that_is_named_leads_to_its_own_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """One job on many hosts, one on this host alone; two processes of one job are one."""
    many = Reach(kind="ssh", sentence="this host and n1", hosts=(ReachedHost(name="n1", argv=()),))
    jobs = {7: {7, 8, 9}, 8: {7, 8, 9}, 71: {71, 72}}
    monkeypatch.setattr(hosts, "_of_process", lambda pid: many if pid in jobs[7] else None)

    def find_job(_: object, pid: int) -> HostJob:
        return HostJob(tuple(JobProcess(pid=each, ppid=1, role=Role.RANK) for each in jobs[pid]))

    monkeypatch.setattr(hosts, "find_job", find_job)
    assert [*hosts.to_reach([71, 7, 8], options())] == [(71, hosts.HERE), (7, many)]
    assert [*hosts.to_reach([7, 71], options("--local"))] == [(7, hosts.HERE), (71, hosts.HERE)]
    [(_, named)] = hosts.to_reach([], options("--hosts", "n[1-2]"))
    assert [host.name for host in named.hosts] == ["n1", "n2"]


def test_of_a_log_on_a_shared_file_system_one_host_is_the_reader() -> None:
    """The one of which a rank alone writes it; else the first."""
    fars = [RemoteHost(ReachedHost(name=name, argv=()), name) for name in ("n0", "n1", "n2")]
    for far in fars:
        far.own_name = far.name
        far.logs = {"shared": False, "rank1": far.name == "n1", f"own of {far.name}": False}
    left = left_to_others(fars)
    assert left["n0", "n0"] == ["rank1"]
    assert left["n1", "n1"] == ["shared"]
    assert left["n2", "n2"] == ["shared", "rank1"]


def test_progress_names_the_hosts_that_are_waited_for() -> None:
    fars = [
        RemoteHost(ReachedHost(name=f"n{number}", argv=()), str(number)) for number in range(64)
    ]
    fars[7].alive = fars[8].alive = fars[8].ready = True
    assert how_far("looking", fars[6:9], fars).splitlines() == [
        "looking: 61 of 64 hosts answered",
        "n6: connecting",
        "n7: starting whyhang",
        "n8: at work",
    ]
    for far in fars[:60]:
        far.gap = remote_host.late(far.name, "it did not answer", 4.0)
    lines = how_far("looking", fars[60:], fars).splitlines()
    assert lines[0] == "looking: 0 of 64 hosts answered"
    assert lines[1:5] == [f"n{number}: connecting" for number in range(60, 64)]
    assert lines[5].startswith("n0: ")
    assert lines[-1] == "+56 more given up"


def test_alike_gaps_of_several_hosts_are_one_line_that_names_each() -> None:
    gaps = [remote_host.late(name, "it did not answer", 4.0) for name in ("n1", "n2", "n5")]
    (line,) = (each for each in report_of(gaps).gaps if "n1" in each)
    assert "host n1 (and n2, n5 alike): " in line


def test_a_message_survives_labels_noise_and_being_cut_into_lines() -> None:
    lines = list(wire.answer("n1", "part", b"\0\xff" * 50_000, number=3))
    assert len(lines) > 2
    assembler = wire.Assembler()
    assert assembler.line(b"Welcome to n1!") is None
    assert assembler.line(b"@whyhang1 n2 ! alive").say == "alive"  # type: ignore[union-attr]
    whole = [assembler.line(b"0: " + line.encode().rstrip()) for line in lines]
    assert whole[:-1] == [None] * (len(lines) - 1)
    answer = whole[-1]
    assert answer is not None
    assert (answer.name, answer.say, answer.number) == ("n1", "part", 3)
    assert answer.blob == b"\0\xff" * 50_000


@pytest.mark.parametrize("line", [b"@whyhang1 n1 .", b"@whyhang1 n1 . !!!", b"@whyhang1 n1 . W10="])
def test_what_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.Assembler().line(line)


def packed(host: str, files: dict[str, bytes], **fields: object) -> bytes:
    entries = tuple(Entry(path=path, kind="log", host=host) for path in files)
    manifest = Manifest(host=host, looks=2, files=entries, **fields)  # type: ignore[arg-type]
    return archive({MANIFEST: manifest_file(manifest), **files}, 0.0)


def test_the_bundles_of_hosts_become_one_and_what_comes_later_replaces_what_came() -> None:
    parts = Parts()
    assert parts.add(HostJobNumber("n2", 0), packed("n2", {"n2/a": b"2"})) == ""
    assert parts.add(HostJobNumber("n1", 0), packed("n1", {"n1/a": b"1"}, touched=("t",))) == ""
    assert parts.add(HostJobNumber("n1", 0), packed("n1", {"n1/a": b"3", "n1/b": b"4"})) == ""
    gap = Gap(what="looking at host n3", why="it gave no sign of life")
    bundle = parts.bundle([gap], ["n1", "n2", "n3"])
    assert [entry.path for entry in bundle.manifest.files] == [
        *("n1/a", "n1/b", "n2/a", "hosts.gaps.json")
    ]
    assert bundle.files["n1/a"] == b"3"
    assert b"no sign of life" in bundle.files["hosts.gaps.json"]


def test_two_hosts_of_one_name_do_not_overwrite_each_other() -> None:
    parts = Parts()
    for place in ("a", "b"):
        parts.add(
            HostJobNumber(place, 0), packed("node", {"node/x": place.encode(), "node/y": b""})
        )
    bundle = parts.bundle([], ["a", "b"])
    assert sorted(bundle.files) == ["node-2/x", "node-2/y", "node/x", "node/y"]
    assert bundle.files["node-2/x"] == b"b"


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x"])
def test_a_host_cannot_name_files_outside_of_its_bundle(name: str) -> None:
    assert "cannot be" in Parts().add(HostJobNumber("n", 0), packed("n", {name: b"x"}))


def test_what_is_no_bundle_is_refused_with_a_reason() -> None:
    parts = Parts()
    assert parts.add(HostJobNumber("n", 0), b"nonsense")
    assert parts.add(HostJobNumber("n", 0), archive({"x": b"y"}, 0.0))
    bomb = archive({MANIFEST: manifest_file(Manifest()), "x": b"\0" * (60 << 20)}, 0.0)
    assert "bomb" in parts.add(HostJobNumber("n", 0), bomb) or "unpack" in parts.add(
        HostJobNumber("n", 0), bomb
    )
    assert not parts.hosts


def test_a_host_is_run_on_with_words_that_its_shell_does_not_split() -> None:
    words = ("sh", "-c", "a b")
    assert ReachedHost(name="n", argv=("kubectl", "exec")).command(words)[-1] == "a b"
    assert ReachedHost(name="n", argv=("ssh", "n"), quoted=True).command(words)[-1] == "'a b'"


@pytest.mark.live
def test_what_is_sent_to_a_host_runs_there_by_itself(tmp_path: Path) -> None:
    """In a Python that has none of the packages, from a folder that vanishes with it."""
    program = payload.self_contained(payload.here())
    assert program is not None
    packed = zipfile.ZipFile(io.BytesIO(program)).namelist()
    assert [n for n in packed if "__mypyc" in n] or not tomli.__file__.endswith(".so")
    (tmp_path / "tmp").mkdir()
    config = {"version": "0", "roots": [], "name": "n1"}
    code = f"CONFIG = {config!r}\n" + Path(boot.__file__).read_text()
    code = code.replace("from __future__ import annotations\n", "", 1)
    orders = wire.question("payload", ["n1"], program, sha256=hashlib.sha256(program).hexdigest())
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "from __future__ import annotations\n" + code],
        env={"TMPDIR": str(tmp_path / "tmp"), "PATH": "/usr/bin:/bin"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as far:
        assert far.stdin is not None
        assert far.stdout is not None
        far.stdin.write(orders + wire.question("clock", None, sent=1.0))
        far.stdin.flush()
        rows = [wire.Assembler().line(far.stdout.readline()) for _ in range(3)]
        (folder,) = (tmp_path / "tmp").iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
        far.stdin.close()
        far.wait(30)
    assert [answer.say for answer in rows if answer is not None] == ["hello", "ready", "clock"]
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_python_that_cannot_be_run_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of a job in a container has a path which leads nowhere on the host."""
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "python3.90").symlink_to("/gone/python3.90")
    (tmp_path / "python3.91").symlink_to(sys.executable)
    pythons = boot.pythons()
    assert "3.90" not in pythons
    assert pythons["3.91"] == str(tmp_path / "python3.91")
    assert pythons[payload.here().python] == sys.executable


@pytest.mark.parametrize(
    ("pythons", "libc", "runs"),
    [
        ({"3.90": "/usr/bin/python3.90", "here": "/opt/python"}, "glibc", "here"),
        ({"3.90": "/usr/bin/python3.90"}, "glibc", "3.90"),
        ({"3.80": "/usr/bin/python3.80"}, "glibc", None),
        ({"3.90": "/usr/bin/python3.90", "here": "/opt/python"}, "", None),
    ],
    ids=["the same Python", "one that pip has wheels for", "no wheels", "no glibc"],
)
def test_another_python_gets_what_runs_there_or_a_sentence(
    pythons: dict[str, str], libc: str, runs: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several the one that is as here; else what pip can fetch for it; else it is said why."""
    own = payload.here().python
    pythons = {own if name == "here" else name: path for name, path in pythons.items()}
    runs = own if runs == "here" else runs
    monkeypatch.setattr(
        payload, "self_contained", lambda wanted: None if wanted.python == "3.80" else b"zip"
    )
    first = next(iter(pythons))
    hello = Answer(
        say="hello", python=first, pythons=pythons, libc=libc, machine="x", system="Linux"
    )
    fitting = payload.fitting(hello)
    assert fitting == (None if runs is None else (pythons[runs], b"zip"))
    why = remote_host.no_whyhang("n1", first).why
    assert why.startswith(f"whyhang is not installed there for its Python {first}")


def test_what_came_damaged_is_not_run(tmp_path: Path) -> None:
    config = {"version": "0", "roots": [], "name": "n1"}
    code = f"from __future__ import annotations\nCONFIG = {config!r}\n"
    code += Path(boot.__file__).read_text().replace("from __future__ import annotations\n", "", 1)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code],
        input=wire.question("payload", ["n1"], b"not it", sha256="0" * 64),
        env={"TMPDIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    last = wire.Assembler().line(done.stdout.splitlines()[-1])
    assert last is not None
    assert "damaged" in last.why
    assert list(tmp_path.iterdir()) == []


class Unanswering:
    """Connections of which one host answers, until Ctrl-C comes."""

    def __init__(self, ready: list[RemoteHost]) -> None:
        self.reach = Reach(kind="ssh", sentence="2 hosts", hosts=())
        self.gaps: list[Gap] = []
        self.hosts = self.ready = ready
        self.handlers: dict[str, object] = {}
        self.said: list[str] = []

    def open(self, _: object) -> None:
        """Ctrl-C comes here."""
        raise KeyboardInterrupt

    def give_up_unready(self, why: str) -> None:
        """Note it."""
        self.said.append(why)

    def order(self, some: list[RemoteHost], do: str, **_: object) -> None:
        """Note it."""
        self.said.append(f"{do}: {', '.join(host.name for host in some)}")

    def wait(self, _: str) -> None:
        """Have all answers."""

    def left(self) -> float:
        """Have time."""
        return 20.0


def test_ctrl_c_leaves_out_who_has_not_answered_and_looks_at_the_others() -> None:
    """Where none has answered there is nothing to look at: the run ends."""
    answered = RemoteHost(ReachedHost(name="n1"), "host 0")
    connections = Unanswering([answered])
    talk = Conversation(cast(Connections, connections), Options())
    talk.find()
    assert talk.interrupted
    assert connections.said == ["it had not answered when Ctrl-C came", "find: n1"]
    with pytest.raises(KeyboardInterrupt):
        Conversation(cast(Connections, Unanswering([])), Options()).find()


def test_a_pid_is_of_this_host_whatever_hosts_are_named_beside_it() -> None:
    """It is looked at, too, once: also where it is among them by one of its names."""
    named = local.with_own_host(ssh.reach("192.0.2.7"), [4711])
    assert [host.name for host in named.hosts] == [os.uname().nodename, "192.0.2.7"]
    assert named.hosts[0].pids == (4711,)
    assert named.sentence == "this host and 1 host by ssh"
    for own in (os.uname().nodename, "127.0.0.1"):
        assert len(local.with_own_host(ssh.reach(own), [4711]).hosts) == 1
