"""The server for programs that speak MCP: what it may read, and the SDK's own client over stdio."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from whyhang.analyzer.commands import mcp as command
from whyhang.analyzer.commands.mcp import Desk, fitting
from whyhang.analyzer.errors import TargetError
from whyhang.samples.harness import scenario

LOG = "".join(f"line {number}\n" for number in range(1, 400)) + "password=hunter2secret\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder that may be read, beside one that may not."""
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "in" / "rank0.log").write_text(LOG)
    (tmp_path / "out" / "secret.log").write_text("nothing for you\n")
    return tmp_path / "in"


def test_only_allowed_folders_are_read(folder: Path) -> None:
    """No way out by dots, by absolute names, or by links, of a file or inside a folder."""
    desk = Desk([folder])
    (folder / "link.log").symlink_to("../out/secret.log")
    (folder / "sub").mkdir()
    (folder / "sub" / "dir").symlink_to("../../out")
    for path in ("../out/secret.log", str(folder.parent / "out"), "link.log", "no", "a\0b", "/"):
        with pytest.raises(TargetError):
            desk.evidence_around(path, 1)
        with pytest.raises(TargetError):
            desk.diagnose(path)
    with pytest.raises(TargetError):
        desk.diagnose("sub")


def test_processes_are_not_looked_at_unless_allowed(folder: Path) -> None:
    """To look pauses them."""
    with pytest.raises(TargetError, match="--processes"):
        Desk([folder]).diagnose(pid=1)
    with pytest.raises(TargetError, match="either"):
        Desk([folder]).diagnose()


def test_lines_around_one(folder: Path) -> None:
    """As many as there are, no secrets, long ones cut; no file but a plain one."""
    desk = Desk([folder])
    assert desk.evidence_around("rank0.log", 5, 2) == {
        "first": 3,
        "lines": [f"line {number}" for number in range(3, 8)],
    }
    assert "hunter2" not in str(desk.evidence_around("rank0.log", 400))
    assert len(desk.evidence_around("rank0.log", 200, 10**9)["lines"]) == command.MOST_LINES + 1
    (folder / "long.log").write_text("x" * 10**6 + "\nnext\n")
    lines = desk.evidence_around("long.log", 1)["lines"]
    assert [len(lines[0]), lines[1]] == [command.MOST_LETTERS, "next"]
    for path, line in (("rank0.log", 0), ("rank0.log", 401), (".", 1)):
        with pytest.raises(TargetError):
            desk.evidence_around(path, line)


def test_a_folder_that_is_too_large_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything of it is read."""
    monkeypatch.setattr(command, "MOST_FILES", 0)
    with pytest.raises(TargetError, match="more than"):
        Desk([folder]).diagnose(".")


def test_long_answers_are_cut_and_say_so() -> None:
    """From the end, the longest list first."""
    answer = fitting({"a": ["x" * 100] * 5000, "b": [1], "c": "kept"})

    assert answer["cut"] is True
    assert answer["b"] == [1]
    assert 0 < len(answer["a"]) < 700
    assert fitting({"a": [1]}) == {"a": [1]}


def test_reports_are_kept_for_a_while(folder: Path) -> None:
    """The last ones can be asked about, by the name that diagnose gives."""
    (folder / "rank0.log").write_text("loading the model\n")
    desk = Desk([folder])
    first = desk.diagnose("rank0.log")["report"]
    names = [desk.diagnose("rank0.log")["report"] for _ in range(command.KEPT)]

    assert len({first, *names}) == command.KEPT + 1
    [finding] = desk.findings(names[-1])["findings"]
    assert finding["signature"] == "log-without-step"
    for name, index in ((first, -1), (names[-1], 1)):
        with pytest.raises(TargetError):
            desk.findings(name, index)


@pytest.mark.live
def test_the_sdks_client_uses_it(tmp_path: Path) -> None:
    """Over stdio: list the tools, diagnose, ask on, make a mistake."""
    mcp = pytest.importorskip("mcp")
    bundle = scenario.samples()["stopped-rank"].bundle

    beyond = {"path": "/etc/passwd", "line": 1}

    async def talk() -> dict[str, Any]:
        server = mcp.StdioServerParameters(
            command=sys.executable,
            args=["-m", "whyhang", "mcp", "--allow", str(bundle.parent)],
            env=dict(os.environ),
        )
        async with mcp.Client(server, read_timeout_seconds=60) as client:
            tools = (await client.list_tools()).tools
            report = await client.call_tool("diagnose", {"path": bundle.name})
            name = report.structured_content["report"]
            return {
                "tools": {each.name: each for each in tools},
                "report": report.structured_content,
                "findings": await client.call_tool("findings", {"report": name, "index": 0}),
                "explained": await client.call_tool("explain", {"signature": "rank-stopped"}),
                "refused": await client.call_tool("evidence_around", beyond),
            }

    answers = anyio.run(talk)

    assert set(answers["tools"]) == {"diagnose", "findings", "evidence_around", "explain"}
    assert all(each.annotations.read_only_hint for each in answers["tools"].values())
    assert set(answers["tools"]["evidence_around"].input_schema["properties"]) == {
        "path",
        "line",
        "around",
    }
    assert answers["report"]["verdict"] == "hung"
    first = answers["findings"].structured_content["findings"][0]
    assert first["signature"] == answers["report"]["findings"][0]["signature"]
    assert first["evidence"]
    assert not answers["explained"].is_error
    assert answers["refused"].is_error
    assert "may not be read" in answers["refused"].content[0].text


def test_a_source_is_taken_as_the_report_cites_it(folder: Path) -> None:
    """Relative to what was diagnosed, and still only where reading is allowed."""
    (folder / "job").mkdir()
    (folder / "job" / "r1.log").write_text("[rank1]: torch.OutOfMemoryError: CUDA out of memory.\n")
    (folder / "job" / "out.log").symlink_to("../../out/secret.log")
    desk = Desk([folder])
    with pytest.raises(TargetError):
        desk.evidence_around("r1.log", 1)
    (folder / "job" / "out.log").unlink()
    answer = desk.diagnose("job")
    cited = desk.findings(answer["report"], 0)["findings"][0]["evidence"][0]
    assert "OutOfMemory" in desk.evidence_around(cited["source"], cited["line"])["lines"][0]
    (folder / "job" / "out.log").symlink_to("../../out/secret.log")
    with pytest.raises(TargetError):
        desk.evidence_around("out.log", 1)
