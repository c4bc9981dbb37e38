"""What this user can read on this machine, what each lack costs, and how to get it.

Rights are tried out rather than concluded: a process is started that is no descendant of this
one, as the ranks of a job are none, and py-spy is asked for its stacks.
"""

from __future__ import annotations

import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from whyhang.analyzer.model import Record
from whyhang.collectors.gpu import probe
from whyhang.collectors.live.proc import Proc
from whyhang.collectors.stacks import pyspy

RAS_PORT = 28028  # NCCL 2.24 and newer, src/ras/ras.cc: NCCL_RAS_LOCAL_PORT
_CAP_SYS_PTRACE = 19  # include/uapi/linux/capability.h
_YAMA = "/proc/sys/kernel/yama/ptrace_scope"
_FIRST_PID_NAMESPACE = "pid:[4026531836]"  # include/linux/proc_ns.h: PROC_PID_INIT_INO
SLEEPER = "import sys,time; print('up', flush=True); time.sleep(60)"


class Check(Record):
    """One thing that may be had. ``cost`` and ``remedy`` matter where ``ok`` is false."""

    what: str
    ok: bool
    found: str
    cost: str = ""
    remedy: str = ""


def checks() -> list[Check]:
    """Try everything out; takes a second or two. Never raises for what this machine lacks."""
    found = [_platform(), _py_spy()]
    if found[0].ok:
        with _stranger() as pid:
            found += [_stacks(pid), _native(pid), _kernel_places(pid)]
        found += [_other_users(), _namespace(), _kernel_log()]
    return [*found, _gdb(), gpus(), _ras(), _torch()]


def _platform() -> Check:
    proc = Path("/proc/self/stat").exists()
    return Check(
        what="live jobs",
        ok=proc,
        found=f"{platform.system()} {platform.release()}" + ("" if proc else ", no /proc"),
        cost="only what a job left behind can be read here",
        remedy="run whyhang PID on the Linux machine where the job runs",
    )


def _py_spy() -> Check:
    code, said = _run([pyspy.executable(), "--version"])
    return Check(
        what="py-spy",
        ok=code == 0,
        found=said.strip() if code == 0 else "not found",
        cost="no Python stacks of running processes",
        remedy="pip install py-spy",
    )


@contextmanager
def _stranger() -> Iterator[int | None]:
    """Start a Python process that is no child of this one; give its pid, or None."""
    command = f'"$0" -c "{SLEEPER}" & echo $!'
    pid: int | None = None
    try:
        with subprocess.Popen(
            ["/bin/sh", "-c", command, sys.executable],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
        ) as shell:
            lines = [shell.stdout.readline(), shell.stdout.readline()] if shell.stdout else []
            pid = next((int(line) for line in lines if line.strip().isdigit()), None)
            shell.wait(5)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        pid = None
    try:
        yield pid
    finally:
        if pid is not None:
            _kill(pid)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:  # it has ended by itself
        return


def _stacks(pid: int | None) -> Check:
    return _dump(
        pid,
        "stacks of your own processes",
        pyspy.command(pid or 0),
        "no Python stacks: ranks are placed by /proc alone",
    )


def _native(pid: int | None) -> Check:
    return _dump(
        pid,
        "native stacks",
        pyspy.command(pid or 0, native=True),
        "waits inside C++ (backward, CUDA, MPI) stay unnamed",
    )


def _dump(pid: int | None, what: str, command: list[str], cost: str) -> Check:
    if pid is None:
        return Check(what=what, ok=False, found="could not be tried out", cost=cost)
    code, said = _run(command)
    if code == 0:
        return Check(what=what, ok=True, found="tried out, py-spy reads them")
    why, remedy = pyspy.explain_failure(said)
    rights = "; ".join(_rights())
    return Check(what=what, ok=False, found=f"{why} ({rights})", cost=cost, remedy=remedy)


def _rights() -> list[str]:
    """Say what decides about ptrace here: capability, Yama, seccomp."""
    told = [f"CAP_SYS_PTRACE {'yes' if _has_ptrace() else 'no'}"]
    scope = _text(_YAMA)
    if scope:
        told.append(f"kernel.yama.ptrace_scope={scope}")
    if _status("Seccomp") == "2":
        told.append("a seccomp filter is on, as in containers")
    return told


def _has_ptrace() -> bool:
    try:
        return bool(int(_status("CapEff") or "0", 16) >> _CAP_SYS_PTRACE & 1)
    except ValueError:
        return False


def _status(name: str) -> str:
    for line in _text("/proc/self/status").splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return value.strip()
    return ""


