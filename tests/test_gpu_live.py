"""Asking for the GPUs of a live job: whatever nvidia-smi does, the look goes on."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gpu_docs import LINKS, TOPOLOGY, node, table
from live_sites import collected, site_of, snapshot

from whyhang.analyzer.cards.load import known
from whyhang.analyzer.commands.readers import readers_for
from whyhang.analyzer.facts import (
    DriverSilence,
    Fact,
    Gap,
    Gpu,
    Process,
    Role,
    Source,
    ThreadState,
    Who,
)
from whyhang.collectors.files.bundle import Bundle, documents_of, write_bundle
from whyhang.collectors.files.folder import read_documents
from whyhang.collectors.files.meter import Meter
from whyhang.collectors.gpu import nvml_child
from whyhang.collectors.live.capture import Capture
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import HostJob, JobProcess
from whyhang.collectors.live.probes import gpus
from whyhang.collectors.live.probes.probe import Collected, Options, Running, Site
from whyhang.collectors.live.proc import Proc

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="there are no live processes without /proc"
)

SLEEP = "import time; print('up', flush=True); time.sleep(600)"
LOST = "Unable to determine the device handle for GPU1: 0000:34:00.0: Unknown Error"


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put a shell script in the place of nvidia-smi; NVML cannot be had."""
    broken = tmp_path / "nvml_child.py"
    broken.write_text(f"raise SystemExit({nvml_child.NO_NVML})\n")
    monkeypatch.setattr(gpus, "_CHILD", broken)
    monkeypatch.setattr(gpus, "_SIGNS", ())

    def put(body: str) -> None:
        path = tmp_path / "bin" / "nvidia-smi"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'#!/bin/sh\ncase "$1" in\n{body}\nesac\n')
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")

    return put


def watched(*, looks: int = 2) -> Collected:
    """Ask at each look, with a moment in between, and come to an end."""
    host = Host(Proc())
    site = Site(host, HostJob(members=()), "h", Options(looks=looks))
    site.snapshots.append(snapshot(host))
    running = Running(gpus.PROBE, site)
    for number in range(1, looks):
        time.sleep(0.3)
        site.snapshots.append(snapshot(host, number))
        site.wake()
    time.sleep(0.3)
    site.wake(over=True)
    return running.finish(time.monotonic())


def good(tmp_path: Path) -> str:
    """Write what a healthy nvidia-smi prints; give the body of a script that prints it."""
    (tmp_path / "q.xml").write_text(node({3: {"busy": "0 %"}}))
    return f"-q) cat {tmp_path}/q.xml;;"


def test_every_look_is_taken(fake: Callable[[str], None], tmp_path: Path) -> None:
    """What nvidia-smi prints is kept as it came, once for each look."""
    fake(good(tmp_path))
    watch = watched()

    assert sorted(file.entry.path for file in watch.files) == ["gpus.look0.xml", "gpus.look1.xml"]
    assert not watch.facts
    assert watch.files[0].data


def test_slow_answers_are_waited_for_a_moment(fake: Callable[[str], None], tmp_path: Path) -> None:
    """An answer that comes within the limit counts."""
    fake("-q) sleep 0.6; " + good(tmp_path)[3:])
    watch = watched(looks=1)

    assert any(b"</gpu>" in file.data for file in watch.files)


