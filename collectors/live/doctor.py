"""What this user can read on this machine, what each lack costs, and how to get it.

Rights are tried out rather than concluded: a process is started that is no descendant of this
one, as the ranks of a job are none, and py-spy is asked for its stacks.
"""

import contextlib
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata, util
from pathlib import Path

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
_NO_STACKS = "no Python stacks: ranks are placed by /proc alone"
_NO_NATIVE = "waits inside C++ (backward, CUDA, MPI) stay unnamed"
_CAP_SYS_PTRACE = 19  # include/uapi/linux/capability.h
_YAMA = "/proc/sys/kernel/yama/ptrace_scope"


class Check(Record):
    """One thing that may be had. ``cost`` and ``remedy`` matter where ``ok`` is false."""

    what: str
    ok: bool
    result: str
    cost: str = ""
    remedy: str = ""


def checks() -> list[Check]:
    """Try everything out; takes a second or two. Never raises for what this machine lacks."""
    results = [_platform(), _py_spy()]
    if results[0].ok:
        with _stranger() as pid:
            results += [
                _stacks(pid, "stacks of your own processes", _NO_STACKS),
                _stacks(pid, "native stacks", _NO_NATIVE, native=True),
                _kernel_places(pid),
            ]
        results += [_other_users(), _namespace(), _kernel_log()]
    return [*results, _gdb(), gpus(), _ras(), _torch()]


def _platform() -> Check:
    proc = Path("/proc/self/stat").exists()
    return Check(
        what="live jobs",
        ok=proc,
        result=f"{platform.system()} {platform.release()}" + ("" if proc else ", no /proc"),
        cost="only what a job left behind can be read here",
        remedy="run whyhang PID on the Linux machine where the job runs",
    )


def _py_spy() -> Check:
    outcome = run(pyspy.executable(), "--version", limit=LIMIT)
    return Check(
        what="py-spy",
        ok=outcome.code == 0,
        result=_words(outcome).strip() if outcome.code == 0 else "not found",
        cost="no Python stacks of running processes",
        remedy="pip install py-spy",
    )


