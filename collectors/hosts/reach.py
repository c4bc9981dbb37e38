"""What a planner says: the hosts of a job, how words are run on each, and whom to look at there.

A planner is one file of ``planners/`` for each way to reach hosts (``ssh.py``, ...): a function of
what was given, an option or a local process, that starts nothing on any of them.
"""

import contextlib
import os
import shlex
import threading
import time
from collections.abc import Callable, Iterable

from whyhang.analyzer.facts import Gap, Record
from whyhang.collectors.live.job.host import Host

_NAMES = {
    "rendezvous": ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"),
    "pmix": ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
    "pals": ("PALS_APID",),
    "slurm": ("SLURM_JOB_ID", "SLURM_STEP_ID"),
}
"""By kind of job (see ``job_key``), the variables that all its processes share."""

NAMING = 1.0
"""Seconds to resolve all names together."""


class Selector(Record):
    """How the far side tells the job's processes from others of its host.

    ``environ``: variables that each of them has in its environment, as at exec, with these
    values; all must agree. ``words``: an agent or launcher that has no such environment has all
    of these in its command line. With neither, every job that this user may look at on the host
    is meant (that is a container, or ``--hosts`` without a PID), and where they are several, the
    one with the most processes on all hosts.
    """

    environ: tuple[tuple[str, str], ...] = ()
    words: tuple[str, ...] = ()

    def seeds(self, host: Host, pids: Iterable[int] = ()) -> list[int]:
        """Return processes of the job here, ranks before agents; one may stand for many."""
        if known := [pid for pid in pids if pid in host.stats]:
            return known
        own = {os.getpid(), *host.ancestors(os.getpid())}
        candidates = [pid for pid, stat in host.stats.items() if not stat.kernel and pid not in own]
        host.prefetch(candidates)
        fitting = [pid for pid in candidates if self._fits(host, pid)]
        ranks = [pid for pid in fitting if host.place(pid) is not None and host.is_python(pid)]
        launchers = [pid for pid in fitting if host.launcher(pid) is not None]
        if self.environ and not ranks and not launchers:
            return [pid for pid in fitting if host.is_python(pid)]
        return [*ranks, *launchers]

    def _fits(self, host: Host, pid: int) -> bool:
        if self.environ:
            environ = host.environ(pid)
            if all(environ.get(name) == value for name, value in self.environ):
                return True
        if not self.words:
            return not self.environ
        line = " ".join(host.arguments(pid))
        return host.launcher(pid) is not None and all(word in line for word in self.words)


def selector_of(host: Host, pid: int) -> Selector:
    """Return what the processes of a rank's job have in common on every host."""
    environ = host.environ(pid)
    key = host.key(pid)
    names = _NAMES.get(key[0], ()) if key is not None else ()
    return Selector(environ=tuple((name, environ[name]) for name in names if environ.get(name)))


class ReachedHost(Record):
    """A host, and the command that, run here, runs there the words that are appended to it.

    The command connects standard input and output. An empty one runs the words right here.
    ``quoted``: the words pass through a shell there (ssh), and are quoted for it. ``pids`` are
    processes of the job there where these are known; they win over the selector.
    """

    name: str
    argv: tuple[str, ...] = ()
    quoted: bool = False
    pids: tuple[int, ...] = ()

    def command(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """Return the whole command line that runs ``words`` there."""
        return (*self.argv, *(map(shlex.quote, words) if self.quoted else words))


class Reach(Record):
    """Where a job runs and how to get there.

    ``kind`` names the way ("ssh", "slurm", ...), ``sentence`` says it in one line for the person:
    "2 nodes of Slurm job 4711 by srun". ``gaps`` are hosts or ranks that cannot be reached.
    ``together`` is one command that runs the words on all ``hosts`` at once, one task on each, with
    standard input given to every task and the lines of all on standard output; each far side then
    says its own name (``WHYHANG_HOST``, ``SLURMD_NODENAME``, or what the host calls itself).
    ``patience`` is how many seconds a host has for its first sign of life. ``grows``: hosts that
    are reached may know of others; ``count`` is of how many the job is, where that is known.
    ``printed`` is what the scheduler says of the job, as its tools printed it: evidence, by the
    name of a file.
    """

    kind: str
    sentence: str
    hosts: tuple[ReachedHost, ...]
    selector: Selector = Selector()
    gaps: tuple[Gap, ...] = ()
    together: tuple[str, ...] = ()
    patience: float = 8.0
    grows: bool = False
    count: int | None = None
    printed: tuple[tuple[str, bytes], ...] = ()


class KnownHosts(Record):
    """What is known here of the other hosts of a job, by name or address; each may know more.

    ``sentence`` names the job, ``count`` says on how many hosts it runs, this one included, where
    that is known. ``pid`` is a process of it here. ``words`` are on the command line of each of its
    agents.
    """

    sentence: str
    names: tuple[str, ...]
    count: int | None
    pid: int
    words: tuple[str, ...] = ()


def resolved(names: Iterable[str], how: Callable[[str], str]) -> dict[str, str]:
    """Return what ``how`` gives for names of hosts, asked for all beside each other.

    A name server that does not answer costs a second.
    """
    answers: dict[str, str] = {}

    def ask(name: str) -> None:
        with contextlib.suppress(OSError):
            answers[name] = how(name)

    threads = [threading.Thread(target=ask, args=(name,), daemon=True) for name in names]
    for thread in threads:
        thread.start()
    until = time.monotonic() + NAMING
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return dict(answers)
