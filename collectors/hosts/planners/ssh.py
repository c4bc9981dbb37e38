"""Hosts that are named, or read off a job, by ssh.

No password or passphrase is ever asked for, and no host key accepted that is not known already.
What ``~/.ssh/config`` says (user, port, ProxyJump) counts, but for that.
"""

import contextlib
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from whyhang.analyzer.errors import TargetError
from whyhang.collectors.hosts.reach import Reach, ReachedHost, Selector

CONNECT = 5
"""Seconds that ssh tries to connect."""

MOST = 20_000

_OPTIONS = (
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "RequestTTY=no",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=2",
    "LogLevel=ERROR",
)


def host(name: str, *, connect: int = CONNECT) -> ReachedHost:
    """Return how to run words on a host. Raises ``ValueError`` for what is no name."""
    if not _is_name(name):
        raise ValueError(f"{name!r} is no name of a host")
    options = [word for each in (*_OPTIONS, f"ConnectTimeout={connect}") for word in ("-o", each)]
    return ReachedHost(name=name, argv=("ssh", *options, "--", name), quoted=True)


def reach(text: str) -> Reach:
    """Plan for ``--hosts``: a node set, ``@group``, hostfile, or ``-``. Raises ``TargetError``."""
    names = _names(text)
    count = len(names)
    return Reach(
        kind="ssh",
        sentence=f"{count} host{'s' * (count != 1)} by ssh",
        hosts=tuple(map(host, names)),
        selector=Selector(),
    )


def hostfile(lines: Iterable[str]) -> list[str]:
    """Read the names of a hostfile of MPI, DeepSpeed or torchrun: the first word of each line."""
    words = (line.partition("#")[0].split() for line in lines)
    return list(dict.fromkeys(word[0].partition(":")[0] for word in words if word))


def _names(text: str) -> list[str]:
    if text == "-":
        names = hostfile(sys.stdin if sys.stdin is not None else ())
    elif Path(text).is_file():
        names = hostfile(Path(text).read_text(errors="replace").splitlines())
    else:
        return _checked(_expanded(text), text)
    expanded = [each for name in names for each in _expanded(name)]
    return _checked(expanded, "standard input" if text == "-" else text)


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


def _checked(names: Sequence[str], text: str) -> list[str]:
    unique = list(dict.fromkeys(names))
    wrong = next((name for name in unique if not _is_name(name)), None)
    if wrong is not None or not unique:
        why = f"{wrong!r} is no name of a host" if wrong is not None else "no host is named"
        raise TargetError(f"{text}: {why}", "Write n[1-64], n1,n2, @group, a hostfile, or -.")
    if len(unique) > MOST:
        raise TargetError(f"{text} are {len(unique):,} hosts", f"At most {MOST:,} can be reached.")
    return unique


def _is_name(name: str) -> bool:
    """Return whether it can only be a name or an address: no option, no blank."""
    with contextlib.suppress(ValueError):
        name.encode("ascii")
        user, at, bare = name.rpartition("@")
        plain = bare.replace(".", "").replace("-", "").replace("_", "").replace(":", "")
        good = plain.isalnum() and bare[0] not in "-." and len(name) <= 255
        return good and (not at or user.replace("-", "").replace("_", "").isalnum())
    return False
