"""The hosts of an MPI job, from the command lines of what started it.

Open MPI's mpirun and PRRTE's prterun start a daemon on each host (``orted``, ``prted``) by ssh, and
so does MPICH's and Intel's Hydra (``hydra_pmi_proxy``). So the host of mpirun has an ssh to each of
the others, with its name; a daemon has the address of mpirun on its command line. Where mpirun
started nothing yet, its hostfile and ``--host`` say what it was given.
"""

import posixpath
import re
from collections.abc import Iterator

from whyhang.collectors.hosts.planners.ssh import hostfile
from whyhang.collectors.hosts.reach import KnownHosts
from whyhang.collectors.live.job.environment import options
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import HostJob

_HEADS = {"mpirun", "mpiexec", "orterun", "prterun", "mpiexec.hydra", "mpirun.openmpi"}
_HEADS |= {"mpiexec.openmpi", "mpiexec.mpich"}
_REMOTE = {"ssh", "rsh"}
_ALONE = "46AaCfGgKkMNnqsTtVvXxYy"  # options of ssh(1) that take no value
_FILES = ("--hostfile", "-hostfile", "--machinefile", "-machinefile", "--default-hostfile", "-f")
_LISTS = ("--host", "-host", "-H", "-hosts", "--hosts")
_HEAD_URI = re.compile(r"tcp6?://([\d.,]+|\[[^\]]+\]):\d+")
_CONTROL_PORT = re.compile(r"--control-port[= ](\S+):\d+")


def known(host: Host, job: HostJob) -> KnownHosts | None:
    """Return the hosts that can be known here; None where that is this one alone, or no MPI."""
    members = [member.pid for member in job.members]
    above = dict.fromkeys([*members, *(pid for one in members for pid in host.ancestors(one))])
    launchers = [pid for pid in above if host.launcher(pid) == "mpirun"]
    if not launchers:
        return None
    heads = [pid for pid in launchers if _program(host, pid) in _HEADS]
    names = dict.fromkeys(name for pid in heads for name in _of_head(host, pid))
    if not names:
        names = dict.fromkeys(name for pid in launchers for name in _of_daemon(host, pid))
    if not names:
        return None
    head = heads[0] if heads else launchers[0]
    return KnownHosts(
        sentence=f"the job of {_program(host, head)} {head}",
        names=tuple(names),
        count=None,
        pid=members[0],
    )


def _program(host: Host, pid: int) -> str:
    return posixpath.basename((host.arguments(pid) or ("",))[0])


def _of_head(host: Host, pid: int) -> Iterator[str]:
    """Yield the hosts to which mpirun has an ssh; where there is none, those it was given."""
    started = [name for child in host.descendants(pid) if (name := _ssh_to(host.arguments(child)))]
    if started:
        yield from started
        return
    arguments = host.arguments(pid)
    for text in options(arguments, _LISTS):
        yield from (part.partition(":")[0] for part in text.split(",") if part)
    for path in options(arguments, _FILES):
        content = host.files.read(host.proc.path_for(pid, path), most=1 << 20)
        yield from hostfile(content.data.decode(errors="replace").splitlines())


def _ssh_to(arguments: tuple[str, ...]) -> str | None:
    """Return the host on a command line of ssh."""
    if not arguments or posixpath.basename(arguments[0]) not in _REMOTE:
        return None
    rest = iter(arguments[1:])
    for word in rest:
        if word == "--":
            return next(rest, None)
        if not word.startswith("-"):
            return word
        if len(word) == 2 and word[1] not in _ALONE:
            next(rest, None)
    return None


def _of_daemon(host: Host, pid: int) -> Iterator[str]:
    """Yield the address of mpirun, of which its daemons have several to choose from."""
    line = " ".join(host.arguments(pid))
    if match := _HEAD_URI.search(line):
        yield match[1].strip("[]").partition(",")[0]
    if match := _CONTROL_PORT.search(line):
        yield match[1]
