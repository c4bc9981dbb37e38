"""What GPUs do as a sign of life of a watched job: a made-up NVML answers."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_proc import FakeProc

from whyhang.collectors.watch import gpus as watched
from whyhang.collectors.watch.course import JOB
from whyhang.collectors.watch.gpus import Gpus
from whyhang.collectors.watch.processes import Processes

NVML = """
import pathlib, time
VALUES = pathlib.Path(__file__).parent / "values"
class One:
    def __init__(self, pid): self.pid = pid
class Rates:
    def __init__(self, memory): self.memory = memory
def value(gpu, name):
    found = eval(VALUES.read_text())[gpu][name]
    if found is None: raise RuntimeError("Not Supported")
    return found
def nvmlInit(): eval(VALUES.read_text())
def nvmlDeviceGetCount(): return len(eval(VALUES.read_text()))
def nvmlDeviceGetHandleByIndex(n): return n
def nvmlDeviceGetComputeRunningProcesses(h): return [One(p) for p in value(h, "pids")]
def nvmlDeviceGetTotalEnergyConsumption(h): return int(value(h, "watts") * 1000 * time.monotonic())
def nvmlDeviceGetEnforcedPowerLimit(h): return 700_000
def nvmlDeviceGetUtilizationRates(h): return Rates(value(h, "traffic"))
"""


class Made:
    """A host with GPUs that do what a test says."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "pynvml.py").write_text(NVML)
        (folder / "version").write_text("")
        self.gpus = Gpus(folder / "version")

    def put(self, *values: tuple[list[int], float | None, int | None]) -> None:
        """Let GPUs have these processes, draw so many watts, move memory in so many per cent."""
        made = [dict(zip(("pids", "watts", "traffic"), each, strict=True)) for each in values]
        (self._folder / "new").write_text(repr(made))
        (self._folder / "new").replace(self._folder / "values")

    def break_it(self, text: str) -> None:
        """Let NVML run this where it is asked."""
        (self._folder / "values").write_text(text)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    """Give a host whose NVML is a file of the test."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    host = Made(tmp_path)
    yield host
    host.gpus.end()


NAMES = {71: "rank 0", 72: "rank 1"}


def test_a_gpu_that_computes_is_work_of_its_rank(made: Made) -> None:
    """By its power or its memory; one that waits at 120 W, or that others use, is none."""
    made.put(([71], 600.0, 0), ([72], 120.0, 1), ([99], 600.0, 80))
    first = made.gpus.work(NAMES)
    time.sleep(0.1)
    later = made.gpus.work(NAMES)

    assert set(first.values()) <= {0}
    assert later["rank 0"] >= 10
    assert later.get("rank 1", 0) == 0
    assert set(later) <= set(NAMES.values())

    made.put(([71], 120.0, 0), ([72], None, 40), ([99], None, None))
    time.sleep(0.1)
    last = made.gpus.work(NAMES)
    assert last["rank 0"] == later["rank 0"]
    assert last["rank 1"] >= 10
    assert len(made.gpus) == 3


def test_where_no_process_can_be_matched_it_is_the_jobs(made: Made) -> None:
    """In a container NVML tells the pids of the host."""
    made.put(([4711], 600.0, 0))
    made.gpus.work(NAMES)
    time.sleep(0.05)

    assert made.gpus.work(NAMES)[JOB] >= 5


@pytest.mark.parametrize("text", ["1/0", "__import__('time').sleep(600)", "[{}] * 3"])
def test_what_does_not_answer_is_not_asked_again(
    text: str, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither where there is no driver, nor where it hangs, nor where it knows nothing."""
    monkeypatch.setattr(watched, "PATIENCE", 0.3)
    made.break_it(text)
    begun = time.monotonic()
    assert not any(made.gpus.work(NAMES).values())
    assert not any(made.gpus.work(NAMES).values())

    assert time.monotonic() - begun < 2


def test_without_a_driver_nothing_is_started(tmp_path: Path) -> None:
    """No child, no count."""
    gpus = Gpus(tmp_path / "none")

    assert (gpus.work(NAMES), len(gpus), gpus._child) == ({}, 0, None)


def test_only_a_job_that_uses_cuda_is_asked_for(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rank shows it by a file that it has open, perhaps some time after its start."""
    (tmp_path / "proc").mkdir()
    fake = FakeProc(tmp_path / "proc")
    pid = fake.add(4711, 1, "python train.py", {"RANK": 0, "WORLD_SIZE": 1})
    (fake.folder / str(pid) / "fd").mkdir(exist_ok=True)
    monkeypatch.setattr("whyhang.collectors.watch.processes.Proc", lambda: fake.host().proc)
    monkeypatch.setattr("whyhang.collectors.watch.processes.Gpus", lambda: made.gpus)
    made.put(([pid], 600.0, 0))
    looks = Processes(pid)

    assert ("rank 0", "gpu") not in looks.look().stirs
    (fake.folder / str(pid) / "fd" / "9").symlink_to("/dev/nvidia-uvm")
    looks.look()
    time.sleep(0.05)
    assert looks.look().stirs["rank 0", "gpu"] >= 5
    assert looks.in_words() == "1 process, 1 GPU"
