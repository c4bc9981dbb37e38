"""The start-up barrier in the store counts who has come, and the count is not the world size."""

from collections.abc import Iterable, Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import LogLine
from whyhang.analyzer.queries import Case, Hit, Signature

TIMED_OUT = (
    r"Timed out initializing process group in store based barrier on rank:? "
    r"(?P<waiter>\d+), for key: (?P<key>\S+) \(world_size=(?P<world>\d+), "
    r"(?:worker_count|num_workers_joined)=(?P<joined>\d+)"
)
WAITING = (
    r"Waiting in store based barrier to initialize process group for (?:\d+ "
    r"secondsrank|rank): (?P<waiter>\d+), key: (?P<key>\S+) \(world_size=(?P<world>\d+), "
    r"(?:worker_count|num_workers_joined)=(?P<joined>\d+)"
)
COMPLETED = r"Completed store-based barrier for key:"
TIMED_OUT_LINES = (
    (
        "RuntimeError: Timed out initializing process group in store based barrier on rank: "
        "0, for key: store_based_barrier_key:1 (world_size=4, worker_count=3, "
        "timeout=0:30:00)"
    ),
    (
        "torch.distributed.DistStoreError: Timed out initializing process group in store "
        "based barrier on rank 1, for key: store_based_barrier_key:2 (world_size=8, "
        "num_workers_joined=7, timeout=0:10:00 error=wait timeout after 600000ms, keys: "
        "/store_based_barrier_key:2:last_worker)"
    ),
    (
        "RuntimeError: Timed out initializing process group in store based barrier on rank: "
        "0, for key: store_based_barrier_key:1 (world_size=2, worker_count=16, "
        "timeout=0:30:00)"
    ),
    (
        "torch.distributed.DistStoreError: Timed out initializing process group in store "
        "based barrier on rank 3, for key: store_based_barrier_key:1 (world_size=4, "
        "num_workers_joined=6, timeout=0:10:00 error=wait timeout after 600000ms, keys: "
        "/store_based_barrier_key:1:last_worker)"
    ),
)
WAITING_LINES = (
    (
        "Waiting in store based barrier to initialize process group for rank: 0, key: "
        "store_based_barrier_key:1 (world_size=4, worker_count=8, timeout=0:30:00)"
    ),
    (
        "Waiting in store based barrier to initialize process group for rank: 0, key: "
        "store_based_barrier_key:1 (world_size=4, worker_count=3, timeout=0:30:00)"
    ),
    (
        "INFO:torch.distributed.distributed_c10d:Waiting in store based barrier to "
        "initialize process group for 10 secondsrank: 1, key: store_based_barrier_key:1 "
        "(world_size=2, num_workers_joined=1, timeout=0:30:00)"
    ),
)
OTHER_LINES = (
    "Rank 0: Completed store-based barrier for key:store_based_barrier_key:1 with 4 nodes.",
)
MAX_QUOTES = 6


def still_waiting(case: Case) -> Iterable[Hit]:
    return () if case.job.lines_with((COMPLETED,)) else _barrier(case, WAITING)


INCOMPLETE = Signature(
    id="store-barrier-incomplete",
    story="""\
The store barrier at the end of group creation did not see all ranks.

Up to torch 2.0 every new group ends with it, later only with TORCH_DIST_INIT_BARRIER=1. The
rank that prints it has arrived. Which ranks are missing is not said: they are those without a
'Completed store-based barrier' and without this line. If more ranks joined than there are, see
store-barrier-overfull.
""",
    category="init-missing-rank",
    level="wait",
    title="Only {joined} of {world} ranks reached the start-up barrier{not}",
    when=lambda case: _barrier(case, TIMED_OUT),
    patterns=(TIMED_OUT,),
    means=(
        "Each rank counts itself in the store when a group is created. {joined} of {world} did "
        "so in time; the rest are missing or stuck earlier."
    ),
    confidence="likely",
    remedies=(
        (
            "Find the ranks that never reached this point: not started, failed on import, or "
            "busy before init_process_group."
        ),
        "Call new_group on all ranks in the same order.",
    ),
    next_steps=(
        (
            "Look for 'Added key: store_based_barrier_key' in each rank's log; who lacks it "
            "never came"
        ),
    ),
    links=("https://pytorch.org/docs/stable/distributed.html",),
    matches=TIMED_OUT_LINES,
    misses=OTHER_LINES,
)

