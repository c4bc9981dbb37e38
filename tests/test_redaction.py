"""--redact: names in texts and reports become pseudonyms; what is left still tells the cause."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import msgspec
import pytest
from planted import KEY, LOG, NAMES
from small_jobs import report_of, still

from whyhang.analyzer.cli import main
from whyhang.analyzer.pseudonyms import Pseudonyms
from whyhang.analyzer.pseudonyms.report import with_pseudonyms as hide_report
from whyhang.analyzer.report import Report, to_json
from whyhang.analyzer.reports.faces import FACES


@pytest.fixture
def names() -> Pseudonyms:
    """Give pseudonyms that have been shown the log."""
    made = Pseudonyms(KEY)
    made.learn([LOG])
    return made


def test_names_go_and_the_rest_stays(names: Pseudonyms) -> None:
    """No name is left; ranks, functions, lines, ports and words are."""
    text = names.text(LOG)
    assert [name for name in NAMES if name in text] == []
    for words in (
        ":4242:4243 [0] NCCL INFO Bootstrap : Using eth0:10.",
        ", line 31, in reduce_gradients",
        "dist.all_reduce(x)",
        "<29500> failed",
        "RuntimeError: no connection to host-",
        "/home/user-",
    ):
        assert words in text
    assert len(text.splitlines()) == len(LOG.splitlines())


def test_a_name_is_called_the_same_everywhere(names: Pseudonyms) -> None:
    """In a path, in front of a line, in an address, in another report of the same user."""
    host = names.host("gpu-x7-031")
    assert names.text(LOG).count(host) == 4
    assert names.path("logs/gpu-x7-031/rank3.log") == f"logs/{host}/rank3.log"
    assert names.host("gpu-x7-031.hornisse.org").startswith(f"{host}.net-")
    assert Pseudonyms(KEY).host("gpu-x7-031") == host
    assert Pseudonyms(b"another key......").host("gpu-x7-031") != host
    assert names.text("mirabell02") == names.host("mirabell02")
    assert names.text("on okapi7: /home/okapi7/x") == f"on {names.text('okapi7')}: " + names.path(
        "/home/okapi7/x"
    )


def test_a_pseudonym_stays_one(names: Pseudonyms) -> None:
    """What was redacted before is not renamed, but for addresses, which look like any other."""
    once = names.text("gpu-x7-031 /home/zanzibar/quetzal/x.py https://wiki.hornisse.org/quetzal")
    again = Pseudonyms(KEY)
    again.learn([once])
    assert again.text(once) == once


@pytest.mark.parametrize(
    "text",
    [
        "all_reduce #133 of default_pg (torch/distributed/distributed_c10d.py:3100)",
        "/opt/venv/lib/python3.11/site-packages/torch/nn/parallel/distributed.py",
        "/usr/lib/python3.12/multiprocessing/connection.py selectors.py:415",
        "127.0.0.1:29500 [::1]:80 0.0.0.0 255.255.255.0 172.17.0.2 localhost",
        "ranks 0-3,7 at 3/4 of GB/s and/or TCP/IP 2.21.5+cuda12.4 12:34:56 2024/01/02",
        "c10d::Reducer std::vector<int>::push_back ncclCommInitRank ProcessGroupNCCL.cpp:542",
        "node/rank1.2317.look1.pyspy.json",
        "/proc/2382/stack /dev/shm /sys/class/net/eth0/operstate /dev/nvidia0",
        "see https://pytorch.org/docs/stable/distributed.html and https://docs.nvidia.com/x",
        "tensor[0,1] args[3] [rank3] self.log(x) model.out",
        "train.py:40 dataloader/worker.py run_0007/stderr.log",
    ],
)
def test_what_names_nobody_stays(text: str) -> None:
    """A diagnosis rests on it, and everybody has it."""
    assert Pseudonyms(KEY).text(text) == text


def test_addresses_stay_addresses_of_their_network() -> None:
    """Who shared a network still does, nobody else; no two addresses become one."""
    names = Pseudonyms(KEY)
    made = {text: names.text(text) for text in (f"10.1.{n // 50}.{n % 50}" for n in range(500))}
    assert len(set(made.values())) == 500
    assert all(new.startswith("10.") for new in made.values())
    networks = {old.rpartition(".")[0]: new.rpartition(".")[0] for old, new in made.items()}
    assert all(
        new.rpartition(".")[0] == networks[old.rpartition(".")[0]] for old, new in made.items()
    )
    assert len(set(networks.values())) == 10
    assert names.text("192.168.0.0/16").startswith("192.168.0.0")
    six = names.text("fe80::a1b2:c3d4:e5f6:1234 and 2001:db8::7")
    assert six.startswith("fe80::")
    assert "e5f6" not in six
    assert "db8" not in six
    assert "aa:bb:cc:dd:ee:ff" not in names.text("ether aa:bb:cc:dd:ee:ff")


def test_own_words_are_hidden_or_kept() -> None:
    """What the configuration says of a word counts in text as in paths."""
    names = Pseudonyms(KEY, hide=["Quetzal"], keep=["head1", "okapi"])
    names.add(hosts=["head1", "head2"])
    assert names.text("head1 head2 quetzal").startswith("head1 host-")
    assert "uetzal" not in names.text("Quetzal runs in quetzal-7b_train")
    assert names.path("/srv/okapi/x.py") == "/srv/okapi/x.py"


def planted() -> Report:
    """Give a report in which each text holds names."""
    stack = """
        reduce_gradients (/home/zanzibar/quetzal/train_quetzal.py:31)
        <module> (/home/zanzibar/quetzal/train_quetzal.py:60)
    """
    waits = """
        all_reduce (torch/distributed/distributed_c10d.py:3100)
        step (/home/zanzibar/quetzal/hornisse.py:7)
    """
    report = report_of(still({0: waits, 1: waits, 2: stack, 3: waits}))
    rows = tuple(msgspec.structs.replace(row, host="gpu-x7-031") for row in report.ranks)
    text = f"{report.headline} {LOG}"
    return msgspec.structs.replace(report, headline=text, ranks=rows, notes=(LOG,), gaps=(LOG,))


@pytest.mark.parametrize("face", FACES)
def test_no_face_names_anybody(face: str) -> None:
    """Whatever the format, the names are gone and the rank, line and function are there."""
    report = planted()
    plain = FACES[face].render(report, full=True).decode()
    hidden = FACES[face].render(hide_report(report, Pseudonyms(KEY)), full=True).decode()
    assert "quetzal" in plain or face == "dot"
    assert [name for name in NAMES if name in hidden] == []
    if face in {"terminal", "markdown", "json", "speedscope", "folded", "sarif"}:
        assert "reduce_gradients" in hidden
        assert "31" in hidden


def test_a_redacted_report_keeps_its_findings() -> None:
    """Only texts change: every rank, line, state and signature is as it was."""
    before, after = planted(), hide_report(planted(), Pseudonyms(KEY))
    for old, new in zip(before.findings, after.findings, strict=True):
        assert (old.signature, old.culprit_ranks) == (new.signature, new.culprit_ranks)
        assert old.location is not None
        assert new.location is not None
        assert (old.location.line, old.location.function) == (
            new.location.line,
            new.location.function,
        )
    assert [(r.rank, r.state, r.pid) for r in before.ranks] == [
        (r.rank, r.state, r.pid) for r in after.ranks
    ]


def test_the_key_is_made_once_and_for_this_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two runs give the same pseudonyms; nobody else can read the key; a bad one is an error."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    kept = tmp_path / "r.json"
    kept.write_bytes(to_json(planted()))
    outputs = []
    for _ in range(2):
        assert main(["show", str(kept), "--format", "json", "--redact"]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    assert "host-" in json.loads(outputs[0])["ranks"][0]["host"]
    key = tmp_path / "config" / "whyhang" / "redact.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    key.write_text("short\n")
    assert main(["show", str(kept), "--redact"]) == 1
    assert "less than 16 characters" in capsys.readouterr().err


def test_without_a_home_a_run_has_a_key_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report is redacted all the same, and it is said what that means."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(blocked))
    kept = tmp_path / "r.json"
    kept.write_bytes(to_json(planted()))
    assert main(["show", str(kept), "--redact"]) == 0
    captured = capsys.readouterr()
    assert "of this run alone" in captured.err
    assert [name for name in NAMES if name in captured.out] == []


@pytest.mark.parametrize(
    ("sentence", "left"),
    [
        ("Rank 1 sleeps (pid 24603 on mirabell, started 5 s before)", "pid 24603 on host-"),
        ("Task 3 on mirabell ended: it was killed", "Task 3 on host-"),
        ("The GPU driver of mirabell does not answer", "driver of host-"),
        ("NCCL was not set up; look at mirabell first", "look at host-"),
        ("Ranks 0-3 on hornisse12 wait on what rank 3 does", "wait on what rank 3 does"),
        ("It ended on purpose, on that host, on step 3, on all ranks", "ended on purpose, on that"),
        (
            "Who is on cuda:0 of node [rank3] was on signal 9",
            "cuda:0 of node [rank3] was on signal",
        ),
    ],
)
def test_hosts_that_only_a_sentence_names(sentence: str, left: str) -> None:
    """A report says in its own words where ranks are; words of English are no hosts."""
    report = msgspec.structs.replace(planted(), headline=sentence, ranks=(), notes=(), gaps=())
    hidden = hide_report(report, Pseudonyms(KEY)).headline
    assert "mirabell" not in hidden
    assert "hornisse" not in hidden
    assert left in hidden


def test_a_path_with_blanks_is_replaced_as_one_in_text_too() -> None:
    """Only quotes and fields of JSON tell where such a path begins."""
    traceback = '  File "/srv/acme quetzal/walrus loader.py", line 7, in read\n'
    fields = '{"filename": "/srv/gnu herd/emu feed.py", "line": 7}'
    names = Pseudonyms(b"k" * 32)
    names.learn([traceback, fields])
    text = "in read (acme quetzal/walrus loader.py:7), after /srv/gnu herd/emu feed.py ended"
    made = names.text(text)
    for word in ("acme", "quetzal", "walrus", "herd", "emu"):
        assert word not in made
        assert word not in names.text(traceback + fields)
    path = names.path("/srv/acme quetzal/walrus loader.py")
    assert f"({path.partition('/srv/')[2]}:7)" in made
    assert names.text(made) == made
