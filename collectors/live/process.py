"""One process of a job as a ``Process`` record, read from /proc."""

from __future__ import annotations

from whyhang.analyzer.facts import Process, Source, replace
from whyhang.analyzer.redact import redact, redact_command, redact_environment
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import Member
from whyhang.collectors.live.open_files import descriptors, name_of
from whyhang.collectors.live.sockets import Sockets
from whyhang.collectors.live.syscalls import parse_syscall


def describe(host: Host, member: Member, hostname: str, sockets: Sockets) -> Process:
    """Read what stays the same from look to look: command line, environment, open files."""
    proc, pid = host.proc, member.pid
    stat = host.stats[pid]
    cwd = proc.link_of(f"{pid}/cwd")
    files = "\n".join(descriptors(proc, pid, sockets))
    process = Process(
        who=member.who(hostname),
        source=Source(file=f"{proc.root}/{pid}"),
        command=redact_command(host.arguments(pid)) or f"[{stat.comm}]",
        cwd=None if cwd is None else redact(cwd),
        environ=redact_environment(host.environ(pid)),
        started_at=proc.started_at(stat),
        descriptors=tuple(redact(files).split("\n")) if files else (),
    )
    return member.describes(process, hostname)


def observe(
    host: Host, known: Process, sockets: Sockets, *, look: int, now: float
) -> Process | None:
    """Read what changes: state, threads, place in the kernel. None if the process is gone."""
    proc, pid = host.proc, known.who.pid or 0
    stat, status = proc.stat(pid), proc.status(pid)
    if stat is None:
        return None
    threads = proc.threads(pid)
    syscall = _syscall(host, pid, sockets)
    if threads and syscall is not None:
        threads = (replace(threads[0], syscall=syscall), *threads[1:])
    return replace(
        known,
        look=look,
        taken_at=now,
        state=stat.state,
        wchan=threads[0].wchan if threads else None,
        thread_count=stat.threads,
        threads=threads,
        tracer_pid=status.tracer or None if status is not None else None,
        asleep_for=proc.asleep_for(pid) if stat.state == "S" else None,
    )


def _syscall(host: Host, pid: int, sockets: Sockets) -> str | None:
    """Name the call that the main thread waits in: "read(5: /mnt/data/a.bin)"."""
    call = parse_syscall(host.system_call(pid))
    if call is None:
        return None
    name, number = call
    link = host.proc.link_of(f"{pid}/fd/{number}") if number is not None else None
    if link is None:
        return name
    return redact(f"{name}({number}: {name_of(link, pid, sockets) or link})")
