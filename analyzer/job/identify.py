"""Who is there: the one place where facts become ranks.

Each fact says of whom it speaks as far as its source tells (``Who``). Here those sayings are
joined: a pid seen in /proc with RANK=3, a stack dump of that pid, a recorder dump called
``…rank_3`` and log lines with ``[rank3]:`` become one ``Member``. The most trusted source of a
rank number wins; a contradiction is kept and said. Nothing is guessed: a process whose number
nobody tells stays a process with a pid, a host or a label.
"""

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from whyhang.analyzer.facts import (
    Agent,
    Excerpt,
    Exit,
    Fact,
    FileView,
    Gap,
    Gpu,
    GpuAddress,
    Group,
    LastLine,
    LogLine,
    LogTail,
    PartOfHost,
    Process,
    ProcessRank,
    Progressed,
    Record,
    Role,
    Setting,
    StackDump,
    Statement,
    StoreView,
    Track,
    Trust,
    Who,
    WorldSize,
    grouped,
    replace,
)
from whyhang.analyzer.facts.base import R
from whyhang.analyzer.facts.exceptions import EXCEPTION_STACK
from whyhang.analyzer.job.devices import join
from whyhang.analyzer.job.entities import Entities, Entity
from whyhang.analyzer.job.inference import inferred
from whyhang.analyzer.job.records import Child, Job, Member, by_pattern
from whyhang.analyzer.job.roles import role_of_dump
from whyhang.analyzer.job.world import missing_ranks, without_caught, world_size

PRINTED = {EXCEPTION_STACK, "traceback"}
"""Tools of stacks that a log holds: of a process that was looked at these say less."""

_HELPED = {Role.RANK, Role.LAUNCHER}
"""Who has helpers; those of a launcher, as the server of a manager, serve all of its ranks."""

CHILD_ROLES = {Role.DATALOADER_WORKER, Role.COMPILE_WORKER, Role.RESOURCE_TRACKER}


def identify(facts: Iterable[Fact]) -> Job:
    """Join facts into a job: members, their children, launchers, and what is expected."""
    sorted_facts = _Sorted(inferred(facts))
    registry = Entities(_ranks_of_processes(sorted_facts.of(ProcessRank)))
    for process in sorted_facts.of(Process):
        entity = registry.entity(process.who)
        entity.processes.append(process)
        entity.role = process.role
        entity.ppid = process.owner_pid if process.owner_pid is not None else process.ppid
    previous: tuple[str, Entity] | None = None
    for dump in sorted_facts.of(StackDump):
        previous = _place_dump(registry, dump, previous)
    spoken: tuple[Track | Exit | LogLine, ...]
    spoken = (*sorted_facts.of(Track), *sorted_facts.of(Exit), *sorted_facts.of(LogLine))
    for fact in spoken:
        registry.mention(fact.who)
    for end in (*sorted_facts.of(LastLine), *sorted_facts.of(LogTail)):
        registry.mention(end.who)  # its log was read: something was collected of it
    by_time = sorted(sorted_facts.of(Progressed), key=lambda beat: beat.time)
    for who in {beat.who.rank: beat.who for beat in by_time}.values():
        registry.mention(who)  # of several starts that left their beats, the last
    registry.place(sorted_facts.of(ProcessRank))
    return _job(sorted_facts, registry)


