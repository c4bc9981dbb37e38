"""Ranks join worlds of different sizes, or one of more ranks than were started or are to be."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import (
    InitArguments,
    LaunchPlan,
    LogLine,
    SignOfLife,
    Source,
    WorldSize,
    counted,
    ranks_in_words,
)
from whyhang.analyzer.findings.signature import CLEAR, INCOMPLETE, Hit
from whyhang.analyzer.job.store_keys import clients
from whyhang.analyzer.queries.hits import cite_environ, cite_lines, hit_about, places_of
from whyhang.analyzer.queries.registry import query, side
from whyhang.analyzer.queries.startup.store_place import is_loopback
from whyhang.analyzer.queries.waits.states import is_starting, waiters_for
from whyhang.analyzer.report import Evidence, cite
from whyhang.analyzer.stacks import WaitKind
from whyhang.analyzer.wording.describe import location_of
from whyhang.analyzer.wording.title_fields import subject_fields


@side("world_sizes", side="environments-differ")
def _environ_differs(case: Case) -> Iterator[Hit]:
    """Yield one hit for ranks that were started with another WORLD_SIZE, while the job starts."""
    if is_starting(case):
        processes = {m.id: m.processes[-1] for m in case.job.members if m.processes}
        sizes = {n: process.environ.get("WORLD_SIZE", "") for n, process in processes.items()}
        yield from _differ(
            case,
            {number: f"WORLD_SIZE={size}" for number, size in sizes.items() if size},
            lambda number, _: cite_environ(processes[number], ("WORLD_SIZE",)),
        )


@side("world_sizes", side="calls-differ")
def _joins_differ(case: Case) -> Iterator[Hit]:
    """Yield one hit for members whose call was given another world size than most."""
    sizes = {number: str(size) for number, (size, _) in _given(case).items()}
    if len(set(sizes.values())) < 2 or case.graph.progress:
        return
    for member in case.job.members:  # who is through its call was started with this one
        size = member.environ.get("WORLD_SIZE", "")
        if size.isdecimal():
            sizes.setdefault(member.id, size)
    yield from _differ(case, sizes, lambda number, size: _cite_size(case, number, int(size)))


def _differ(
    case: Case, sizes: Mapping[int, str], cite_one: Callable[[int, str], Evidence]
) -> Iterator[Hit]:
    """Yield one hit for the members whose size is not that of the most; a tie names nobody."""
    counts = Counter(sizes.values()).most_common()
    if len(counts) < 2:
        return
    usual, most = counts[0]
    odd = tuple(number for number, size in sizes.items() if size != usual)
    others = tuple(number for number in waiters_for(case) if number not in odd)
    shown = (*odd[:3], *(number for number in sizes if number not in odd))
    quotes = [cite_one(number, sizes[number]) for number in shown[:5]]
    yield hit_about(
        case,
        odd,
        others,
        names_culprit=counts[1][1] != most,
        evidence=(*quotes, *places_of(case, odd[0])),
        fields={"theirs": sizes[odd[0]], "usual": usual},
    )


@side("world_sizes", side="too-many")
def _joins_too_many(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks that nobody is, where all who came join a world of more.

    Said only where nobody else can have come: the store has counted no more clients, or the
    place of the meeting is on this host alone.
    """
    given = _given(case)
    sizes = {size for size, _ in given.values()}
    graph = case.graph
    starting = bool(graph.operations) and all(m.kind is WaitKind.INIT for m in graph.operations)
    if len(sizes) != 1 or not starting or graph.lagging or graph.progress or case.job.missing:
        return
    size = sizes.pop()
    here = {member.rank for member in case.job.members}
    missing = tuple(rank for rank in range(size) if rank not in here)
    if not missing or None in here or not _all_came(case):
        return
    states = [case.states[number] for number in given]
    fields = subject_fields(case, states[:1], waiters_for(case))
    fields |= {"who": ranks_in_words(missing), "size": str(size), "count": str(len(here))}
    yield Hit(
        ranks=missing,
        affected=tuple(waiters_for(case)),
        evidence=tuple(_cite_size(case, number, size) for number in list(given)[:4]),
        location=location_of(case, states[0]),
        fields=fields,
    )


