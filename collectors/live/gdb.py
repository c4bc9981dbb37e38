"""gdb: stacks of ranks that run no Python, such as those of MPI programs in C, C++ or Fortran.

py-spy reads such a process not at all. gdb stops it while it reads its symbols and stacks, mostly
for half a second to a second; it loads no script of the program, and fetches nothing.
"""

import shutil

from whyhang.collectors.live.job.host import Host

_FRAMES = 64
_SETTINGS = (
    "set auto-load no",
    "set debuginfod enabled off",
    "set pagination off",
    "set width 0",
    "set print frame-arguments none",
)


def is_for(host: Host, pid: int) -> bool:
    """Return whether a process has no Python, but MPI, torch or NCCL in it."""
    return not host.is_python(pid) and host.uses_torch(pid)


def command(pid: int) -> list[str] | None:
    """Give the command that prints the stacks of one process; None without gdb."""
    gdb = shutil.which("gdb")
    if gdb is None:
        return None
    before = [word for setting in _SETTINGS for word in ("-iex", setting)]
    return [gdb, "-nx", "-batch", *before, "-p", str(pid), "-ex", f"thread apply all bt {_FRAMES}"]
