"""Control groups of a process, as they are mounted here (cgroups(7)), and whether one is frozen.

What is frozen does not run, and no signal shows it. cgroup v2 tells it in ``cgroup.events``, v1 in
``freezer.state`` (Documentation/admin-guide).
"""

from collections.abc import Iterator
from pathlib import Path

from whyhang.collectors.live.proc import Proc


def control_groups(proc: Proc, pid: int, controllers: set[str]) -> Iterator[tuple[str, str]]:
    """Yield where a control group of a process is mounted, and its name below that.

    Of version 1 those that have one of these controllers, of version 2 the one that there is.
    """
    mounts = proc.mounts("self")
    for line in (proc.bytes_of(f"{pid}/cgroup") or b"").decode(errors="replace").splitlines():
        number, kinds, group = (*line.split(":", 2), "", "")[:3]
        wanted = controllers & set(kinds.split(","))
        for folder, kind in mounts.items():
            of_version_1 = kind.startswith("cgroup ") and wanted & set(Path(folder).name.split(","))
            if of_version_1 or (number == "0" and kind.startswith("cgroup2 ")):
                yield folder, group


def frozen(proc: Proc, pid: int) -> str | None:
    """Return the control group of a process if it is frozen."""
    for mount, group in control_groups(proc, pid, {"freezer"}):
        folder = Path(mount, group.lstrip("/"))
        events, state = words_in(folder / "cgroup.events"), words_in(folder / "freezer.state")
        if ["frozen", "1"] in events or ["FROZEN"] in state:
            return group
    return None


def words_in(path: Path) -> list[list[str]]:
    """Return the words of each line of a file; none where it cannot be read."""
    try:
        return [line.split() for line in path.read_text("utf-8", "replace").splitlines()]
    except OSError:
        return []
