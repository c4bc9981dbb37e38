"""What this user can read on this machine, what each lack costs, and how to get it.

Rights are tried out rather than concluded: a process is started that is no descendant of this
one, as the ranks of a job are none, and py-spy is asked for its stacks.
"""

import contextlib
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from whyhang.analyzer import toml
from whyhang.analyzer.facts import Record
from whyhang.collectors.gpu import nvml_child
from whyhang.collectors.live.probes.kernel_log import DEVICE
from whyhang.collectors.live.probes.ras import PORT
from whyhang.collectors.live.proc import Proc
from whyhang.collectors.live.programs import Outcome, run
from whyhang.collectors.stacks import pyspy

LIMIT = 10.0
"""Seconds for one tool."""

SLEEPER = "import sys,time; print('up', flush=True); time.sleep(60)"
_CAP_SYS_PTRACE = 19  # include/uapi/linux/capability.h
_YAMA = "/proc/sys/kernel/yama/ptrace_scope"


class Check(Record):
    """One thing that may be had. ``cost`` and ``remedy`` matter where ``ok`` is false."""

    what: str
    ok: bool
    result: str
    cost: str = ""
    remedy: str = ""


_WORDS = toml.read(__package__, "doctor.toml", dict[str, dict[str, str]])


def _check(name: str, result: str, *, ok: bool, **more: str) -> Check:
    """Make a check of the words of the table, and of a remedy that is known only now."""
    words = _WORDS[name]
    about = {"what": words["what"]} if ok else {**words, **more}
    return Check(ok=ok, result=result, **about)


def checks() -> list[Check]:
    """Try everything out; takes a second or two. Never raises for what this machine lacks."""
    live = Path("/proc/self/stat").exists()
    system = f"{platform.system()} {platform.release()}{'' if live else ', no /proc'}"
    version = run(pyspy.executable(), "--version", limit=LIMIT)
    there = version.code == 0
    results = [
        _check("live", system, ok=live),
        _check("py-spy", _words(version).strip() if there else "not found", ok=there),
    ]
    if live:
        with _stranger() as pid:
            results += [_stacks(pid, "stacks"), _stacks(pid, "native"), _kernel_places(pid)]
        inside = Proc().in_container()
        seen = "only those of this container are seen" if inside else "all are seen"
        results += [_other_users(), _check("namespace", seen, ok=not inside), _kernel_log()]
    gdb = shutil.which("gdb")
    results += [_check("gdb", gdb or "not installed", ok=gdb is not None), gpus(), _ras(), _torch()]
    return results


@contextlib.contextmanager
def _stranger() -> Iterator[int | None]:
    """Start a Python process that is no child of this one; give its pid, or None."""
    command = ["/bin/sh", "-c", f'"$0" -c "{SLEEPER}" & echo $!', sys.executable]
    pid: int | None = None
    with (
        contextlib.suppress(OSError, subprocess.TimeoutExpired),
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
        ) as shell,
    ):
        lines = [shell.stdout.readline(), shell.stdout.readline()] if shell.stdout else []
        pid = next((int(line) for line in lines if line.strip().isdigit()), None)
        shell.wait(5)
    try:
        yield pid
    finally:
        if pid is not None:
            with contextlib.suppress(OSError):  # it has ended by itself
                os.kill(pid, signal.SIGKILL)


def _stacks(pid: int | None, name: str) -> Check:
    if pid is None:
        return _check(name, "could not be tried out", ok=False)
    outcome = run(*pyspy.command(pid, native=name == "native"), limit=LIMIT)
    if outcome.code == 0:
        return _check(name, "tried out, py-spy reads them", ok=True)
    why, remedy = pyspy.explain_failure(_words(outcome))
    return _check(name, f"{why} ({'; '.join(_rights())})", ok=False, remedy=remedy)


def _rights() -> Iterator[str]:
    """Say what decides about ptrace here: capability, Yama, seccomp."""
    yield f"CAP_SYS_PTRACE {'yes' if _has_ptrace() else 'no'}"
    if scope := _text(_YAMA):
        yield f"kernel.yama.ptrace_scope={scope}"
    if "Seccomp:\t2" in _text("/proc/self/status").splitlines():
        yield "a seccomp filter is on, as in containers"


def _has_ptrace() -> bool:
    rights = re.search(r"^CapEff:\s*(\w+)", _text("/proc/self/status"), re.MULTILINE)
    return rights is not None and bool(int(rights[1], 16) >> _CAP_SYS_PTRACE & 1)


def _kernel_places(pid: int | None) -> Check:
    place = Proc().wchan(pid) if pid is not None else None
    result = f"/proc/PID/wchan says {place}" if place else "hidden by the kernel"
    return _check("kernel-places", result, ok=place is not None)


def _other_users() -> Check:
    mounts = _text("/proc/mounts").splitlines()
    hidden = any(line.startswith("proc /proc ") and "hidepid=" in line for line in mounts)
    able = _has_ptrace()
    result = "readable" if able else "hidden (hidepid)" if hidden else "not readable"
    return _check("other-users", result, ok=able)


def _kernel_log() -> Check:
    try:
        os.close(os.open(DEVICE, os.O_RDONLY | os.O_NONBLOCK))
        readable = True
    except OSError:
        readable = run("dmesg", "--level", "emerg", limit=LIMIT).code == 0
    return _check("kernel-log", "readable" if readable else "not readable", ok=readable)


def gpus() -> Check:
    """Ask the driver's own tool; it hangs or fails where a GPU is broken."""
    for command in (("nvidia-smi", "-L"), ("rocm-smi", "--showid")):
        if shutil.which(command[0]) is None:
            continue
        outcome = run(*command, limit=LIMIT)
        lines = [line for line in _words(outcome).splitlines() if line.strip()]
        if outcome.code == 0:
            return _check("gpus", f"{command[0]} tells of {len(lines)}", ok=True)
        why = lines[0][:100] if lines else "it does not come back"
        return _check("sick-gpus", f"{command[0]} fails: {why}", ok=False)
    outcome = run(sys.executable, "-I", nvml_child.__file__, limit=LIMIT)
    count = outcome.output.count(b'{"index":')
    if outcome.code == 0 and count:
        return _check("gpus", f"NVML tells of {count}", ok=True)
    device = ", though /dev/nvidia0 is there" if Path("/dev/nvidia0").exists() else ""
    return _check("gpus", f"no NVML, no nvidia-smi, no rocm-smi{device}", ok=False)


def _ras() -> Check:
    answering = False
    with contextlib.suppress(OSError), socket.create_connection(("localhost", PORT), timeout=0.5):
        answering = True
    result = f"port {PORT} answers" if answering else f"nothing answers at port {PORT}"
    return _check("ras", result, ok=answering)


def _torch() -> Check:
    try:
        return _check("torch", f"{metadata.version('torch')}, next to whyhang", ok=True)
    except metadata.PackageNotFoundError:
        return _check("torch", "not installed next to whyhang", ok=False)


def _words(outcome: Outcome) -> str:
    """Return what a tool said: its errors where it failed."""
    output = outcome.output.decode(errors="replace")
    return output if outcome.code == 0 else outcome.errors or output


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return ""