@contextlib.contextmanager
def _stranger() -> Iterator[int | None]:
    """Start a Python process that is no child of this one; give its pid, or None."""
    command = ["/bin/sh", "-c", f'"$0" -c "{SLEEPER}" & echo $!', sys.executable]
    pid: int | None = None
    with (
        contextlib.suppress(OSError, subprocess.TimeoutExpired),
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
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


def _stacks(pid: int | None, what: str, cost: str, *, native: bool = False) -> Check:
    if pid is None:
        return Check(what=what, ok=False, result="could not be tried out", cost=cost)
    outcome = run(*pyspy.command(pid, native=native), limit=LIMIT)
    if outcome.code == 0:
        return Check(what=what, ok=True, result="tried out, py-spy reads them")
    why, remedy = pyspy.explain_failure(_words(outcome))
    rights = "; ".join(_rights())
    return Check(what=what, ok=False, result=f"{why} ({rights})", cost=cost, remedy=remedy)


def _rights() -> Iterator[str]:
    """Say what decides about ptrace here: capability, Yama, seccomp."""
    yield f"CAP_SYS_PTRACE {'yes' if _has_ptrace() else 'no'}"
    if scope := _text(_YAMA):
        yield f"kernel.yama.ptrace_scope={scope}"
    if _own_status("Seccomp") == "2":
        yield "a seccomp filter is on, as in containers"


def _has_ptrace() -> bool:
    return bool(int(_own_status("CapEff") or "0", 16) >> _CAP_SYS_PTRACE & 1)


def _own_status(name: str) -> str:
    lines = (line.partition(":") for line in _text("/proc/self/status").splitlines())
    return next((value.strip() for key, _, value in lines if key == name), "")


def _kernel_places(pid: int | None) -> Check:
    place = Proc().wchan(pid) if pid is not None else None
    return Check(
        what="where threads sleep in the kernel",
        ok=place is not None,
        result=f"/proc/PID/wchan says {place}" if place else "hidden by the kernel",
        cost="a wait for storage is told from the stack alone",
        remedy="run whyhang as root, or use a kernel with CONFIG_KALLSYMS",
    )


def _other_users() -> Check:
    mounts = _text("/proc/mounts").splitlines()
    hidden = any(line.startswith("proc /proc ") and "hidepid=" in line for line in mounts)
    able = _has_ptrace()
    return Check(
        what="processes of other users",
        ok=able,
        result="readable" if able else "hidden (hidepid)" if hidden else "not readable",
        cost="a job can be looked at only by the user who runs it",
        remedy="run whyhang as that user, as root, or with CAP_SYS_PTRACE",
    )


def _namespace() -> Check:
    inside = Proc().in_container()
    return Check(
        what="processes of the whole host",
        ok=not inside,
        result="only those of this container are seen" if inside else "all are seen",
        cost="ranks in other containers of this host are not found",
        remedy="run whyhang on the host, or share the namespace (docker --pid=host, "
        "shareProcessNamespace in Kubernetes)",
    )


def _kernel_log() -> Check:
    try:
        os.close(os.open(DEVICE, os.O_RDONLY | os.O_NONBLOCK))
        readable = True
    except OSError:
        readable = run("dmesg", "--level", "emerg", limit=LIMIT).code == 0
    return Check(
        what="kernel log",
        ok=readable,
        result="readable" if readable else "not readable",
        cost="GPU errors (Xid) and the out-of-memory killer are not seen",
        remedy="run as root, or set kernel.dmesg_restrict=0; journalctl -k may do as well",
    )


def _gdb() -> Check:
    path = shutil.which("gdb")
    return Check(
        what="gdb",
        ok=path is not None,
        result=path or "not installed",
        cost="ranks that are no Python programs cannot be looked into",
        remedy="install gdb, if you need that",
    )


def gpus() -> Check:
    """Ask the driver's own tool; it hangs or fails where a GPU is broken."""
    for command in (("nvidia-smi", "-L"), ("rocm-smi", "--showid")):
        if shutil.which(command[0]) is None:
            continue
        outcome = run(*command, limit=LIMIT)
        lines = [line for line in _words(outcome).splitlines() if line.strip()]
        if outcome.code == 0:
            return Check(what="GPUs", ok=True, result=f"{command[0]} tells of {len(lines)}")
        return Check(
            what="GPUs",
            ok=False,
            result=f"{command[0]} fails: {lines[0][:100] if lines else 'it does not come back'}",
            cost="the state of the GPUs is not known",
            remedy="look at dmesg: a GPU that fell off the bus makes it fail or hang",
        )
    outcome = run(sys.executable, "-I", nvml_child.__file__, limit=LIMIT)
    count = outcome.output.count(b'{"index":')
    if outcome.code == 0 and count:
        return Check(what="GPUs", ok=True, result=f"NVML tells of {count}")
    device = ", though /dev/nvidia0 is there" if Path("/dev/nvidia0").exists() else ""
    return Check(
        what="GPUs",
        ok=False,
        result=f"no NVML, no nvidia-smi, no rocm-smi{device}",
        cost="the state of the GPUs is not known, if there are any",
        remedy="install the tools of the driver; containers get them with "
        "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
    )


def _ras() -> Check:
    answering = False
    with contextlib.suppress(OSError), socket.create_connection(("localhost", PORT), timeout=0.5):
        answering = True
    return Check(
        what="NCCL RAS",
        ok=answering,
        result=f"port {PORT} answers" if answering else f"nothing answers at port {PORT}",
        cost="NCCL's own view of its communicators is not had",
        remedy="a running job with NCCL 2.24 or newer answers, unless NCCL_RAS_ENABLE=0",
    )


def _torch() -> Check:
    there = util.find_spec("torch") is not None
    try:
        version = metadata.version("torch") if there else ""
    except metadata.PackageNotFoundError:
        version = "of unknown version"
    return Check(
        what="torch",
        ok=there,
        result=f"{version}, next to whyhang" if there else "not installed next to whyhang",
        cost="whyhang demo cannot start jobs; everything else works without",
        remedy="pip install 'whyhang[torch]'",
    )


def _words(outcome: Outcome) -> str:
    """Return what a tool said: its errors where it failed."""
    output = outcome.output.decode(errors="replace")
    return output if outcome.code == 0 else outcome.errors or output


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return ""
