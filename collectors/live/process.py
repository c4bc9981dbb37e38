"""One process of a job as a ``Process`` record, read from /proc."""

from __future__ import annotations

from whyhang.analyzer.model import Process, Source, ThreadState, Who, replace
from whyhang.analyzer.redact import redact, redact_command, redact_environment
from whyhang.collectors.live.descriptors import Sockets, descriptors, name_of
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import Member
from whyhang.collectors.live.proc import Proc
from whyhang.collectors.live.syscalls import parse_syscall


def describe(host: Host, member: Member, hostname: str, sockets: Sockets) -> Process:
    """Read what stays the same from look to look: command line, environment, open files."""
    proc, pid = host.proc, member.pid
    stat = host.stats[pid]
    command = redact_command(host.arguments(pid)) or f"[{stat.comm}]"
    cwd = proc.link_of(f"{pid}/cwd")
    return Process(
        who=who(member, hostname),
        source=Source(file=f"{proc.root}/{pid}"),
        ppid=member.ppid,
        role=member.role,
        owner_pid=member.owner,
        command=command,
        cwd=None if cwd is None else redact(cwd),
        environ=redact_environment(host.environ(pid)),
        started_at=proc.started_at(stat),
        descriptors=_redacted(descriptors(proc, pid, sockets)),
    )


def _redacted(lines: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(redact("\n".join(lines)).split("\n")) if lines else ()


def who(member: Member, hostname: str) -> Who:
    """Say whom a member is: only a rank process carries a rank, a helper has its pid."""
    return Who(
        rank=member.rank,
        trust=member.trust,
        host=hostname,
        pid=member.pid,
        local_rank=member.local_rank,
    )


def observe(
    proc: Proc, known: Process, sockets: Sockets, *, look: int, now: float
) -> Process | None:
    """Read what changes: state, threads, place in the kernel. None if the process is gone."""
    pid = known.who.pid
    stat = proc.stat(pid) if pid is not None else None
    if pid is None or stat is None:
        return None
    status = proc.status(pid)
    threads = proc.threads(pid)
    syscall = _syscall(proc, pid, sockets)
    if threads and syscall is not None:
        threads = (replace(threads[0], syscall=syscall), *threads[1:])
    return replace(
        known,
        look=look,
        taken_at=now,
        state=stat.state,
        wchan=_main_wchan(threads),
        thread_count=stat.threads,
        threads=threads,
        tracer_pid=status.tracer or None if status is not None else None,
    )


def _main_wchan(threads: tuple[ThreadState, ...]) -> str | None:
    return threads[0].wchan if threads else None


def _syscall(proc: Proc, pid: int, sockets: Sockets) -> str | None:
    data = proc.bytes_of(f"{pid}/syscall")
    call = parse_syscall(data.decode(errors="replace")) if data else None
    if call is None:
        return None
    name, number = call
    link = proc.link_of(f"{pid}/fd/{number}") if number is not None else None
    if link is None:
        return name
    return redact(f"{name}({number}: {name_of(link, pid, sockets) or link})")
