"""The rank processes of a job, found by what the environment of each process names.

A rank's environment is inherited by everything below it, and often it is set above it, in a
wrapper script. So the processes that name one rank form a small tree, and the rank is the
topmost Python process in it.
"""

from collections.abc import Iterable, Sequence

from whyhang.analyzer.facts import Gap, Who
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.words import gap


def peers_of(host: Host, seed: int) -> list[int]:
    """List all processes that name a rank of the job that ``seed`` names one of."""
    key = host.key(seed)
    if key is not None:
        same = [pid for pid in host.stats if host.key(pid) == key]
        return [*same, *_led_astray(host, seed, same)]
    agent = agent_of(host, seed)
    scope = host.stats if agent is None else host.descendants(agent)
    return [
        pid
        for pid in scope
        if host.key(pid) is None
        and _same_kind(host, pid, seed)
        and (agent is not None or _same_shell_loop(host, pid, seed))
    ]


def _led_astray(host: Host, seed: int, peers: Sequence[int]) -> list[int]:
    """List ranks of the same start that were given another address to meet at.

    They must be ranks that nobody else is: two jobs side by side both have a rank 0.
    """
    taken = {place.rank for pid in peers if (place := host.place(pid))}
    others: dict[tuple[str, ...], list[int]] = {}
    for pid in host.stats:
        key = host.key(pid)
        if key is not None and key != host.key(seed):
            others.setdefault(key, []).append(pid)
    astray: list[int] = []
    for group in others.values():
        ranks = {place.rank for pid in group if (place := host.place(pid))}
        if ranks.isdisjoint(taken) and all(_same_start(host, pid, seed) for pid in group):
            taken |= ranks
            astray += group
    return astray


def _same_start(host: Host, pid: int, other: int) -> bool:
    """Return whether two processes were started as ranks of one job, by one launcher or shell."""
    if not _same_kind(host, pid, other):
        return False
    agent = agent_of(host, pid)
    together = agent is not None and agent == agent_of(host, other)
    same_script = host.script(pid) == host.script(other)
    return (together and same_script) or _same_shell_loop(host, pid, other)


def _same_kind(host: Host, pid: int, other: int) -> bool:
    """Return whether two processes name ranks in one way, of as many."""
    mine, theirs = host.place(pid), host.place(other)
    if mine is None or theirs is None:
        return False
    return (mine.by, mine.world_size) == (theirs.by, theirs.world_size)


def _same_shell_loop(host: Host, pid: int, other: int) -> bool:
    """Return whether two processes with no launcher were started from one session, alike."""
    session = host.stats[pid].session == host.stats[other].session
    return session and host.script(pid) == host.script(other)


def rank_processes(host: Host, peers: Sequence[int]) -> list[int]:
    """Pick the process that is the rank out of each tree of processes that name one rank."""
    trees: dict[tuple[object, ...], list[int]] = {}
    for pid in peers:
        identity = host.identity(pid)
        if identity is not None:
            trees.setdefault(identity, []).append(pid)
    ranks = [
        _rank_below(host, top, set(tree))
        for tree in trees.values()
        for top in host.topmost(tree)
        if host.own_role(top) is None
    ]
    return [pid for pid in ranks if not launches(host, pid)]


def strays(host: Host, peers: Sequence[int]) -> list[int]:
    """List the helpers whose rank is gone."""
    return [pid for pid in host.topmost(peers) if host.own_role(pid) is not None]


def _rank_below(host: Host, top: int, tree: set[int]) -> int:
    below = [pid for pid in host.python_below(top) if pid in tree]
    if not host.is_python(top):
        roots = host.topmost(below)
        if not roots and not host.uses_torch(top):  # a wrapper around a program in C or Fortran
            programs = [pid for pid in host.descendants(top) if pid in tree]
            return next((pid for pid in programs if host.uses_torch(pid)), top)
        with_torch = (pid for pid in roots if len(roots) > 1 and host.uses_torch(pid))
        return next(with_torch, roots[0] if roots else top)
    started = [pid for pid in below if not host.is_mp_child(pid)]
    if started and not host.uses_torch(top):  # a wrapper in Python, or a rank that is importing
        return next((pid for pid in started if host.uses_torch(pid)), top)
    return top


def launches(host: Host, pid: int) -> bool:
    """Return whether a process that names a rank starts ranks itself.

    Kubernetes operators give RANK, the number of the pod, to the launcher inside it; only what
    that launcher starts has a LOCAL_RANK.
    """
    place = host.place(pid)
    if place is None or place.by != "env" or place.local_rank is not None:
        return False
    below = (host.place(child) for child in host.descendants(pid))
    return any(p and p.by in {"env", "torchrun"} and p.local_rank is not None for p in below)


def agent_of(host: Host, rank: int) -> int | None:
    """Return the process that started a rank: the first above it that does not name the rank.

    It must be a known launcher or a Python program; a shell is none.
    """
    identity = host.identity(rank)
    for pid in host.ancestors(rank):
        if host.launcher(pid) is None and host.identity(pid) == identity:
            continue  # a wrapper around the rank
        starts = host.launcher(pid) is not None or host.is_python(pid)
        return pid if starts else None
    return None


def one_per_rank(host: Host, ranks: Iterable[int], seed: int) -> tuple[list[int], list[Gap]]:
    """Leave out processes that claim a rank of this job and belong to another start of it."""
    groups: dict[tuple[int | None, int | None], list[int]] = {}
    listed = list(ranks)
    complete = _complete(host, listed, seed)
    gaps: list[Gap] = []
    for pid in listed:
        place = host.place(pid)
        if complete and pid not in complete:
            rank = None if place is None else place.rank
            same = next((p for p in complete if (o := host.place(p)) and o.rank == rank), seed)
            gaps.append(gap("earlier-start", Who(pid=pid), pid=pid, rank=rank, chosen=same))
        elif place is not None:
            groups.setdefault((place.rank, place.local_rank), []).append(pid)
    kept: list[int] = []
    for (rank, _), group in groups.items():
        chosen = _choose(host, group, seed)
        kept += chosen
        gaps += [
            gap("earlier-start", Who(pid=pid), pid=pid, rank=rank, chosen=chosen[0])
            for pid in group
            if pid not in chosen
        ]
    return kept, gaps


def _complete(host: Host, ranks: Iterable[int], seed: int) -> list[int]:
    """Return the ranks that the launcher of one has started, if these are all that it counts.

    Nobody else is of their job then, whatever rank an orphan of another start claims to be.
    """
    home, place = agent_of(host, seed), host.place(seed)
    if home is None or host.launcher(home) is None or place is None or not place.world_size:
        return []
    inside = [pid for pid in ranks if agent_of(host, pid) == home]
    numbers = {its.rank for pid in inside if (its := host.place(pid))}
    return inside if numbers == set(range(place.world_size)) else []


def _choose(host: Host, group: list[int], seed: int) -> list[int]:
    if len(group) == 1:
        return group
    home = agent_of(host, seed)
    inside = [pid for pid in group if home is not None and agent_of(host, pid) == home]
    if inside:
        return inside
    with_torch = [pid for pid in group if host.uses_torch(pid)] or group
    if host.key(seed) is not None:
        return with_torch  # one rendezvous, one rank, two processes: that is a finding
    begun = host.stats[seed].started
    return [min(with_torch, key=lambda pid: abs(host.stats[pid].started - begun))]
