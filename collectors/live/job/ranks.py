"""The rank processes of a job, found by what the environment of each process names.

A rank's environment is inherited by everything below it, and often it is set above it, in a
wrapper script. So the processes that name one rank form a small tree, and the rank is the
topmost Python process in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from whyhang.analyzer.model import Gap, Role, Who
from whyhang.collectors.live.job.host import Host

LOCAL_SIZES = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
"""Variables that say how many ranks of the job were started on this host, or by this agent."""


def peers_of(host: Host, seed: int) -> list[int]:
    """List all processes that name a rank of the job that ``seed`` names one of."""
    key = host.key(seed)
    if key is not None:
        same = [pid for pid in host.stats if host.key(pid) == key]
        return [*same, *_led_astray(host, seed, same)]
    place, agent = host.place(seed), agent_of(host, seed)
    scope = host.stats if agent is None else host.descendants(agent)
    found: list[int] = []
    for pid in scope:
        other = host.place(pid)
        if other is None or place is None or host.key(pid) is not None:
            continue
        same_loop = agent is not None or _same_shell_loop(host, pid, seed)
        if same_loop and (other.by, other.world_size) == (place.by, place.world_size):
            found.append(pid)
    return found


def _led_astray(host: Host, seed: int, peers: Sequence[int]) -> list[int]:
    """List ranks of the same start that were given another address to meet at.

    They must be ranks that nobody else is: two jobs side by side both have a rank 0.
    """
    taken = {place.rank for pid in peers if (place := host.place(pid))}
    found: dict[tuple[str, ...] | None, list[int]] = {}
    for pid in host.stats:
        if host.place(pid) is not None and host.key(pid) not in {None, host.key(seed)}:
            found.setdefault(host.key(pid), []).append(pid)
    astray: list[int] = []
    for group in found.values():
        ranks = {place.rank for pid in group if (place := host.place(pid))}
        if not ranks & taken and all(same_start(host, pid, seed) for pid in group):
            taken |= ranks
            astray += group
    return astray


def same_start(host: Host, pid: int, other: int) -> bool:
    """Tell whether two processes were started as ranks of one job, by one launcher or shell."""
    mine, theirs = host.place(pid), host.place(other)
    if mine is None or theirs is None:
        return False
    if (mine.by, mine.world_size) != (theirs.by, theirs.world_size):
        return False
    agent = agent_of(host, pid)
    together = agent is not None and agent == agent_of(host, other)
    return (together and host.script(pid) == host.script(other)) or _same_shell_loop(
        host, pid, other
    )


def _same_shell_loop(host: Host, pid: int, seed: int) -> bool:
    """Tell whether two processes with no launcher were started from one session, alike."""
    session = host.stats[pid].session == host.stats[seed].session
    return session and host.script(pid) == host.script(seed)


def rank_processes(host: Host, peers: Sequence[int]) -> list[int]:
    """Pick the process that is the rank out of each tree of processes that name one rank."""
    trees: dict[tuple[object, ...], list[int]] = {}
    for pid in peers:
        identity = host.identity(pid)
        if identity is not None:
            trees.setdefault(identity, []).append(pid)
    found: list[int] = []
    for tree in trees.values():
        members = set(tree)
        tops = [pid for pid in tree if not members.intersection(host.ancestors(pid))]
        found += [_rank_below(host, top, members) for top in tops if not _is_stray(host, top)]
    return [pid for pid in found if not launches(host, pid)]


def _is_stray(host: Host, pid: int) -> bool:
    """Tell whether a process without a rank above it is a helper that outlived its rank."""
    return host.own_role(pid) is not None


def strays(host: Host, peers: Iterable[int]) -> list[int]:
    """List the helpers whose rank is gone."""
    every = set(peers)
    return [
        pid for pid in every if _is_stray(host, pid) and not every.intersection(host.ancestors(pid))
    ]


def _rank_below(host: Host, top: int, tree: set[int]) -> int:
    below = [pid for pid in host.descendants(top) if pid in tree and host.is_python(pid)]
    if not host.is_python(top):
        roots = [pid for pid in below if not set(below).intersection(host.ancestors(pid))]
        with_torch = (pid for pid in roots if len(roots) > 1 and host.uses_torch(pid))
        return next(with_torch, roots[0] if roots else top)
    started = [pid for pid in below if not host.is_mp_child(pid)]
    if started and not host.uses_torch(top):  # a wrapper in Python, or a rank that is importing
        return next((pid for pid in started if host.uses_torch(pid)), top)
    return top


def launches(host: Host, pid: int) -> bool:
    """Tell whether a process that names a rank starts ranks itself.

    Kubernetes operators give RANK, the number of the pod, to the launcher inside it; only what
    that launcher starts has a LOCAL_RANK.
    """
    place = host.place(pid)
    if place is None or place.by != "env" or place.local_rank is not None:
        return False
    below = (host.place(child) for child in host.descendants(pid))
    return any(
        p is not None and p.by in {"env", "torchrun"} and p.local_rank is not None for p in below
    )


def agent_of(host: Host, rank: int) -> int | None:
    """Give the process that started a rank: the first above it that does not name the rank.

    It must be a known launcher or a Python program; a shell is none.
    """
    identity = host.identity(rank)
    for pid in host.ancestors(rank):
        if host.launcher(pid) is None and host.identity(pid) == identity:
            continue  # a wrapper around the rank
        starts = host.launcher(pid) is not None or host.is_python(pid)
        return pid if starts else None
    return None


def one_per_rank(host: Host, ranks: Sequence[int], seed: int) -> tuple[list[int], list[Gap]]:
    """Leave out processes that claim a rank of this job and belong to another start of it."""
    groups: dict[tuple[int | None, int | None], list[int]] = {}
    for pid in ranks:
        place = host.place(pid)
        if place is not None:
            groups.setdefault((place.rank, place.local_rank), []).append(pid)
    home = agent_of(host, seed)
    kept: list[int] = []
    gaps: list[Gap] = []
    for group in groups.values():
        chosen = _choose(host, group, seed, home)
        kept += chosen
        gaps += [_left_out(host, pid, chosen[0]) for pid in group if pid not in chosen]
    return kept, [gap for gap in gaps if gap is not None]


def _choose(host: Host, group: list[int], seed: int, home: int | None) -> list[int]:
    if len(group) == 1:
        return group
    if home is not None:
        inside = [pid for pid in group if agent_of(host, pid) == home]
        if inside:
            return inside
    with_torch = [pid for pid in group if host.uses_torch(pid)] or group
    if host.key(seed) is not None:
        return with_torch  # one rendezvous, one rank, two processes: that is a finding
    begun = host.stats[seed].started
    return [min(with_torch, key=lambda pid: abs(host.stats[pid].started - begun))]


def _left_out(host: Host, pid: int, chosen: int) -> Gap:
    place = host.place(pid)
    rank = place.rank if place is not None else None
    return Gap(
        what=f"process {pid}",
        why=f"it names rank {rank} of the same job as process {chosen}, but was started apart "
        "from it, so it was left out",
        cost="if it is left over from an earlier start it may hold the port or the GPU",
        remedy=f"look at it with whyhang {pid}, and end it if it is a leftover",
        who=Who(pid=pid),
    )


def local_size(host: Host, ranks: Iterable[int]) -> int | None:
    """Say how many ranks there should be on this host, by the environment of one of them."""
    for pid in ranks:
        environ = host.environ(pid)
        for name in LOCAL_SIZES:
            if environ.get(name, "").isdecimal():
                return int(environ[name])
    return None


def helpers_of(host: Host, rank: int, ranks: set[int]) -> list[tuple[int, Role]]:
    """List what runs below a rank and belongs to it, with the role of each."""
    found: list[tuple[int, Role]] = []
    own = host.identity(rank)
    for pid in host.descendants(rank):
        foreign = pid in ranks or any(
            parent in ranks and parent != rank for parent in _between(host, pid, rank)
        )
        identity = host.identity(pid)
        if foreign or host.stats[pid].state in {"Z", "X"}:
            continue
        if identity is not None and identity != own and own is not None:
            continue  # a job of its own that the rank started
        found.append((pid, host.helper_role(pid, rank)))
    return found


def _between(host: Host, pid: int, top: int) -> Iterable[int]:
    for parent in host.ancestors(pid):
        if parent == top:
            return
        yield parent
