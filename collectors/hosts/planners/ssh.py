"""Hosts that are named, or read off a job, by ssh.

No password or passphrase is ever asked for, and no host key accepted that is not known already.
What ``~/.ssh/config`` says (user, port, ProxyJump) counts, but for that.
"""

import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.facts import counted
from whyhang.collectors.hosts.reach import Reach, ReachedHost

CONNECT = 5
"""Seconds that ssh tries to connect."""

MOST = 20_000

_NAME = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_-]*@)?[A-Za-z0-9_:][A-Za-z0-9._:-]*")
_OPTIONS = (
    *("BatchMode=yes", "StrictHostKeyChecking=yes", "LogLevel=ERROR", "RequestTTY=no"),
    *("ServerAliveInterval=5", "ServerAliveCountMax=2", "ClearAllForwardings=yes"),
    *("ForwardAgent=no", "ForwardX11=no", "PermitLocalCommand=no", "RemoteCommand=none"),
)


def host(name: str, *, connect: int = CONNECT) -> ReachedHost:
    """Return how to run words on a host. Raises ``ValueError`` for what is no name."""
    if not is_name(name):
        raise ValueError(f"{name!r} is no name of a host")
    options = [word for each in (*_OPTIONS, f"ConnectTimeout={connect}") for word in ("-o", each)]
    return ReachedHost(name=name, argv=("ssh", *options, "--", name), quoted=True)


def reach(text: str) -> Reach:
    """Plan for ``--hosts``: a node set, ``@group``, hostfile, or ``-``. Raises ``TargetError``."""
    names = _names(text)
    return Reach(
        kind="ssh", sentence=f"{counted(len(names), 'host')} by ssh", hosts=tuple(map(host, names))
    )


def hostfile(lines: Iterable[str]) -> list[str]:
    """Read the names of a hostfile of MPI, DeepSpeed or torchrun: the first word of each line."""
    words = (line.partition("#")[0].split() for line in lines)
    return list(dict.fromkeys(word[0].partition(":")[0] for word in words if word))


def _names(text: str) -> list[str]:
    if text == "-":
        listed = hostfile(sys.stdin if sys.stdin is not None else ())
    elif Path(text).is_file():
        listed = hostfile(Path(text).read_text(errors="replace").splitlines())
    else:
        listed = [text]
    names = list(dict.fromkeys(name for each in listed for name in _expanded(each)))
    wrong = [f"{name!r} is no name of a host" for name in names if not is_name(name)]
    if wrong or not names:
        where = "standard input" if text == "-" else text
        why = [*wrong, "no host is named"][0]
        raise TargetError(f"{where}: {why}", "Write n[1-64], n1,n2, @group, a hostfile, or -.")
    if len(names) > MOST:
        raise TargetError(f"{text} are {len(names):,} hosts", f"At most {MOST:,} can be reached.")
    return names


def _expanded(text: str) -> Sequence[str]:
    from ClusterShell.NodeSet import NodeSet, NodeSetException  # noqa: PLC0415 - not on far sides
    from ClusterShell.NodeUtils import GroupResolverError, GroupSourceError  # noqa: PLC0415

    try:
        return list(NodeSet(text))
    except (NodeSetException, GroupResolverError, GroupSourceError) as error:
        raise TargetError(
            f"{text} is no set of hosts: {error}",
            "Write n[1-64], n1,n2, @group, the name of a hostfile, or -.",
        ) from error


def is_name(name: str) -> bool:
    """Return whether it can only be a name or an address: no option, no blank."""
    return len(name) <= 255 and _NAME.fullmatch(name) is not None