class _Sorted:
    """Facts by type, in the order they came; statements of all types together."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        self._facts: dict[type[Record], list[Any]] = defaultdict(list)
        for fact in facts:
            self._facts[Statement if isinstance(fact, Statement) else type(fact)].append(fact)

    def of(self, kind: type[R]) -> list[R]:
        """Return the facts of one type."""
        if kind is not Statement and issubclass(kind, Statement):
            return [fact for fact in self._facts[Statement] if isinstance(fact, kind)]
        return self._facts[kind]


def _ranks_of_processes(facts: Iterable[ProcessRank]) -> dict[tuple[str | None, int], Who]:
    """Ranks that something else than the fact itself tells of a pid (NCCL init lines)."""
    ranks: dict[tuple[str | None, int], Who] = {}
    for fact in facts:
        if fact.who.pid is not None:
            inferred = fact.who.trust is Trust.INFERRED
            trust = Trust.INFERRED if inferred else max(fact.who.trust, Trust.NCCL_INIT)
            who = replace(fact.who, rank=fact.rank, trust=trust)
            ranks.setdefault((fact.who.host, fact.who.pid), who)
    return ranks


def _place_dump(
    registry: Entities, dump: StackDump, previous: tuple[str, Entity] | None
) -> tuple[str, Entity] | None:
    """Attach one stack dump; a worker's dump goes to the rank it belongs to."""
    role = role_of_dump(dump)
    known = registry.known(dump.who)
    if role in CHILD_ROLES and (known is None or not known.processes):
        child = registry.entity(
            replace(dump.who, rank=None, trust=Trust.NONE),
            alone=(dump.source.file, dump.source.line),
        )
        child.role = role
        child.dumps.append(dump)
        if dump.who.rank is not None:
            child.parent = registry.entity(Who(rank=dump.who.rank, trust=dump.who.trust))
        elif previous is not None and previous[0] == dump.source.file:
            child.parent = previous[1]
        return previous
    who = dump.who
    if role is Role.LAUNCHER:  # whatever rank speaks above it
        who = replace(who, rank=None, trust=Trust.NONE)
    entity = registry.entity(who, alone=(dump.source.file, dump.source.line))
    entity.dumps.append(dump)
    if entity.role is None:
        entity.role = role
    return (dump.source.file, entity) if entity.role is Role.RANK else previous


def _job(facts: _Sorted, registry: Entities) -> Job:
    children: dict[int, list[Entity]] = defaultdict(list)
    by_pid = {(e.host, e.pid): e for e in registry.all if e.pid is not None}
    helpers: dict[int, list[Entity]] = defaultdict(list)
    launchers: list[Entity] = []
    ranks: list[Entity] = []
    for entity in registry.all:
        parent = entity.parent
        if parent is None and entity.ppid is not None:
            parent = by_pid.get((entity.host, entity.ppid))
        if entity.role in CHILD_ROLES:
            if parent is not None:
                children[id(parent)].append(entity)
        elif entity.role is Role.OTHER and parent is not None and parent.role in _HELPED:
            helpers[id(parent)].append(entity)
        elif entity.role is Role.LAUNCHER:
            launchers.append(entity)
        elif entity.role is Role.RANK or entity.rank is not None or entity.spoken_of:
            ranks.append(entity)
    size, how = world_size(facts.of(WorldSize), facts.of(Process), facts.of(Group))
    beside = _beside_the_ranks(ranks, size)
    launchers += beside
    ranks = [entity for entity in ranks if entity not in beside]
    ranks.sort(key=lambda e: (e.rank is None, e.rank or 0, e.host or "", e.pid or 0, e.label or ""))
    members = tuple(
        _member(number, entity, children[id(entity)], (*helpers[id(entity)], *helpers[id(above)]))
        for number, entity in enumerate(ranks)
        for above in [by_pid.get((entity.host, entity.ppid or 0))]
    )
    lines = tuple(without_caught(facts.of(LogLine), members, size))
    opened = (text for process in facts.of(Process) for text in process.descriptors)
    uses_gpus = any(fact.name == "backend" and fact.value == "nccl" for fact in facts.of(Setting))
    uses_gpus = uses_gpus or any("/dev/nvidia" in text for text in opened)
    gpus = join(facts.of(Gpu), members, facts.of(GpuAddress), uses_gpus=uses_gpus)
    by_rank = {m.rank: m.id for m in reversed(members) if m.rank is not None}
    ids_of = grouped((m.id for m in members if m.pid is not None), lambda n: members[n].pid or 0)
    return Job(
        members=members,
        launchers=tuple(_child(entity) for entity in launchers),
        world_size=size,
        world_size_how=how,
        absent=tuple(rank for rank in range(size or 0) if rank not in by_rank),
        missing=missing_ranks(
            size, members, facts.of(Process), all_on_host=not facts.of(PartOfHost)
        ),
        tracks=tuple(facts.of(Track)),
        groups=tuple(facts.of(Group)),
        lines=lines,
        exits=tuple(facts.of(Exit)),
        statements=tuple(facts.of(Statement)),
        stores=tuple(facts.of(StoreView)),
        files=tuple(facts.of(FileView)),
        excerpts=tuple(facts.of(Excerpt)),
        agents=tuple(facts.of(Agent)),
        gaps=(*facts.of(Gap), *gpus.gaps),
        gpus=gpus,
        by_rank=by_rank,
        by_pid={pid: tuple(ids) for pid, ids in ids_of.items()},
        by_pattern=by_pattern(lines),
    )


