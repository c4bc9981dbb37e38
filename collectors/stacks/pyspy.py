"""py-spy: Python stacks of a live process, and the text and JSON it prints.

Live, py-spy 0.4 takes about 0.04 s a process (``--native`` about 1 s) and pauses it for
that long. ``--json`` together with ``--subprocesses`` prints the one process only, so each
process is asked for by its own pid.
"""

import functools
import os
import shutil
import sys
import sysconfig
from pathlib import Path

import msgspec

_PTRACE_REMEDY = (
    "Run whyhang as the user of the process with CAP_SYS_PTRACE, or as root; on a host set "
    "kernel.yama.ptrace_scope=0, in a container add the capability SYS_PTRACE"
)

# What py-spy prints on failure, first match wins, and what it means for a person. Every
# text up to "python interpreter" was seen with py-spy 0.4.3; the rest is in its source.
_NO_INTERPRETER = ("python interpreter",)
_ENDED = "the process has ended or is a zombie"
_NO_FILES = (
    "py-spy does not find the files that the process runs from: another container, or another root",
    "Run whyhang inside its container, or as root through nsenter -t PID --mount",
)
_FAILURES: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        ("unexpected waitpid result", "waitpid"),
        "the process is stopped or traced, so py-spy could not suspend it",
        "Ask again with --nonblocking, or let the process go on (kill -CONT, detach the debugger)",
    ),
    (
        ("Can't get native stack traces with the --nonblocking option",),
        "py-spy cannot take native frames without suspending the process",
        "Leave out either --native or --nonblocking",
    ),
    (
        ("No such process", "os error 3)", "ESRCH"),
        "the process ended while py-spy looked at it",
        "Take the stacks of the processes that are left",
    ),
    (
        ("Permission Denied", "Permission denied", "Operation not permitted", "EPERM", "EACCES"),
        "this user may not attach to the process",
        _PTRACE_REMEDY,
    ),
    (
        ("Failed to get process executable name", "No such file or directory (os error 2)"),
        _ENDED,
        "Look at its exit code in the log of the launcher",
    ),
    (
        ("Failed to find python version", "No python processes found"),
        "it is not a Python process, or its Python is newer than this py-spy knows",
        "Give the pid of the Python process itself, or upgrade py-spy",
    ),
    (
        (*_NO_INTERPRETER, "Couldn't find python binary", "nsupported version"),
        "py-spy found no Python interpreter that it knows in the process",
        "Upgrade py-spy, or take the stack with gdb",
    ),
    (
        ("libunwind", "unwind", "native stack"),
        "the native stack could not be unwound",
        "Take the Python stack without --native",
    ),
    (
        ("Bad address", "os error 14)", "Input/output error", "os error 5)", "copy"),
        "the memory of the process changed while py-spy read it",
        "Ask again, without --nonblocking if the process is not stopped",
    ),
    (
        ("py-spy: not found", "py-spy: command not found", "No such file or directory: 'py-spy'"),
        "py-spy is not installed",
        "pip install py-spy",
    ),
    (
        ("not supported on this platform", "Function not implemented", "os error 38)"),
        "this system does not let py-spy read another process (no process_vm_readv or ptrace)",
        "Run whyhang on the host rather than inside the sandbox",
    ),
)


@functools.cache
def executable() -> str:
    """Find the py-spy that was installed with this package, else the one on PATH."""
    for folder in (
        Path(sys.executable).parent,
        Path(sysconfig.get_path("scripts")),
        Path(msgspec.__file__).parents[1] / "bin",  # of a zipapp, or of pip install --target
    ):
        if os.access(folder / "py-spy", os.X_OK):
            return str(folder / "py-spy")
    return shutil.which("py-spy") or "py-spy"


def command(
    pid: int, *, native: bool = False, nonblocking: bool = False, locals_: bool = False
) -> list[str]:
    """Give the command that prints the stacks of one process as JSON.

    ``nonblocking`` is for stopped processes and wins over ``native``: py-spy refuses both. Names
    of files are not shortened: to do so, py-spy looks for packages beside them, and would hang
    with a file server that is gone.
    """
    options = ["--json", "--full-filenames"]
    if nonblocking:
        options.append("--nonblocking")
    elif native:
        options.append("--native")
    if locals_:
        options.append("--locals")
    return [executable(), "dump", *options, "--pid", str(pid)]


def explain_failure(stderr: str, *, lives: bool = False) -> tuple[str, str]:
    """Say why py-spy failed and what to do, one clause each, from what it printed.

    ``lives``: the process is known to run on.
    """
    if not stderr.strip():
        return "py-spy ended without a word", "Run it by hand: py-spy dump --pid PID"
    for marks, why, remedy in _FAILURES:
        if any(mark in stderr for mark in marks):
            return _NO_FILES if lives and why == _ENDED else (why, remedy)
    return f"py-spy said: {_first_words(stderr)}", "Run it by hand: py-spy dump --pid PID"


def lacks_interpreter(stderr: str) -> bool:
    """Tell whether py-spy found no interpreter: the process has ended it, or not begun it."""
    return any(mark in stderr for mark in _NO_INTERPRETER)


def _first_words(stderr: str) -> str:
    """Give the error of py-spy without its own backtrace, in one line of sane length."""
    words = stderr.partition("Stack backtrace")[0].split()
    return " ".join(words)[:200].removeprefix("Error: ").rstrip(".")
