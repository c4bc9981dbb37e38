"""Which processes of a host belong to the job that is meant, by what a selector says."""

import os
from collections.abc import Iterable

from whyhang.collectors.hosts.reach import Selector
from whyhang.collectors.live.job.host import Host


def seeds(host: Host, selector: Selector, pids: Iterable[int] = ()) -> list[int]:
    """Return processes that are of the job, ranks before agents; one may stand for many."""
    known = [pid for pid in pids if pid in host.stats]
    if known:
        return known
    own = {os.getpid(), *host.ancestors(os.getpid())}
    candidates = [pid for pid, stat in host.stats.items() if not stat.kernel and pid not in own]
    host.prefetch(candidates)
    fitting = [pid for pid in candidates if _fits(host, pid, selector)]
    ranks = [pid for pid in fitting if host.place(pid) is not None and host.is_python(pid)]
    launchers = [pid for pid in fitting if host.launcher(pid) is not None]
    if selector.environ and not ranks and not launchers:
        return [pid for pid in fitting if host.is_python(pid)]
    return [*ranks, *launchers]


def job_name(host: Host, pid: int) -> str:
    """Name the job of a process so that its ranks on other hosts give the same name."""
    key = host.key(pid)
    return " ".join(filter(None, key)) if key is not None else host.script(pid)


def _fits(host: Host, pid: int, selector: Selector) -> bool:
    if not selector.environ and not selector.words:
        return True
    if selector.environ:
        environ = host.environ(pid)
        if all(environ.get(name) == value for name, value in selector.environ):
            return True
    if not selector.words:
        return False
    line = " ".join(host.arguments(pid))
    return host.launcher(pid) is not None and all(word in line for word in selector.words)


def selector_of(host: Host, pid: int) -> Selector:
    """Return what the processes of a rank's job have in common on every host."""
    environ = host.environ(pid)
    key = host.key(pid)
    names = _NAMES.get(key[0], ()) if key is not None else ()
    return Selector(environ=tuple((name, environ[name]) for name in names if environ.get(name)))


_NAMES = {
    "rendezvous": ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"),
    "pmix": ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
    "pals": ("PALS_APID",),
    "slurm": ("SLURM_JOB_ID", "SLURM_STEP_ID"),
}
"""By kind of job (see ``job_key``), the variables that all its processes share."""
