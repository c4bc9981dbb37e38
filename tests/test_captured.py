"""Each face says when a job was looked at, as which run, and with what its ranks were started."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from small_jobs import ALL_REDUCE, ELSEWHERE, dump, process, report_of

from whyhang.analyzer.facts import Fact, replace
from whyhang.analyzer.pseudonyms import Pseudonyms
from whyhang.analyzer.pseudonyms.report import with_pseudonyms
from whyhang.analyzer.report import Report
from whyhang.analyzer.reports import markdown, terminal
from whyhang.analyzer.reports.html.page import render

AT = 1795935852.25  # 2026-11-29 07:04:12 UTC
WHEN = "2026-11-29 07:04:12 UTC, 2 looks in 1.5 s"


def job(**environ: str) -> Report:
    facts: list[Fact] = []
    for rank, text in enumerate((ALL_REDUCE, ELSEWHERE)):
        for look in (0, 1):
            known = process(rank, look=look, environ={"WORLD_SIZE": "2", **environ})
            command = f"/home/anna/env/bin/python train.py --rank-file r{rank}"
            facts += [
                replace(known, taken_at=AT + 1.5 * look, command=command),
                dump(rank, text, look=look),
            ]
    return report_of(facts)


def on_terminal(report: Report) -> str:
    console = Console(file=io.StringIO(), width=140)
    terminal.show(report, console)
    written = console.file
    assert isinstance(written, io.StringIO)
    return written.getvalue()


FACES = {
    "terminal": on_terminal,
    "markdown": markdown.render,
    "html": lambda report: render(report).decode(),
}


@pytest.mark.parametrize("face", FACES)
def test_when_a_job_was_looked_at_stands_in_each_face(face: str) -> None:
    """With the run and the command of a rank, beside the version that wrote it."""
    text = FACES[face](job(SLURM_JOB_ID="4711"))
    assert WHEN in text
    assert "Slurm job 4711" in text
    assert "started as /home/anna/env/bin/python train.py --rank-file r0" in text


def test_a_report_of_files_says_no_time() -> None:
    """What was read has times of its own."""
    report = report_of([dump(0, ALL_REDUCE), dump(1, ELSEWHERE)])
    assert report.captured is None
    assert "looked at" not in on_terminal(report).lower()


def test_a_run_without_a_name_has_none() -> None:
    """Torchrun calls it "none" where nobody named it."""
    assert job(TORCHELASTIC_RUN_ID="none").job.run_id is None
    assert job(TORCHELASTIC_RUN_ID="job7").job.run_id == "torchrun job7"


def test_pseudonyms_stand_in_the_command_too() -> None:
    """A path of it may name a person."""
    hidden = with_pseudonyms(job(), Pseudonyms(b"k" * 32))
    assert hidden.job.command is not None
    assert "anna" not in hidden.job.command
    assert "train.py" in hidden.job.command