OVERFULL = Signature(
    id="store-barrier-overfull",
    story="""\
The store barrier counts more processes than there should be ranks.

It waits for the count to be exactly WORLD_SIZE and so never ends. Either processes share a rank
(each of 8 processes started with WORLD_SIZE=2, a script launched twice against one master), or
the store still holds the count of an earlier attempt (restart with a store that survived).
""",
    category="init-duplicate-rank",
    level="setup",
    title="More processes joined the start-up barrier than the job has ranks{not}",
    when=lambda case: _barrier(case, TIMED_OUT, WAITING, over=True),
    patterns=(TIMED_OUT, WAITING),
    means=(
        "The counter in the store is higher than WORLD_SIZE. So several processes use the same "
        "rank, WORLD_SIZE is too small, or an earlier attempt left its count in a store that "
        "lived on."
    ),
    confidence="likely",
    remedies=(
        "Check RANK and WORLD_SIZE of every process: each rank exactly once.",
        (
            "Start with a fresh store: another MASTER_PORT or rendezvous id, and no left-over "
            "processes of the last attempt."
        ),
    ),
    next_steps=(
        "tr '\\0' '\\n' < /proc/PID/environ | grep -E 'RANK|WORLD_SIZE|MASTER'  # on every process",
    ),
    links=("https://pytorch.org/docs/stable/distributed.html",),
    matches=(*TIMED_OUT_LINES, *WAITING_LINES),
    misses=OTHER_LINES,
)

STILL_WAITING = Signature(
    id="store-barrier-waiting",
    story="""\
A rank reports, every ten seconds, that it waits for others while a group is created.

A few such lines are normal while slow nodes load. If the log ends with them, the ranks that
never joined are the question. The rank that prints it has arrived.
""",
    category="init-missing-rank",
    level="wait",
    title="Ranks wait in the start-up barrier: {joined} of {world} have joined{not}",
    when=still_waiting,
    patterns=(WAITING,),
    vetoes=(COMPLETED,),
    means=(
        "A group is created only when all ranks have counted themselves in the store. {joined} "
        "of {world} had done so when this was written."
    ),
    confidence="hint",
    remedies=("Find the ranks that are not in this barrier, and what they do instead.",),
    next_steps=("py-spy dump --pid PID  # of the ranks that print no such line",),
    links=("https://pytorch.org/docs/stable/distributed.html",),
    matches=WAITING_LINES,
    misses=OTHER_LINES,
)

SIGNATURES = (INCOMPLETE, OVERFULL, STILL_WAITING)


def _barrier(case: Case, *patterns: str, over: bool = False) -> Iterator[Hit]:
    """Yield one hit for the barrier that was named last, if its count is not the world size.

    Those who wait have joined; if as many say so as have joined, the rest are those who have not.
    ``over``: ask instead for counts above the world size; a rank out of its range is named.
    """
    lines = [
        line
        for line in case.job.lines_with(patterns)
        if _count(line, "world") and (_count(line, "joined") > _count(line, "world")) is over
    ]
    if not lines:
        return
    last = max(lines, key=lambda line: (line.time or 0, line.source.line or 0))
    ranks = _out_of_range(lines) if over else _missing(lines, last)
    members, unseen = queries.members_of(case, ranks)
    words = queries.ranks_in_words(ranks)
    words = (
        f", among them {words}" if over else f", {words} {'have' if len(ranks) > 1 else 'has'} not"
    )
    yield Hit(
        members=members,
        ranks=unseen,
        names_culprit=bool(ranks),
        evidence=tuple(queries.cite_line(line) for line in _one_each(lines)),
        fields={
            **last.fields,
            "not": words if ranks else "",
        },
        at=last.time,
    )


def _out_of_range(lines: list[LogLine]) -> tuple[int, ...]:
    """Return the ranks that the world size has no place for."""
    waiters = {_count(line, "waiter"): _count(line, "world") for line in lines}
    return tuple(sorted(rank for rank, world in waiters.items() if rank >= world))


def _missing(lines: list[LogLine], last: LogLine) -> tuple[int, ...]:
    """Return who has not come, where all who have say so."""
    world, joined = _count(last, "world"), _count(last, "joined")
    came = {
        _count(line, "waiter") for line in lines if line.fields.get("key") == last.fields.get("key")
    }
    if len(came) != joined or not joined < world or max(came) >= world:
        return ()
    return tuple(sorted(set(range(world)) - came))


def _one_each(lines: list[LogLine]) -> list[LogLine]:
    seen = {line.fields.get("waiter"): line for line in reversed(lines)}
    return sorted(seen.values(), key=lambda line: line.source.line or 0)[:MAX_QUOTES]


def _count(line: LogLine, name: str) -> int:
    number = line.fields.get(name, "")
    return int(number) if queries.is_number(number) else 0
