"""Control groups that are frozen: their processes do not run, and no signal shows it.

cgroup v2 tells it in ``cgroup.events``, v1 in ``freezer.state`` (Documentation/admin-guide).
"""

from collections.abc import Iterator

from whyhang.collectors.live.proc import Proc


def frozen(proc: Proc, pid: int) -> str | None:
    """Return the control group of a process if it is frozen."""
    for folder, group, file, marks in _freezers(proc, pid):
        words = (proc.read_outside(f"{folder}{group}/{file}") or b"").decode().split()
        if any(words[at : at + len(marks)] == list(marks) for at in range(len(words))):
            return group
    return None


def _freezers(proc: Proc, pid: int) -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """Yield where a group of the process may say that it is frozen, and the words that say so."""
    mounts = proc.mounts("self")
    for line in (proc.bytes_of(f"{pid}/cgroup") or b"").decode(errors="replace").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        for folder, kind in mounts.items():
            if number == "0" and kind.startswith("cgroup2 "):
                yield folder, group, "cgroup.events", ("frozen", "1")
            elif (
                "freezer" in controllers.split(",")
                and kind.startswith("cgroup ")
                and "freezer" in folder.rpartition("/")[2]
            ):
                yield folder, group, "freezer.state", ("FROZEN",)