@query
def each_alone(case: Case, lines: Sequence[LogLine]) -> Iterator[Hit]:
    """Yield one hit where several processes say that they are alone, and more were to start.

    They say so in one line each: a process that prints it twice prints two lines.
    """
    wanted = max((fact.size for fact in case.job.of(WorldSize)), default=1)
    counts = Counter[str]()
    for line in lines:
        counts[line.text] += line.count
    count = max(counts.values(), default=0)
    if 1 < count <= wanted and len({line.who.rank for line in lines} - {None}) < 2:
        yield Hit(
            evidence=cite_lines(lines),
            names_culprit=False,
            fields={"count": str(count), "wanted": str(wanted)},
        )


def _given(case: Case) -> dict[int, tuple[int, Source]]:
    """Return the world sizes that the calls of members were given, by member."""
    sizes: dict[int, tuple[int, Source]] = {}
    for call in case.job.of(InitArguments):
        member = case.job.member_of(call.who)
        if member is not None and call.world_size is not None:
            sizes.setdefault(member.id, (call.world_size, call.source))
    return sizes


def _all_came(case: Case) -> bool:
    places = [
        call.address
        for call in case.job.of(InitArguments)
        if call.address is not None and case.job.member_of(call.who) is not None
    ]
    views = [view for view in case.job.stores if view.outcome == "answered"]
    here = len(case.job.members)
    by_place = any(clients(view) == here for view in views)
    by_place |= any(view.processes == here and not view.repeated for view in case.job.files)
    return by_place or (bool(places) and all(is_loopback(place.host) for place in places))


def _cite_size(case: Case, number: int, size: int) -> Evidence:
    member = case.member(number)
    _, source = _given(case).get(number) or (size, member.processes[-1].source)
    words = f"{member.name} (pid {member.pid}) joins a world of {counted(size, 'rank')}"
    return cite(source, words, member.rank)


LOCAL = ("localhost", "127.", "::1")


@side("launch_plans", fault="starts-fewer")
def _starts_fewer(case: Case) -> Iterator[Hit]:
    """Yield one hit for a plan that starts fewer ranks than the job waits for, or has room for."""
    here = {member.rank for member in case.job.members if member.rank is not None}
    for plan in case.job.of(LaunchPlan):
        wanted = case.job.world_size or plan.slots or 0
        started = plan.ranks
        if started is None or not max(len(here), started) < wanted or case.job.of(SignOfLife):
            continue
        sizes = [fact for fact in case.job.of(WorldSize) if fact.size == wanted]
        # What a script starts once runs on the first node, as the first task: rank 0.
        known = here == set(range(started)) or (not here and started == 1)
        missing = tuple(range(started, wanted))
        yield Hit(
            ranks=missing if known else (),
            affected=tuple(member.id for member in case.job.members),
            names_culprit=known,
            strength=CLEAR if sizes else INCOMPLETE,
            evidence=(
                cite(plan.source, plan.quote),
                *(cite(size.source, f"world size {size.size}") for size in sizes[:1]),
            ),
            fields={
                "started": counted(started, "rank"),
                "wanted": str(wanted),
                "plan": plan.quote,
                "room": f"; the allocation has room for {counted(plan.slots, 'task')}"
                if plan.slots and plan.slots > started
                else "",
            },
        )


@side("launch_plans", fault="master-is-local")
def _master_is_local(case: Case) -> Iterator[Hit]:
    """Yield one hit for a script of several hosts that has each of them meet at itself."""
    for plan in case.job.of(LaunchPlan):
        if plan.nodes > 1 and (plan.master or "").startswith(LOCAL):
            yield Hit(
                names_culprit=False,
                affected=waiters_for(case),
                evidence=(cite(plan.source, plan.quote),),
                fields={"host": plan.master or "", "nodes": str(plan.nodes)},
            )
