"""A report that was kept as JSON, shown again; and files that are none."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from small_jobs import ALL_REDUCE, ELSEWHERE, report_of, still

from whyhang.analyzer.cli import main
from whyhang.analyzer.report import to_json
from whyhang.analyzer.reports.faces import FACES
from whyhang.analyzer.reports.outgoing import outgoing

REPORT = outgoing(report_of(still({0: ALL_REDUCE, 1: ALL_REDUCE, 2: ELSEWHERE, 3: ALL_REDUCE})))


@pytest.fixture(autouse=True)
def _no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Keep a report."""
    path = tmp_path / "report.json"
    path.write_bytes(to_json(REPORT))
    return path


@pytest.mark.parametrize("face", FACES)
def test_an_old_report_has_every_face_of_a_new_one(
    face: str, kept: Path, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """On standard output and in a file, byte for byte what the diagnosis itself would write."""
    target = tmp_path / f"again{FACES[face].endings[0]}"
    assert main(["show", str(kept), "--format", face, "-o", str(target)]) == 0
    expected = FACES[face].render(REPORT)
    assert target.read_bytes() == expected
    assert capsysbinary.readouterr().out == expected


@pytest.mark.parametrize("command", ["show", "diff"])
def test_a_report_for_a_pipe_is_as_wide_as_columns_says(
    command: str, kept: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """100 without it, in colours too; a file always has 100, so that two can be compared."""
    file = kept.with_name("report.txt")
    names = [str(kept)] * (2 if command == "diff" else 1)

    def widest(text: str) -> int:
        """Return the longest line but for commands, which are never broken."""
        lines = re.sub(r"\x1b\[[\d;]*m", "", text).splitlines()
        return max(len(line.rstrip()) for line in lines if not line.lstrip().startswith("$ "))

    def printed(columns: str) -> str:
        monkeypatch.setenv("COLUMNS", columns)
        assert main([command, *names, "--format", "terminal", "-o", str(file)]) == 0
        return capsys.readouterr().out

    assert widest(printed("60")) in range(45, 61)
    assert widest(file.read_text()) in range(61, 101)
    assert {printed(columns) for columns in ("", "0", "many", "9" * 5000)} == {file.read_text()}
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert widest(printed("")) in range(61, 101)


def test_an_old_report_has_its_exit_code(kept: Path) -> None:
    """A verdict ends a script alike, whenever it was made."""
    assert main(["show", str(kept), "--exit-code"]) == 3


def test_a_report_of_a_newer_minor_version_is_shown(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fields that this version does not know are left out: adding some is allowed."""
    document = json.loads(kept.read_text())
    document["fields_to_come"] = [1]
    document["findings"][0]["also"] = "new"
    kept.write_text(json.dumps(document))
    assert main(["show", str(kept)]) == 0
    assert "HUNG" in capsys.readouterr().out


def test_a_report_passes_the_gate_again(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file from elsewhere brings no control character and no secret with it."""
    document = json.loads(kept.read_text())
    document["headline"] = "Rank 1 \x1b]0;owned\x07 hangs, --token=abcdef"
    kept.write_text(json.dumps(document))
    main(["show", str(kept)])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "abcdef" not in out


def _changed(**changes: Any) -> bytes:
    return json.dumps(msgspec.json.decode(to_json(REPORT)) | changes).encode()


FINDING = msgspec.json.decode(to_json(REPORT))["findings"][0]
_TWICE = _changed(findings=[FINDING, FINDING])
NO_REPORTS: dict[str, tuple[bytes, str]] = {
    "empty": (b" \n", "is empty"),
    "a log": (b"[rank0]: Traceback (most recent call last):\n", "no report of whyhang"),
    "binary": (bytes(range(256)) * 9, "no report of whyhang"),
    "other JSON": (b'{"findings": []}', "no report of whyhang"),
    "a list": (b"[1, 2]", "no report of whyhang"),
    "deep": (b"[" * 100_000, "no report of whyhang"),
    "cut off": (to_json(REPORT)[:-400], f"It says HUNG: {REPORT.headline}"),
    "cut off at once": (to_json(REPORT)[:40], "is cut off after 40 bytes"),
    "cut off in its headline": (
        to_json(REPORT)[: to_json(REPORT).index(b'"headline"') + 16],
        "bytes, in its headline\n",
    ),
    "cut off in its findings": (
        _TWICE[: _TWICE.rindex(b'"explanation"')],
        "in its findings, of which 1 can be read. It says HUNG: ",
    ),
    "newer": (_changed(schema_version=2, tool_version="9.1"), "Upgrade whyhang to 9.1"),
    "strange version": (_changed(schema_version="x" * 99), "schema_version xxxxxxxxxxxxxxxxxxxx,"),
    "another verdict": (_changed(verdict="gone"), "is damaged: Invalid enum value 'gone'"),
    "ranks are text": (_changed(ranks="all"), "$.ranks"),
    "an effect of nothing": (
        _changed(findings=[FINDING | {"caused_by": 7}]),
        "caused_by points at 7",
    ),
    "half a letter": (_changed(headline="\ud800"), "is damaged"),
    "not UTF-8": (to_json(REPORT).replace(b"HUNG", b"\xff").replace(b"rank", b"\xff"), "damaged"),
}


@pytest.mark.parametrize("name", NO_REPORTS)
def test_what_is_no_report_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is wrong with it, and what to do."""
    content, says = NO_REPORTS[name]
    path = tmp_path / "x.json"
    path.write_bytes(content)
    assert main(["show", str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert says in captured.err
    assert "Traceback" not in captured.err.replace("no JSON", "")
    assert len(captured.err.splitlines()) == 2


def test_a_folder_and_nothing_at_all_are_no_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Evidence is for `whyhang PATH`."""
    assert main(["show", str(tmp_path)]) == 2
    assert f"`whyhang {tmp_path}`" in capsys.readouterr().err
    assert main(["show", str(tmp_path / "gone")]) == 2
    assert "there is no report" in capsys.readouterr().err


def test_a_report_comes_through_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A dash is standard input; a mark of the byte order in front does no harm."""
    piped = io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbf" + to_json(REPORT)))
    monkeypatch.setattr(sys, "stdin", piped)
    assert main(["show", "-"]) == 0
    assert "HUNG" in capsys.readouterr().out


def test_a_pipe_is_distinguished_from_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It might never end: as standard input it is read."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert main(["show", str(pipe)]) == 2
    assert f"whyhang show - < {pipe}" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"step 1")))
    assert main(["show", "-"]) == 2
    assert "with `whyhang -`" in capsys.readouterr().err