def test_what_hangs_is_left_and_reported(
    fake: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tool that never comes back costs no more than the limit, and is ended."""
    monkeypatch.setattr(gpus, "LIMIT", 0.6)
    fake("*) sleep 617.3;;")
    began = time.monotonic()
    watch = watched()

    assert time.monotonic() - began < 2.0
    assert not watch.files
    assert any(isinstance(gap, Gap) and "did not come back" in gap.why for gap in watch.facts)
    listed = subprocess.run(["ps", "axww"], capture_output=True, text=True, check=True).stdout
    assert "sleep 617.3" not in listed


def test_what_sleeps_in_the_kernel_is_evidence(
    fake: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tool in state D for seconds means that the driver hangs."""
    fake("-q) exec sleep 600;;\n*) exit 1;;")
    monkeypatch.setattr(gpus, "LIMIT", 0.2)
    asleep = ThreadState(tid=1, name="nvidia-smi", state="D", wchan="rm_gsp_wait")
    monkeypatch.setattr(Proc, "asleep_in_kernel", lambda *_: asleep)
    watch = watched()

    (silence,) = watch.facts
    assert isinstance(silence, DriverSilence)
    assert "nvidia-smi -q -x did not come back" in silence.says
    assert "rm_gsp_wait" in silence.says
    assert "left nvidia-smi -q -x behind" in watch.touched[0]


def test_sleep_is_recognized_by_the_state_in_the_kernel() -> None:
    """A process that only sleeps is not held by the driver."""
    with subprocess.Popen([sys.executable, "-c", SLEEP], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert Proc().asleep_in_kernel(child.pid) is None
        child.kill()
    assert Proc().asleep_in_kernel(2**22 + 1) is None


def test_the_words_of_a_failing_tool_are_kept(fake: Callable[[str], None]) -> None:
    """Where one lost GPU makes -q -x fail, it says so."""
    fake(f"-q) echo '{LOST}'; exit 15;;")
    (file,) = watched(looks=1).files

    assert (file.entry.path, file.entry.kind) == ("gpus.look0.xml", "gpu-failed")
    assert LOST.encode() in file.data


def test_without_any_tool_nothing_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine without GPUs there is no noise; a job that uses some gets one sentence."""
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(gpus, "_SIGNS", ())
    job = HostJob(members=(JobProcess(pid=1, ppid=0, role=Role.RANK),))
    site = site_of(Host(Proc()), job, hostname="h")
    site.snapshots[0].processes[1] = rank_with("pipe")
    assert collected(gpus.collect, site) == Collected()

    site.snapshots[0].processes[1] = rank_with("/dev/nvidia0")
    assert [gap.what for gap in collected(gpus.collect, site).facts] == ["the GPUs of h"]


def rank_with(opened: str) -> Process:
    """Make a rank with one open file."""
    return Process(
        who=Who(rank=0, pid=1),
        source=Source(file="x"),
        role=Role.RANK,
        descriptors=(opened,),
        threads=(ThreadState(tid=1, name="python", state="S"),),
    )


def test_nvml_is_asked_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the child has an answer, nvidia-smi is not run at all."""
    child = tmp_path / "nvml_child.py"
    child.write_text("""print('{"nvml":1,"gpus":[{"index":0,"busy":100}]}')\n""")
    monkeypatch.setattr(gpus, "_CHILD", child)
    monkeypatch.setattr(gpus, "_SIGNS", ("/proc/self",))
    watch = watched()

    assert [file.entry.path for file in watch.files] == [
        "gpus.look0.nvml.json",
        "gpus.look1.nvml.json",
    ]


@contextlib.contextmanager
def program(environ: dict[str, str]) -> Iterator[int]:
    """Run a program that says to be a rank."""
    with subprocess.Popen(
        [sys.executable, "-c", SLEEP],
        stdout=subprocess.PIPE,
        env={**os.environ, **environ},
        start_new_session=True,
    ) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            yield child.pid
        finally:
            os.killpg(child.pid, signal.SIGKILL)


def taken(tmp_path: Path) -> tuple[Bundle, int]:
    """Look at a program once while nvidia-smi is what the test made it."""
    with program({"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}) as pid:
        made = tmp_path / "q.xml"
        if made.exists():
            made.write_text(made.read_text().replace("<pid>1003</pid>", f"<pid>{pid}</pid>"))
        look = Options(looks=2, interval=0.05, limit=60.0)
        return Capture(pid, look, lambda _: None).take().bundle(), pid


def test_a_live_look_reads_back_from_its_bundle(
    fake: Callable[[str], None], tmp_path: Path
) -> None:
    """The files of the GPUs are in the bundle, and say the same when they are read again."""
    fake(good(tmp_path))
    bundle, pid = taken(tmp_path)
    all_facts = facts_of(bundle)
    records = [fact for fact in all_facts if isinstance(fact, Gpu)]

    assert {gpu.tool for gpu in records} == {"nvidia-smi -q -x"}
    assert {gpu.look for gpu in records} == {0, 1}
    assert len({gpu.who.host for gpu in records}) == 1
    assert any(p.pid == pid for gpu in records for p in gpu.processes or ())
    write_bundle(bundle, tmp_path / "kept")
    assert sorted(map(str, gpu_facts(tmp_path / "kept"))) == sorted(map(str, records))


def facts_of(bundle: Bundle) -> list[Fact]:
    """Read a bundle in memory the way the command line does."""
    readers = readers_for(known(), Meter())
    return list(read_documents(documents_of(bundle), readers=readers))


def gpu_facts(folder: Path) -> list[Fact]:
    """Read a bundle the way every folder is read."""
    from whyhang.collectors import READERS
    from whyhang.collectors.files.folder import read

    return [fact for fact in read([folder], readers=READERS) if isinstance(fact, Gpu)]


def test_arguments_of_other_programs_are_redacted(
    fake: Callable[[str], None], tmp_path: Path
) -> None:
    """nvidia-smi names whole command lines; what looks like a secret in them stays here."""
    fake(good(tmp_path))
    made = tmp_path / "q.xml"
    text = made.read_text().replace("/usr/bin/python3", "python3 --token=hunter2")
    made.write_text(text)
    bundle, _ = taken(tmp_path)
    kept = b"".join(data for name, data in bundle.files.items() if "gpus." in name)

    assert b"--token=" in kept
    assert b"hunter2" not in kept


def test_garbage_costs_nothing_else(fake: Callable[[str], None], tmp_path: Path) -> None:
    """What no reader of GPUs knows is a text like others; the stacks are there all the same."""
    fake("*) echo '<gpu hello'; echo world;;")
    bundle, _ = taken(tmp_path)
    facts = facts_of(bundle)

    assert not any(isinstance(fact, Gpu) for fact in facts)
    assert not any(isinstance(fact, Gap) and "failed" in fact.why for fact in facts)
    assert any(entry.kind == "py-spy" for entry in bundle.manifest.files)


def test_that_the_driver_hangs_is_in_the_bundle(
    fake: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The evidence that the driver hangs survives the bundle."""
    fake("-q) exec sleep 600;;\n*) exit 1;;")
    monkeypatch.setattr(gpus, "LIMIT", 0.3)
    asleep = ThreadState(tid=1, name="nvidia-smi", state="D")
    monkeypatch.setattr(Proc, "asleep_in_kernel", lambda *_: asleep)
    bundle, _ = taken(tmp_path)

    assert any(isinstance(fact, DriverSilence) for fact in facts_of(bundle))


FAKE_NVML = """
class NVMLError(Exception):
    def __init__(self, value): self.value = value
    def __str__(self): return f"error {self.value}"
class Rates: gpu, memory = 100, 1
class Memory: used, total = 70 << 30, 140 << 30
class Pci: busId = "00000000:1B:00.0"
class One: pid, usedGpuMemory = 4711, 10 << 20
def nvmlInit(): pass
def nvmlSystemGetDriverVersion(): return "570.86.10"
def nvmlSystemGetCudaDriverVersion_v2(): return 12080
def nvmlDeviceGetCount(): return 3
def nvmlDeviceGetHandleByIndex(n):
    if n == 2: raise NVMLError(15)
    return n
def nvmlDeviceGetUUID(h): return f"GPU-{h}"
def nvmlDeviceGetName(h): return b"NVIDIA H200"
def nvmlDeviceGetPciInfo(h): return Pci
def nvmlDeviceGetUtilizationRates(h): return Rates
def nvmlDeviceGetMemoryInfo(h): return Memory
def nvmlDeviceGetPowerUsage(h):
    if h: raise NVMLError(999)
    return 118200
def nvmlDeviceGetEnforcedPowerLimit(h): return 700000
def nvmlDeviceGetPerformanceState(h): return 0
def nvmlDeviceGetComputeMode(h): return 3
def nvmlDeviceGetMigMode(h): raise NVMLError(3)
def nvmlDeviceGetTotalEccErrors(h, kind, counter): return 2 if kind and counter else 0
def nvmlDeviceGetRemappedRows(h): return 0, 1, 1, 0
def nvmlDeviceGetCurrentClocksEventReasons(h): return 0x48
def nvmlDeviceGetComputeRunningProcesses(h): return [One]
def nvmlDeviceGetNvLinkState(h, link):
    if link > 1: raise NVMLError(2)
    return link == 0
def nvmlDeviceGetNvLinkErrorCounter(h, link, counter): return counter
"""


def test_the_child_asks_for_each_value_by_itself(tmp_path: Path) -> None:
    """What a board does not have is left out, what fails is told, a lost GPU is one."""
    (tmp_path / "pynvml.py").write_text(FAKE_NVML)
    done = subprocess.run(
        [sys.executable, nvml_child.__file__],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        check=True,
    )
    from gpu_docs import gpus as read

    json.loads(done.stdout)
    one, two, lost = read(done.stdout, "h/gpus.look0.nvml.json", "h")

    assert (one.index, one.uuid, one.bus, one.name) == (0, "GPU-0", "0000:1b:00", "NVIDIA H200")
    assert (one.busy, one.memory_busy, one.power, one.power_limit) == (100, 1, 118.2, 700)
    assert (one.memory_used, one.memory_total, one.pstate) == (70 << 10, 140 << 10, "P0")
    assert (one.compute_mode, one.mig, one.driver, one.cuda) == (
        *("Exclusive_Process", None, "570.86.10", "12.8"),
    )
    assert (one.ecc_uncorrected, one.remap_pending, one.remap_failed) == (0, True, False)
    assert one.reasons == ("hw_slowdown", "hw_thermal_slowdown")
    assert [(link.active, link.errors) for link in one.links or ()] == [(True, 6), (False, None)]
    assert [(p.pid, p.memory) for p in one.processes or ()] == [(4711, 10)]
    assert (one.trouble, two.trouble) == (None, "power: Unknown Error")
    assert (lost.index, lost.lost, lost.trouble) == (2, True, "handle: GPU is lost")


def test_the_child_without_a_driver_says_so() -> None:
    """Where NVML cannot be asked, the child ends at once with the status for that."""
    if Path("/dev/nvidiactl").exists():
        pytest.skip("there is a driver here")
    done = subprocess.run(
        [sys.executable, "-I", nvml_child.__file__], capture_output=True, check=False
    )

    assert (done.returncode, done.stdout) == (nvml_child.NO_NVML, b"")


def test_tables_of_a_bundle_are_for_one_reader() -> None:
    """What the tools alone have written is not searched for log lines; a log with a table is."""
    from gpu_docs import document, listed, row

    from whyhang.collectors.printed import PrintReader

    reader = PrintReader()
    for text in (LINKS, TOPOLOGY, table(row(0), listed(0, 5))):
        assert reader.owns(document(text))
    for text in (f"epoch 1\n{table(row(0))}", f"{LOST}\n{table(row(0))}", "GPU 0: x\n"):
        assert not reader.owns(document(text))
