"""How many ranks there should be, which are not there, and what that proves.

Absent evidence is never guilt: a rank of which nothing was collected may live on another
host. A rank is *missing* only where the evidence covers the place it should be in: the host's
own processes say how many ranks they were started as, and one is not among them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from whyhang.analyzer.facts import (
    MAX_RANKS,
    Fact,
    Group,
    LogLine,
    Process,
    Role,
    Trust,
    WorldSize,
    replace,
    whole,
)
from whyhang.analyzer.facts.stacks import main_thread
from whyhang.analyzer.job.launchers import LOCAL_SIZES, WORLD_SIZES
from whyhang.analyzer.job.records import Job, Member, MissingRank
from whyhang.analyzer.stacks.usercode import is_called_at_exit

LOOPBACK = {"localhost", "127.0.0.1", "::1", "127.0.1.1"}


def world_size(
    sizes: Iterable[WorldSize], processes: Iterable[Process], groups: Iterable[Group]
) -> tuple[int | None, str]:
    """Return the number of ranks and how it is known; the processes' own word goes first."""
    in_environment = Counter(size for process in processes if (size := _size(process)) is not None)
    sizes = tuple(sizes)
    told = Counter(fact.size for fact in sizes)
    # Ranks share the list of a group's members; one of 10,000 is gone through once, not by each.
    listed = {id(group.ranks): group.ranks for group in groups if not group.inferred}
    widest = max((max(ranks) + 1 for ranks in listed.values() if ranks), default=0)
    if in_environment:
        size, how = in_environment.most_common(1)[0][0], "WORLD_SIZE of the processes"
    elif told:
        size = told.most_common(1)[0][0]
        how = f"said in {next(fact.source.file for fact in sizes if fact.size == size)}"
    else:
        size, how = widest, "the highest rank in any process group"
    return (size, how) if 0 < size <= MAX_RANKS else (None, "")


def size_in(facts: Sequence[Fact]) -> int | None:
    """Return the number of ranks that these facts tell, if any do."""
    size, _ = world_size(
        [fact for fact in facts if isinstance(fact, WorldSize)],
        [fact for fact in facts if isinstance(fact, Process)],
        [fact for fact in facts if isinstance(fact, Group)],
    )
    return size


def _size(process: Process) -> int | None:
    values = (whole(process.environ.get(key)) for key in WORLD_SIZES)
    stated = next((size for size in values if size is not None), None)
    return stated if process.role is Role.RANK else None


def at_least(job: Job) -> int | None:
    """Return how many ranks the job has at least, where its output counts more than records name.

    Those that speak in a log are members of the job; the numbers are without a hole.
    """
    ranks = {m.rank for m in job.members if m.rank is not None and m.trust >= Trust.PREFIX}
    recorded = max((t.who.rank for t in job.tracks if t.who.rank is not None), default=-1)
    whole = len(ranks) > 1 and ranks == set(range(len(ranks)))
    return len(ranks) if whole and 0 <= recorded < len(ranks) - 1 else None


def missing_ranks(
    size: int | None,
    members: tuple[Member, ...],
    processes: Iterable[Process],
    *,
    all_on_host: bool,
) -> tuple[MissingRank, ...]:
    """List ranks that should run on a host whose processes were read, and do not.

    ``all_on_host``: every process of the host could be seen, and not those of a container only.
    """
    alive = {member.rank for member in members if is_alive(member)} - {None}
    missing: dict[int, MissingRank] = {}
    for process in processes:
        if process.role is not Role.RANK or process.dead:
            continue
        source = process.source
        host = process.environ.get("SLURMD_NODENAME") or process.who.host
        for rank, quote in _siblings(process, size, all_on_host=all_on_host):
            one = MissingRank(rank=rank, host=host, source=source, quote=quote)
            missing.setdefault(rank, one)
        for rank, quote in _beyond_slurm(process, size):
            one = MissingRank(rank=rank, source=source, quote=quote, beyond=True)
            missing.setdefault(rank, one)
    return tuple(missing[rank] for rank in sorted(missing.keys() - alive))


