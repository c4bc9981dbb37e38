"""--redact: names become pseudonyms, and what is left still tells why a job hangs."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import signal
import stat
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import zstandard
from small_jobs import report_of, still

import whyhang
from whyhang.analyzer.align import align
from whyhang.analyzer.cards.load import known
from whyhang.analyzer.cli import main
from whyhang.analyzer.commands.readers import readers_for
from whyhang.analyzer.findings.diagnose import diagnose
from whyhang.analyzer.job.identify import identify
from whyhang.analyzer.pseudonyms import Pseudonyms
from whyhang.analyzer.pseudonyms.report import with_pseudonyms as hide_report
from whyhang.analyzer.report import Report, to_json
from whyhang.analyzer.reports.faces import FACES
from whyhang.collectors.files.bundle import Bundle, Entry, Manifest, read_manifest
from whyhang.collectors.files.bundle_writer import write_bundle
from whyhang.collectors.files.folder import read
from whyhang.collectors.files.hidden import with_pseudonyms as hide_bundle
from whyhang.collectors.files.meter import Meter
from whyhang.samples.harness.scenario import samples
from whyhang.signatures.frames import TABLE

KEY = b"a key of sixteen"
NAMES = ("zanzibar", "quetzal", "gpu-x7-031", "mirabell", "hornisse", "10.20.30.41", "okapi7")
LOG = """\
gpu-x7-031:4242:4243 [0] NCCL INFO Bootstrap : Using eth0:10.20.30.41<0>
gpu-x7-031:4242:4243 [0] NCCL INFO NET/Socket : Connect to 10.20.30.42<29500> failed
[rank0]: Traceback (most recent call last):
[rank0]:   File "/home/zanzibar/quetzal/train_quetzal.py", line 31, in reduce_gradients
[rank0]:     dist.all_reduce(x)  # see https://wiki.hornisse.org/zanzibar, zanzibar@hornisse.org
[rank0]: RuntimeError: no connection to gpu-x7-031.hornisse.org, asked by okapi7@gpu-x7-031
NodeList=mirabell[01-03] JobName=x UserId=okapi7(1001)
mirabell02 does not answer; zanzibar looks into s3://quetzal/zanzibar/run.pt
"""


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
    names = Pseudonyms(KEY, hide=["Quetzal"], keep=["head1", "okapi"], hosts=["head1", "head2"])
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


def unpacked(path: Path) -> Bundle:
    """Read the bundle of a sample as it is in memory when it is written."""
    data = zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read()
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        files = {
            member.name: file.read()
            for member in archive
            if (file := archive.extractfile(member)) is not None
        }
    manifest = read_manifest(files.pop("manifest.json"))
    return Bundle(manifest=manifest, files=files)


def diagnosed(path: Path) -> Report:
    """Diagnose a bundle as the command line does."""
    knowledge = known()
    readers = readers_for(knowledge, Meter())
    return diagnose(
        align(identify(list(read([str(path)], readers=readers))), TABLE), knowledge.signatures
    )


def essence(report: Report) -> object:
    """Return what must not depend on names."""
    return (
        report.verdict,
        [(row.rank, row.state, row.pid) for row in report.ranks],
        [
            (f.signature, f.confidence, f.culprit_ranks, f.affected_ranks, f.caused_by)
            for f in report.findings
        ],
        [(f.location.line, f.location.function) for f in report.findings if f.location],
    )


FEW = ("dataloader-worker-blocked", "slurm-late-rank", "mpi-bcast-against-barrier")
WITH_MANIFEST = sorted(
    name
    for name, sample in samples().items()
    if sample.bundle.is_file() and not name.startswith("fr-")
)


@pytest.mark.parametrize(
    "name",
    [*FEW, *(pytest.param(n, marks=pytest.mark.live) for n in WITH_MANIFEST if n not in FEW)],
)
def test_a_redacted_bundle_is_diagnosed_alike(name: str, tmp_path: Path) -> None:
    """The same verdict, findings, confidences, ranks and lines, without the names."""
    bundle = unpacked(samples()[name].bundle)
    hidden = hide_bundle(bundle, Pseudonyms(KEY))
    write_bundle(hidden, tmp_path / "hidden.tar.zst")
    assert essence(diagnosed(tmp_path / "hidden.tar.zst")) == essence(
        diagnosed(samples()[name].bundle)
    )
    host = bundle.manifest.host or ""
    everything = [
        *hidden.files,
        *(data.decode("utf-8", "replace") for data in hidden.files.values()),
    ]
    assert not any(f'"{host}"' in text or f"{host}/" in text for text in everything)


def test_names_go_from_recorder_dumps_and_from_names_of_files() -> None:
    """A dump is written anew as plain data; one that cannot be read is left out, and it is said."""
    frame = {"name": "reduce", "filename": "/home/zanzibar/quetzal/train.py", "line": 31}
    dump = {
        "version": "2.10",
        "entries": [{"frames": [frame], "profiling_name": "nccl:all_reduce"}],
    }
    files = {
        "gpu-x7-031/nccl_trace_rank_0": pickle.dumps(dump, protocol=2),
        "gpu-x7-031/nccl_trace_rank_1": b"\x80\x02broken",
        "gpu-x7-031/logs/quetzal_rank3.log": LOG.encode(),
        "gpu-x7-031/logs/okapi7@hornisse.log": b"\xff\xfe zanzibar",
    }
    entries = tuple(Entry(path=path, kind="log", host="gpu-x7-031") for path in files)
    manifest = Manifest(host="gpu-x7-031", files=entries, touched=("looked at gpu-x7-031",))
    hidden = hide_bundle(Bundle(manifest=manifest, files=files), Pseudonyms(KEY))
    assert len(hidden.files) == 3
    assert {entry.path for entry in hidden.manifest.files} == set(hidden.files)
    everything = [msgspec.json.encode(hidden.manifest), *hidden.files.values()]
    everything += [name.encode() for name in hidden.files]
    assert [name for name in NAMES for text in everything if name.encode() in text] == []
    assert "nccl_trace_rank_1" in hidden.manifest.touched[-1]
    [name] = [name for name in hidden.files if name.endswith("trace_rank_0")]
    made = pickle.loads(hidden.files[name])
    assert made["entries"][0]["frames"][0]["name"] == "reduce"
    assert made["entries"][0]["frames"][0]["line"] == 31
    assert any(name.endswith("_rank3.log") for name in hidden.files)


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


@contextlib.contextmanager
def waiting(script: Path) -> Iterator[int]:
    """Run a rank that waits for ever."""
    environ = {**os.environ, "RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "gpu-x7-031"}
    log = script.with_name("zanzibar_out.log").open("wb")
    with (
        log,
        subprocess.Popen(
            [sys.executable, "-u", str(script), "--out", "/srv/quetzal"], env=environ, stdout=log
        ) as process,
    ):
        try:
            until = time.monotonic() + 30
            while not script.with_name("zanzibar_out.log").stat().st_size:
                assert time.monotonic() < until
                time.sleep(0.05)
            yield process.pid
        finally:
            process.send_signal(signal.SIGKILL)


@pytest.mark.live
def test_what_is_collected_is_redacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With `collect` as with `--save`: no name in any file of the bundle, nor in its name."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    script = tmp_path / "home" / "zanzibar" / "quetzal_train.py"
    script.parent.mkdir(parents=True)
    script.write_text("import time\nprint('okapi7@mirabell.hornisse.org')\ntime.sleep(1000)\n")
    with waiting(script) as pid:
        assert main(["collect", str(pid), "-o", str(tmp_path / "a"), "--redact", "--no-store"]) == 0
        arguments = [str(pid), "--save", str(tmp_path / "b"), "--redact", "--no-store"]
        assert main(arguments) == 0
    out = capsys.readouterr().out
    private = (*NAMES, os.uname().nodename)
    for bundle in (tmp_path / "a", tmp_path / "b"):
        files = [path for path in bundle.rglob("*") if path.is_file()]
        assert len(files) > 3
        for path in files:
            text = path.read_bytes().decode("utf-8", "replace")
            where = str(path.relative_to(bundle))
            assert [n for n in private if n in where or f'"{n}"' in text] == []
            assert [n for n in NAMES if n in text] == []
    assert [name for name in NAMES if name in out] == []


def test_a_program_that_calls_whyhang_gets_no_name_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`whyhang.diagnose(..., redact=True)`, and any call where the configuration says always."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "rank0.log").write_text(LOG)
    asked = to_json(whyhang.diagnose(tmp_path / "rank0.log", redact=True)).decode()
    assert [name for name in NAMES if name in asked] == []
    assert "quetzal" in to_json(whyhang.diagnose(tmp_path / "rank0.log")).decode()
    (tmp_path / "config" / "whyhang" / "whyhang.toml").write_text("[redaction]\nalways = true\n")
    assert to_json(whyhang.diagnose(tmp_path / "rank0.log")).decode() == asked


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
