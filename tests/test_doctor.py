"""What this machine allows, and what each lack costs."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from whyhang.collectors.live import doctor
from whyhang.collectors.live.doctor import Check, checks
from whyhang.collectors.live.proc import Proc
from whyhang.collectors.stacks import pyspy

linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc")


def by_name(results: list[Check]) -> dict[str, Check]:
    """Find checks by what they are about."""
    return {check.what: check for check in results}


@linux
def test_everything_is_tried_and_nothing_left_running() -> None:
    """Each check says what was found, and what fails has a cost and a remedy."""
    before = {pid for pid, stat in Proc().table().items() if stat.comm.startswith("python")}
    results = by_name(checks())
    assert {"live jobs", "py-spy", "stacks of your own processes", "NCCL RAS", "torch"} <= set(
        results
    )
    assert results["live jobs"].ok
    assert results["py-spy"].ok
    for check in results.values():
        assert check.result
        assert check.ok or (check.cost and check.remedy)
    for pid in {pid for pid in Proc().table() if pid not in before}:
        arguments = Proc().bytes_of(f"{pid}/cmdline") or b""
        assert doctor.SLEEPER.encode() not in arguments


@linux
def test_missing_right_is_explained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where py-spy may not attach, the rights that decide are named."""
    fake = tmp_path / "py-spy"
    fake.write_text("#!/bin/sh\necho 'Error: Permission Denied' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(pyspy, "executable", lambda: str(fake))
    check = by_name(checks())["stacks of your own processes"]
    assert not check.ok
    assert "CAP_SYS_PTRACE" in check.result
    assert "ptrace_scope" in check.remedy


def test_missing_py_spy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without py-spy the way to get it is told."""
    monkeypatch.setattr(pyspy, "executable", lambda: "/no/such/py-spy")
    check = by_name(checks())["py-spy"]
    assert (check.ok, check.remedy) == (False, "pip install py-spy")


def test_ras_port_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listening port counts as NCCL's RAS service."""
    with socket.create_server(("localhost", 0)) as server:
        monkeypatch.setattr(doctor, "PORT", server.getsockname()[1])
        assert by_name(checks())["NCCL RAS"].ok
    assert not by_name(checks())["NCCL RAS"].ok


def test_gpu_tool_that_hangs_or_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A GPU that fell off the bus makes nvidia-smi fail; that is told, not waited for."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'No devices were found' >&2\nexit 6\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert "No devices were found" in doctor.gpus().result
    tool.write_text("#!/bin/sh\necho 'GPU 0: H100 (UUID: GPU-1)'\n")
    assert doctor.gpus() == Check(what="GPUs", ok=True, result="nvidia-smi tells of 1")

    tool.write_text("#!/bin/sh\nexec sleep 600\n")
    monkeypatch.setattr(doctor, "LIMIT", 0.3)
    assert "does not come back" in doctor.gpus().result