def is_alive(member: Member) -> bool:
    """Return whether a process was looked at and lived."""
    return any(not process.dead for process in member.processes[-1:])


def without_caught(
    lines: Iterable[LogLine], members: Sequence[Member], size: int | None
) -> Iterator[LogLine]:
    """Leave out exceptions of ranks that live on: somebody caught them, or an earlier job's log.

    A traceback that names no rank may be of any; where all ranks live, it ended none of them. An
    interpreter that only waits for its threads has come to the end of its program, in some way.
    """
    alive = {member.rank for member in members if is_alive(member) and not _is_ending(member)}
    everyone = bool(alive) and len(alive) >= (size or 0) and all(map(is_alive, members))
    for line in lines:
        lives = everyone if line.who.rank is None else line.who.rank in alive
        if line.raised is None or line.raised.thread or not lives:
            yield line
        elif line.raised.process:  # a child's, then: as without a thread, the rank goes on
            yield replace(line, raised=replace(line.raised, thread=line.raised.process))


def _is_ending(member: Member) -> bool:
    """Return whether the program is through: it waits for threads, or is in what runs at exit."""
    main = main_thread(member.dumps[-1]) if member.dumps else None
    if main is None:
        return False
    waits = (
        f.function == "_shutdown" and f.file.endswith("threading.py") for f in main.frames[-1:]
    )
    return any(waits) or is_called_at_exit(main.frames)


def _siblings(process: Process, size: int | None, *, all_on_host: bool) -> list[tuple[int, str]]:
    """List the ranks that were started on the same host as this one, and what says so."""
    environ = process.environ
    for key in LOCAL_SIZES:
        local_size = environ.get(key, "")
        rank, local_rank = process.who.rank, process.who.local_rank
        if local_size.isdecimal() and rank is not None and local_rank is not None:
            first = rank - local_rank
            size_here = min(int(local_size), MAX_RANKS)
            quote = f"{key}={local_size} on rank {rank} (local rank {local_rank})"
            return [(other, quote) for other in range(first, first + size_here)]
    if _numbered_by_slurm(process) and environ.get("SLURM_GTIDS"):
        node = environ.get("SLURMD_NODENAME") or process.who.host or "this node"
        quote = f"SLURM_GTIDS={environ['SLURM_GTIDS']} on {node}"
        tasks = environ["SLURM_GTIDS"].split(",")
        return [(int(task), quote) for task in tasks if task.isdecimal()]
    met_here = environ.get("MASTER_ADDR") in LOOPBACK and "SLURM_PROCID" not in environ
    if met_here and size and all_on_host:
        quote = f"WORLD_SIZE={size} MASTER_ADDR={environ['MASTER_ADDR']}"
        return [(other, quote) for other in range(size)]
    return []


def _numbered_by_slurm(process: Process) -> bool:
    """Return whether a process is the rank that Slurm numbered, and no other launcher's."""
    task = whole(process.environ.get("SLURM_PROCID"))
    return task is not None and process.who.rank == task


def _beyond_slurm(process: Process, size: int | None) -> list[tuple[int, str]]:
    """List ranks that cannot exist: WORLD_SIZE counts more than the Slurm step has tasks."""
    tasks = process.environ.get("SLURM_STEP_NUM_TASKS", "")
    size_set = process.environ.get("WORLD_SIZE", "")
    if not (tasks.isdecimal() and size_set.isdecimal() and _numbered_by_slurm(process)):
        return []
    if not size == int(size_set) > int(tasks):
        return []
    step = f"WORLD_SIZE={size_set}, but srun started {tasks} tasks (SLURM_STEP_NUM_TASKS={tasks})"
    return [(rank, step) for rank in range(int(tasks), int(size_set))]
