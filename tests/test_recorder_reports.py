"""What a report says of recorder dumps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fr_docs import REPOSITORY, entry, header, open_entry, pickled

from whyhang.analyzer.cli import main


def test_a_dump_that_asks_for_code_is_a_finding_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It stands behind the cause of the hang, which the other dumps tell."""
    top = header(("0", "default_pg", (0, 1, 2, 3)))
    for rank in range(3):
        calls = [entry(n) for n in range(80, 90)] + [open_entry(90)] * (rank != 2)
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(pickled(top, calls))
    (tmp_path / "nccl_trace_rank_3").write_bytes(
        b"\x80\x02cposix\nsystem\nX\x02\x00\x00\x00ls\x85R."
    )

    assert main([str(tmp_path), "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)

    first, second = report["findings"]
    assert (first["category"], first["culprit_ranks"]) == ("missing-rank-in-collective", [2])
    assert second["signature"] == "unsafe-recorder-dump"
    assert (second["culprit_ranks"], second["caused_by"]) == (None, None)
    assert second["evidence"][0]["quote"] == "posix.system"
    (lost,) = [gap for gap in report["gaps"] if "were overwritten" in gap]
    assert lost.startswith(
        "The recorders of ranks 0-2 keep their last calls only: 80 earlier records of each were"
    )


@pytest.mark.repo
def test_a_skipped_call_is_named_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    """That ranks differ is half of it; the records before tell how they came to."""
    bundle = REPOSITORY / "samples" / "fr-skipped-collective" / "bundle.tar.zst"

    assert main([str(bundle), "--format", "json"]) == 0
    headline = json.loads(capsys.readouterr().out)["headline"]
    assert "rank 1 skipped broadcast #17 of default_pg at" in headline
    assert "train.py:28 (share_threshold); ranks 0,2-3 broadcast" in headline


def absences(folder: Path, capsys: pytest.CaptureFixture[str], *, of: int, absent: int) -> object:
    """Report a job in which all ranks that left a dump stand in one call."""
    top = header(("0", "default_pg", range(of)))
    for rank in range(of - absent):
        calls = [entry(n) for n in range(80, 90)] + [open_entry(90)]
        (folder / f"nccl_trace_rank_{rank}").write_bytes(pickled(top, calls))
    assert main([str(folder), "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["verdict"] == "inconclusive"
    (finding,) = report["findings"]
    assert finding["confidence"] < 0.5
    return finding["culprit_ranks"]


def test_the_only_rank_without_a_dump_is_a_possibility(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rank that died writes none; nothing proves it."""
    assert absences(tmp_path, capsys, of=8, absent=1) == [7]


def test_several_ranks_without_a_dump_are_not_blamed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Then dumps were rather not collected."""
    assert absences(tmp_path, capsys, of=8, absent=2) is None


def test_a_dump_is_no_log_in_which_a_rank_is_silent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every rank writes one of its own, and a single one tells nothing of others."""
    top = header(("0", "default_pg", range(8)), ("1", "tp", (0, 1)))
    mine = {"process_group": ("1", "tp"), "pg_id": 1}
    calls = [entry(n, **mine) for n in range(80, 90)] + [open_entry(90, **mine)]
    (tmp_path / "nccl_trace_rank_0").write_bytes(pickled(top, calls))

    assert main([str(tmp_path), "--format", "json"]) == 0
    (finding,) = json.loads(capsys.readouterr().out)["findings"]

    assert (finding["signature"], finding["culprit_ranks"]) == ("waits-for-unrecorded", None)