def _beside_the_ranks(entities: list[Entity], size: int | None) -> list[Entity]:
    """Return those that are no ranks: each of these has a stack, and one that has no number, too.

    People attach a debugger to what started the job as well.
    """
    with_stack = {entity.rank for entity in entities if entity.dumps}
    if not size or not with_stack.issuperset(range(size)):
        return []
    return [e for e in entities if e.rank is None and e.dumps and not e.processes]


def _child(entity: Entity) -> Child:
    return Child(
        role=entity.role or Role.OTHER,
        pid=entity.pid,
        processes=_processes(entity),
        dumps=_dumps(entity, entity.dumps),
    )


def _processes(entity: Entity) -> tuple[Process, ...]:
    since = _begun(entity)
    last = [p for p in entity.processes if since is None or (p.taken_at or 0.0) >= since]
    return tuple(sorted(last, key=lambda process: process.look))


def _dumps(entity: Entity, dumps: Iterable[StackDump]) -> tuple[StackDump, ...]:
    """Return those of the stacks that were taken when the process was captured last."""
    since = _begun(entity)
    last = [d for d in dumps if since is None or d.taken_at is None or d.taken_at >= since]
    ids = {t.inner: t.tid for p in entity.processes for t in p.threads if t.inner is not None}
    for at, dump in enumerate(last if ids else ()):
        # in a container py-spy gives the ids that Python knows
        threads = (replace(t, tid=ids.get(t.tid or 0, t.tid)) for t in dump.threads)
        last[at] = replace(dump, threads=tuple(threads))
    return tuple(sorted(last, key=lambda dump: dump.look))


def _seen(entity: Entity) -> list[StackDump]:
    """Return the stacks of a process; of one that was looked at, without what its log printed."""
    seen = [dump for dump in entity.dumps if dump.tool not in PRINTED]
    looked_at = entity.processes or any(dump.who.pid is not None for dump in seen)
    return seen if seen and looked_at else entity.dumps


def _begun(entity: Entity) -> float | None:
    """Return when the last capture of a process began, if it was captured several times.

    Each numbers its snapshots from the first. What a process did between two captures is not
    known, and others may have paused it, so the last one alone says whether it moves.
    """
    timed = sorted((p.taken_at, p.look) for p in entity.processes if p.taken_at is not None)
    again = [b[0] for a, b in pairwise(timed) if b[1] <= a[1]]
    return again[-1] if again else None


def _member(
    number: int, entity: Entity, children: list[Entity], helpers: Iterable[Entity]
) -> Member:
    return Member(
        id=number,
        rank=entity.rank,
        trust=entity.trust,
        host=entity.host,
        pid=entity.pid,
        label=entity.label,
        local_rank=entity.local_rank,
        processes=_processes(entity),
        dumps=_dumps(entity, _seen(entity)),
        children=tuple(_child(child) for child in children),
        helpers=tuple(_child(helper) for helper in helpers),
        copies=entity.copies,
    )
