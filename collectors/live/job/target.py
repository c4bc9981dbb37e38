"""What a person pointed at: the process that a pid means, or why it cannot be looked at."""

from __future__ import annotations

import os

from whyhang.analyzer.errors import TargetError
from whyhang.collectors.live.job.host import Host


def check_target(host: Host, pid: int) -> int:
    """Give the process that ``pid`` means (a thread id means its process) or say what is wrong."""
    stat = host.stats.get(pid) or host.proc.stat(pid)
    if stat is None:
        if not host.stats:
            raise TargetError(
                f"process {pid} cannot be looked at: there is no /proc here",
                "Run whyhang on the Linux machine where the job runs, with /proc mounted, or give "
                "the path of what the job left.",
            )
        raise TargetError(
            f"there is no process {pid} on this host",
            "Look for it with: pgrep -af python. A pid of a container or of another host is not "
            "known here, and hidepid in the options of /proc hides those of other users.",
        )
    if stat.kernel:
        raise TargetError(
            f"process {pid} ({stat.comm}) is a thread of the kernel",
            "Give the pid of a process of the training job: pgrep -af python.",
        )
    if stat.state in {"Z", "X", "x"}:
        other = (
            f"Try the parent: whyhang {stat.ppid}. Its log says how the process ended."
            if stat.ppid > 1
            else "Give the pid of another process of the job: pgrep -af python."
        )
        raise TargetError(
            f"process {pid} ({stat.comm}) has ended and waits to be collected by its parent, "
            f"process {stat.ppid}",
            other,
        )
    if pid not in host.stats:
        return host.proc.process_of(pid) or pid
    if not host.readable(pid):
        raise _no_right(host, pid)
    return pid


def _no_right(host: Host, pid: int) -> TargetError:
    name, owner = host.stats[pid].comm, host.proc.owner(pid)
    if owner == os.geteuid():
        return TargetError(
            f"process {pid} ({name}) is protected: it has rights that whyhang has not, or it "
            "forbids to be looked into",
            "Run whyhang with CAP_SYS_PTRACE (in a container: --cap-add SYS_PTRACE), or give the "
            "pid of a process of the training job: pgrep -af python.",
        )
    return TargetError(
        f"process {pid} ({name}) belongs to {_user_name(owner)}, and this user may not look into "
        "it",
        f'Run it as that user or as root: sudo "$(command -v whyhang)" {pid}.',
    )


def _user_name(uid: int | None) -> str:
    import pwd  # noqa: PLC0415 - rarely needed

    try:
        return f"user {pwd.getpwuid(uid).pw_name}" if uid is not None else "another user"
    except KeyError:
        return f"user {uid}"
