"""What leaves the program: no control character, no secret, whichever face a report has."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from planted import SECRETS, holds_a_secret

from whyhang.analyzer.cli import main
from whyhang.analyzer.report import Job, Report
from whyhang.analyzer.reports.faces import FACES
from whyhang.analyzer.reports.outgoing import plain
from whyhang.analyzer.reports.saved import load

CONTROLS = (
    "\x1b]0;owned\x07",  # the title of the terminal
    "\x1b]52;c;cm0gLXJmIC8=\x07",  # its clipboard
    "\x1b[2J\x1b[1;1H",  # an empty screen
    "\x9b31m",  # a sequence that begins with one C1 character
    "\r\x08\x08",  # written over what stands there
    "\u202etxt.exe\u2066",  # read from right to left
    "ra\u200bnk\ufeff\u2060",  # of no width
    "\U000e0068\U000e0069",  # tags: words that only a program sees
    "a\u2028b",  # another line to some
)
RAISED = """\
[rank{rank}]: Traceback (most recent call last):
[rank{rank}]:   File "/srv/app/{name}.py", line 7, in {name}
[rank{rank}]:     {text}
[rank{rank}]: RuntimeError: {text}
"""


@pytest.mark.parametrize("control", CONTROLS)
def test_controls_are_spelt_out(control: str) -> None:
    assert plain(control).isprintable()


def test_words_and_lines_stay() -> None:
    text = "Überlauf → rank 3\n  in all_reduce (train.py:7)"
    assert plain(text) == text


SPACES = "\n\u200b"  # Markdown keeps mentions from being ones by a blank of no width
SOURCE = """\
Thread {thread} (idle): "MainThread"
    {function} (/srv/{name}/app.py:7)
        Arguments:
            secret: "{text}"
        Locals:
            header: "{text}"
"""


def _run(*arguments: str) -> None:
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")):
        assert main(arguments) == 0


@pytest.fixture(scope="module")
def faces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Plant everything in the evidence of a job, and write each face of its report.

    In what ranks raised and where, in a batch script, printed environments, stacks with variables,
    command lines, and the names of files and folders.
    """
    folder = tmp_path_factory.mktemp("planted")
    logs = folder / "logs\x1b]0;owned\x07"
    logs.mkdir()
    planted = (*SECRETS.values(), *CONTROLS)
    for rank, text in enumerate(planted):
        raised = RAISED.format(rank=rank, name=f"load{rank}", text=text)
        (logs / f"rank{rank}.log").write_text(raised, encoding="utf-8")
        named = f"file{rank}" if "/" in text else text
        (logs / f"rank{rank + 40} {named}.log").write_text(raised, encoding="utf-8")
        stack = SOURCE.format(thread=rank, function=f"wait{rank}", name=named, text=text)
        command = f"Process {900 + rank}: python train.py {text}\nPython v3.11.7\n\n"
        (logs / f"rank{rank + 80}.stack.txt").write_text(command + stack, encoding="utf-8")
    lines = "".join(f"export {text}\npython train.py {text}\n" for text in planted)
    (logs / "job.sbatch").write_text(f"#!/bin/bash\n#SBATCH --ntasks=99\n{lines}", "utf-8")
    (logs / "env.txt").write_text("RANK=0\n" + "\n".join(planted), "utf-8")
    kept = str(folder / "kept.json")
    texts: dict[str, str] = {}
    with contextlib.redirect_stderr(io.StringIO()) as beside:
        _run(str(logs), "--full", "-o", kept)
        texts["kept"] = Path(kept).read_text()
        files = [f"{folder}/face{face.endings[0]}" for face in FACES.values()]
        _run("show", kept, "--full", "--redact", *(w for file in files for w in ("-o", file)))
    texts["beside the diagnosis"] = beside.getvalue()
    texts |= {f"{Path(file).name}, redacted": Path(file).read_text() for file in files}
    report = load(kept)
    texts |= {name: face.render(report, full=True).decode() for name, face in FACES.items()}
    missing = [sys.executable, "-m", "whyhang", f"/nowhere/\x1b]0;owned\x07 {planted[0]}"]
    texts["an error"] = subprocess.run(missing, capture_output=True, timeout=60).stderr.decode()
    return texts


def test_no_face_holds_a_control_character(faces: dict[str, str]) -> None:
    """None but those in a page's own script, which a page of an empty report has, too."""
    empty = Report(verdict="inconclusive", headline="", job=Job())
    own = set(SPACES) | {c for face in FACES.values() for c in face.render(empty).decode()}
    for face, text in faces.items():
        allowed = own if "html" in face else set(SPACES)
        assert {c for c in set(text) if not c.isprintable()} <= allowed, face


@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_of_this_kind_is_blanked(kind: str) -> None:
    assert not holds_a_secret(plain(SECRETS[kind]))


def test_no_face_holds_a_secret(faces: dict[str, str]) -> None:
    assert {face for face, text in faces.items() if holds_a_secret(text)} == set()


def test_the_report_still_quotes_what_was_raised(faces: dict[str, str]) -> None:
    """What is blanked is the secret alone."""
    report = json.loads(faces["json"])
    assert "postgres://svc:[redacted]@db1:5432/runs" in json.dumps(report)
    assert "load0.py:7" in faces["terminal"]
