"""A bundle without names is diagnosed as the one with them, and holds none in any file."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import zstandard
from planted import KEY, LOG, NAMES

import whyhang
from whyhang.analyzer.align import align
from whyhang.analyzer.cards.load import known
from whyhang.analyzer.cli import main
from whyhang.analyzer.commands.readers import readers_for
from whyhang.analyzer.findings.diagnose import diagnose
from whyhang.analyzer.job.identify import identify
from whyhang.analyzer.pseudonyms import Pseudonyms
from whyhang.analyzer.report import Report, to_json
from whyhang.collectors.files.bundle import Bundle, Entry, Manifest, read_manifest, write_bundle
from whyhang.collectors.files.folder import read
from whyhang.collectors.files.hidden import with_pseudonyms as hide_bundle
from whyhang.collectors.files.meter import Meter
from whyhang.samples.harness.scenario import samples
from whyhang.signatures.frames import TABLE


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