def _kernel_places(pid: int | None) -> Check:
    place = Proc().wchan(pid) if pid is not None else None
    return Check(
        what="where threads sleep in the kernel",
        ok=place is not None,
        found=f"/proc/PID/wchan says {place}" if place else "hidden by the kernel",
        cost="a wait for storage is told from the stack alone",
        remedy="run whyhang as root, or use a kernel with CONFIG_KALLSYMS",
    )


def _other_users() -> Check:
    hidden = "hidepid=" in next(
        (line for line in _text("/proc/mounts").splitlines() if line.startswith("proc /proc ")), ""
    )
    able = _has_ptrace()
    return Check(
        what="processes of other users",
        ok=able,
        found="readable" if able else "hidden (hidepid)" if hidden else "not readable",
        cost="a job can be looked at only by the user who runs it",
        remedy="run whyhang as that user, as root, or with CAP_SYS_PTRACE",
    )


def _namespace() -> Check:
    own = Proc().namespace(os.getpid(), "pid")
    inside = own is not None and own != _FIRST_PID_NAMESPACE
    return Check(
        what="processes of the whole host",
        ok=not inside,
        found="only those of this container are seen" if inside else "all are seen",
        cost="ranks in other containers of this host are not found",
        remedy="run whyhang on the host, or share the namespace (docker --pid=host, "
        "shareProcessNamespace in Kubernetes)",
    )


def _kernel_log() -> Check:
    try:
        os.close(os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK))
        readable = True
    except OSError:
        readable = _run(["dmesg", "--level", "emerg"])[0] == 0
    return Check(
        what="kernel log",
        ok=readable,
        found="readable" if readable else "not readable",
        cost="GPU errors (Xid) and the out-of-memory killer are not seen",
        remedy="run as root, or set kernel.dmesg_restrict=0; journalctl -k may do as well",
    )


def _gdb() -> Check:
    path = shutil.which("gdb")
    return Check(
        what="gdb",
        ok=path is not None,
        found=path or "not installed",
        cost="ranks that are no Python programs cannot be looked into",
        remedy="install gdb, if you need that",
    )


def gpus() -> Check:
    """Ask the driver's own tool; it hangs or fails where a GPU is broken."""
    for tool, arguments in (("nvidia-smi", ["-L"]), ("rocm-smi", ["--showid"])):
        if shutil.which(tool) is None:
            continue
        code, said = _run([tool, *arguments])
        lines = [line for line in said.splitlines() if line.strip()]
        if code == 0:
            return Check(what="GPUs", ok=True, found=f"{tool} tells of {len(lines)}")
        return Check(
            what="GPUs",
            ok=False,
            found=f"{tool} fails: {lines[0][:100] if lines else 'it does not come back'}",
            cost="the state of the GPUs is not known",
            remedy="look at dmesg: a GPU that fell off the bus makes it fail or hang",
        )
    code, said = _run([sys.executable, "-I", probe.__file__])
    count = said.count('{"index":')
    if code == 0 and count:
        return Check(what="GPUs", ok=True, found=f"NVML tells of {count}")
    device = Path("/dev/nvidia0").exists()
    return Check(
        what="GPUs",
        ok=False,
        found="no NVML, no nvidia-smi, no rocm-smi"
        + (", though /dev/nvidia0 is there" if device else ""),
        cost="the state of the GPUs is not known, if there are any",
        remedy="install the tools of the driver; containers get them with "
        "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
    )


def _ras() -> Check:
    try:
        with socket.create_connection(("localhost", RAS_PORT), timeout=0.5):
            answering = True
    except OSError:
        answering = False
    return Check(
        what="NCCL RAS",
        ok=answering,
        found=f"port {RAS_PORT} answers" if answering else f"nothing answers at port {RAS_PORT}",
        cost="NCCL's own view of its communicators is not had",
        remedy="a running job with NCCL 2.24 or newer answers, unless NCCL_RAS_ENABLE=0",
    )


def _torch() -> Check:
    from importlib import metadata, util  # noqa: PLC0415 - slow to import

    there = util.find_spec("torch") is not None
    try:
        version = metadata.version("torch") if there else ""
    except metadata.PackageNotFoundError:
        version = "of unknown version"
    return Check(
        what="torch",
        ok=there,
        found=f"{version}, next to whyhang" if there else "not installed next to whyhang",
        cost="whyhang demo cannot start jobs; everything else works without",
        remedy="pip install 'whyhang[torch]'",
    )


def _run(command: list[str], limit: float = 10.0) -> tuple[int | None, str]:
    """Run a tool with a limit; give its code (None: it could not run to its end) and words."""
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=limit, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None, ""
    words = done.stdout if done.returncode == 0 else done.stderr or done.stdout
    return done.returncode, words.decode(errors="replace")


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return ""
