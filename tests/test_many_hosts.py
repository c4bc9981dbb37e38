"""A bundle of each host, collected by hand or by command, is one job; so is one bundle of all."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from whyhang.analyzer.commands.diagnose import report_on
from whyhang.analyzer.report import Report

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"

pytestmark = pytest.mark.repo


@pytest.fixture(scope="module")
def host_job() -> ModuleType:
    """Load what makes the bundles of a job on many hosts."""
    spec = importlib.util.spec_from_file_location("host_job", BENCHMARKS / "host_job.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["host_job"] = module
    spec.loader.exec_module(module)
    return module


def diagnosed(*paths: Path) -> Report:
    """Diagnose files as the command does."""
    report, unsaved = report_on([], [str(path) for path in paths], argparse.Namespace())
    assert not unsaved
    return report


@pytest.mark.parametrize(
    ("fault", "category", "verdict"),
    [
        ("rank-elsewhere", "missing-rank-in-collective", "hung"),
        ("dataloader-blocked", "dataloader-blocked", "hung"),
        ("dead-host", "unknown", "inconclusive"),
        ("all-in-one-call", "unknown", "hung"),
    ],
)
def test_bundles_of_all_hosts_are_one_job_however_they_lie(
    host_job: ModuleType, tmp_path: Path, fault: str, category: str, verdict: str
) -> None:
    """A folder of archives, a folder of folders and one merged bundle: the same diagnosis."""
    job = host_job.HostJob(fault, hosts=3)
    texts = []
    for layout in ("archives", "folders", "merged"):
        folder = tmp_path / layout
        folder.mkdir()
        report = diagnosed(host_job.write(job, folder, layout))

        assert (report.verdict, report.findings[0].category) == (verdict, category)
        culprits = None if job.culprit is None else (job.culprit,)
        assert report.findings[0].culprit_ranks == culprits
        assert [row.rank for row in report.ranks] == list(range(24))
        unseen = [row.rank for row in report.ranks if row.state == "unreachable"]
        assert unseen == ([] if job.dead is None else list(range(8, 16)))
        text = msgspec.json.encode(report).decode()
        for host in range(3):
            name = host_job.host_name(host)
            text = text.replace(f"{name}.tar.zst/{name}/", f"{name}/")
            text = text.replace(f"{name}/{name}/", f"{name}/")
        texts.append(text)
    assert texts[0] == texts[1] == texts[2]


def test_bundles_may_be_named_one_by_one(host_job: ModuleType, tmp_path: Path) -> None:
    """``whyhang *.tar.zst``, as the shell spells it out."""
    job = host_job.HostJob("rank-elsewhere", hosts=3)
    host_job.write(job, tmp_path, "archives")

    one_by_one, folder = diagnosed(*sorted(tmp_path.iterdir())), diagnosed(tmp_path)

    assert one_by_one.headline == folder.headline
    assert one_by_one.ranks == folder.ranks


@pytest.mark.parametrize("fault", ["rank-elsewhere", "dataloader-blocked"])
def test_bundles_taken_one_after_the_other_are_still_one_job(
    host_job: ModuleType, tmp_path: Path, fault: str
) -> None:
    """Minutes between the hosts, or clocks that differ: the same culprit, and a note says so."""
    job = host_job.HostJob(fault, hosts=4, spread=900.0)
    report = diagnosed(host_job.write(job, tmp_path, "archives"))

    assert report.findings[0].culprit_ranks == (job.culprit,)
    (note,) = [note for note in report.notes if "apart" in note]
    assert " s apart by their clocks, node0000" in note
    together = diagnosed(host_job.write(host_job.HostJob(fault, hosts=4), tmp_path, "merged"))
    assert not [note for note in together.notes if "apart" in note]
