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

from whyhang.collectors.tool_failures import failure_of

_NO_INTERPRETER = "python interpreter"
_NO_FILES = (
    "py-spy does not find the files that the process runs from: another container, or another root",
    "Run whyhang inside its container, or as root through nsenter -t PID --mount",
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
    if failure := failure_of("py-spy", stderr):
        lies = lives and "ended or is a zombie" in failure.why
        return _NO_FILES if lies else (failure.why, failure.remedy)
    words = " ".join(stderr.partition("Stack backtrace")[0].split())  # without its own backtrace
    words = words[:200].removeprefix("Error: ").rstrip(".")
    return f"py-spy said: {words}", "Run it by hand: py-spy dump --pid PID"


def lacks_interpreter(stderr: str) -> bool:
    """Tell whether py-spy found no interpreter: the process has ended it, or not begun it."""
    return _NO_INTERPRETER in stderr
