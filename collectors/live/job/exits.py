"""How processes of a job ended whom nobody has collected yet: the kernel keeps their exit state."""

import os
import signal
from collections.abc import Iterator

from whyhang.analyzer.facts import Exit, Source, Who
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import HostJob


def ended(host: Host, job: HostJob, hostname: str) -> Iterator[Exit]:
    """Yield the exits of the job's processes that are zombies (proc(5), field 52 of stat)."""
    members = {member.pid: member for member in job.members}
    pids = [one for pid in members for one in (pid, *host.children.get(pid, ()))]
    for pid in dict.fromkeys(pids):
        stat = host.stats[pid]
        if not host.has_ended(pid):
            continue
        number = os.WTERMSIG(stat.exit_code) if os.WIFSIGNALED(stat.exit_code) else None
        code = None if number else os.WEXITSTATUS(stat.exit_code)
        how = f"exit code {code}" if number is None else f"signal {_name(number)}"
        known = members.get(pid)
        yield Exit(
            who=known.who(hostname) if known is not None else Who(host=hostname, pid=pid),
            source=Source(file=f"{host.proc.root}/{pid}/stat"),
            quote=f"process {pid} ({stat.comm}) has ended with {how} and was not collected by its "
            f"parent, process {stat.ppid}",
            exitcode=code,
            signal=number,
        )


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
