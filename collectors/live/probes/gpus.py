"""The GPUs of the host of a live job: asked beside the stacks, at every look.

A child process asks NVML (``collectors/gpu/probe.py``); where that cannot be, nvidia-smi is
run. A driver with a sick GPU answers late or never, and what waits for it may not even be
killed. So their output goes to files, nobody waits for them but for a moment at the very end,
and one that sleeps in the kernel then is evidence of its own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from whyhang.analyzer.model import Claim, Gap, Process, Record, Role, Source, Who

EXTRA = 2.0
"""Seconds that answers may still take when all else is done."""

HANGS = 2.5
"""Seconds after which what sleeps in the kernel is taken to hang."""

MAX_BYTES = 64 << 20
_PROBE = Path(__file__).parents[2] / "gpu" / "probe.py"
_SIGNS = ("/dev/nvidiactl", "/proc/driver/nvidia/version")
_SMI = "nvidia-smi"
_QUERY = (
    "--query-gpu=timestamp,index,uuid,pci.bus_id,name,driver_version,pstate,utilization.gpu,"
    "utilization.memory,power.draw,power.limit,clocks.sm,temperature.gpu,memory.used,"
    "memory.total,ecc.errors.uncorrected.volatile.total,compute_mode,mig.mode.current"
)
_APPS = "--query-compute-apps=gpu_uuid,pid,process_name,used_memory"
_COST = (
    "a rank that never launched its kernel cannot be told from one whose kernel waits, and a "
    "broken GPU is not seen"
)


class Output(Record):
    """What one program printed. ``failed``: it said that it could not do what was asked."""

    name: str
    data: bytes
    look: int
    taken_at: float
    failed: bool = False


class _Asked(Record):
    """A program that was started; its output goes to ``file``."""

    name: str  # of the file in the bundle
    arguments: tuple[str, ...]
    look: int
    taken_at: float
    clock: float
    file: BinaryIO
    process: subprocess.Popen[bytes]


class GpuWatch:
    """Asks for the GPUs while the looks are taken. Nothing here waits before ``finish``."""

    def __init__(self, hostname: str) -> None:
        self.outputs: list[Output] = []
        self.claims: list[Claim] = []
        self.gaps: list[Gap] = []
        self.touched: list[str] = []
        self._hostname = hostname
        self._smi = shutil.which(_SMI)
        self._present = self._smi is not None or any(Path(sign).exists() for sign in _SIGNS)
        self._nvml: bool | None = None  # not known yet whether it can be asked
        self._running: list[_Asked] = []
        self._next: int | None = None  # the look whose turn comes

    def look(self, number: int) -> None:
        """Start asking for one look; while the last question is open, it waits for its turn."""
        if self._present:
            self._next = number
            self.step()

    def step(self) -> None:
        """Take what is ready, and start what follows from it."""
        for asked in list(self._running):
            code = asked.process.poll()
            if code is not None:
                self._running.remove(asked)
                self._ended(asked, code)
        if self._next is not None and not self._running:
            number, self._next = self._next, None
            if self._nvml is False:
                self._ask_smi(number)
            else:
                arguments = (sys.executable, "-I", str(_PROBE))
                self._start(f"gpus.look{number}.nvml.json", arguments, number)

    def pause(self, seconds: float) -> None:
        """Sleep, and take meanwhile what becomes ready."""
        until = time.monotonic() + seconds
        while self._running and time.monotonic() < until:
            time.sleep(min(0.05, max(0.0, until - time.monotonic())))
            self.step()
        time.sleep(max(0.0, until - time.monotonic()))

    def finish(self, processes: Iterable[Process], extra: float = EXTRA) -> None:
        """Wait a moment for what is still running; then tell what did not come back."""
        until = time.monotonic() + extra
        self.step()
        if self.outputs:
            self._next = None  # one look has come; nobody waits for another to begin
        while self._running and time.monotonic() < until:
            time.sleep(0.01)
            self.step()
        for asked in self._running:
            self._give_up(asked)
        self._running.clear()
        if not self.outputs and not self.claims and not self.gaps and _use_gpus(processes):
            self.gaps.append(_not_asked(self._hostname))

    def _ask_smi(self, look: int) -> None:
        if self._smi is None:
            return
        self._start(f"gpus.look{look}.xml", (self._smi, "-q", "-x"), look)
        self._start(f"nvlink-errors.look{look}.txt", (self._smi, "nvlink", "-e"), look)
        if look == 0:
            self._start("nvlink.txt", (self._smi, "nvlink", "-s"), look)
            self._start("topology.txt", (self._smi, "topo", "-m"), look)

    def _start(self, name: str, arguments: tuple[str, ...], look: int) -> None:
        import tempfile  # noqa: PLC0415 - only where there are GPUs

        file = tempfile.TemporaryFile()  # noqa: SIM115 - closed when it was read
        try:
            process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            file.close()
            self._gap(arguments, f"it cannot be started ({error.strerror})")
            return
        self._running.append(
            _Asked(
                name=name,
                arguments=arguments,
                look=look,
                taken_at=time.time(),
                clock=time.monotonic(),
                file=file,
                process=process,
            )
        )

    def _ended(self, asked: _Asked, code: int) -> None:
        data = _content(asked.file)
        if asked.name.endswith(".nvml.json"):
            self._nvml = code == 0 and data.startswith(b'{"nvml"')
            if self._nvml:
                self._keep(asked, data, failed=False)
            elif self._smi is not None:
                self._ask_smi(asked.look)
            elif not _lacks_nvml(code):
                self._gap(asked.arguments, f"the child that asks NVML failed (exit status {code})")
            return
        main = asked.name.endswith(".xml")
        good = code == 0 or b"<gpu" in data
        if main and not good and self._smi is not None:
            for name, query in (("gpus", _QUERY), ("gpu-processes", _APPS)):
                arguments = (self._smi, query, "--format=csv")
                self._start(f"{name}.look{asked.look}.csv", arguments, asked.look)
        if data.strip() and (good or main or asked.name.endswith(".csv")):
            self._keep(asked, data, failed=not good)
        elif main:
            self._gap(asked.arguments, f"it printed nothing (exit status {code})")

    def _keep(self, asked: _Asked, data: bytes, *, failed: bool) -> None:
        self.outputs.append(
            Output(
                name=asked.name,
                data=data,
                look=asked.look,
                taken_at=asked.taken_at,
                failed=failed,
            )
        )

    def _give_up(self, asked: _Asked) -> None:
        """End a program that is late; say so, and whether the driver holds it."""
        age = time.monotonic() - asked.clock
        held = asleep(asked.process.pid) if age >= HANGS else None
        with contextlib.suppress(OSError):
            os.killpg(asked.process.pid, signal.SIGKILL)
        data = _content(asked.file)
        if b"</gpu>" in data:
            self._keep(asked, data, failed=False)
        words = _words(asked.arguments)
        if held is not None:
            self.claims.append(
                Claim(
                    about="gpu-driver-hangs",
                    value=f"{words} did not come back in {age:.1f} s and sleeps in the kernel "
                    f"(state D{held})",
                    who=Who(host=self._hostname),
                    source=Source(file="claims.json"),
                )
            )
            self.touched.append(f"left {words} behind: it sleeps in the kernel, past any signal")
        elif not any(output.name.endswith((".xml", ".json")) for output in self.outputs):
            self._gap(asked.arguments, f"it did not come back within {age:.1f} s and was ended")

    def _gap(self, arguments: tuple[str, ...], why: str) -> None:
        self.gaps.append(
            Gap(
                what=f"asking for the GPUs of {self._hostname} ({_words(arguments)})",
                why=why,
                cost=_COST,
                remedy="Run nvidia-smi by hand: where it hangs too, look at dmesg for NVRM and Xid",
                who=Who(host=self._hostname),
            )
        )


def _lacks_nvml(code: int) -> bool:
    from whyhang.collectors.gpu.probe import NO_NVML  # noqa: PLC0415 - only where there are GPUs

    return code == NO_NVML


def _words(arguments: tuple[str, ...]) -> str:
    """Name a program as a person would type it."""
    if arguments[-1] == str(_PROBE):
        return "NVML"
    return " ".join((_SMI, *(word.partition("=")[0] for word in arguments[1:])))


def _content(file: BinaryIO) -> bytes:
    with file:
        file.seek(0)
        return file.read(MAX_BYTES)


def asleep(pid: int) -> str | None:
    """Tell whether a process stays in uninterruptible sleep, and where: " in rm_ioctl"."""
    for _ in range(5):
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return None
        if stat.rpartition(")")[2].split()[:1] != ["D"]:
            return None
        time.sleep(0.02)
    with contextlib.suppress(OSError):
        place = Path(f"/proc/{pid}/wchan").read_text().strip()
        if place and place != "0":
            return f" in {place}"
    return ""


def _use_gpus(processes: Iterable[Process]) -> bool:
    """Tell whether ranks of the job have an NVIDIA device open, or threads that belong to one."""
    return any(
        process.role is Role.RANK
        and (
            any("/dev/nvidia" in text for text in process.descriptors)
            or any(thread.name.startswith(("pt_nccl", "cuda-")) for thread in process.threads)
        )
        for process in processes
    )


def _not_asked(hostname: str) -> Gap:
    return Gap(
        what=f"the GPUs of {hostname}",
        why="the job uses GPUs, and neither NVML nor nvidia-smi is to be had here",
        cost=_COST,
        remedy="Run whyhang where nvidia-smi works: on the host, or in a container with "
        "NVIDIA_DRIVER_CAPABILITIES=utility",
        who=Who(host=hostname),
    )
