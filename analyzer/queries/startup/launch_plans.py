"""What a batch script or a specification starts, held against what the job waits for."""

from collections.abc import Iterator

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import LaunchPlan, SignOfLife, WorldSize, counted
from whyhang.analyzer.findings.signature import CLEAR, INCOMPLETE, Hit
from whyhang.analyzer.queries.registry import side
from whyhang.analyzer.queries.waits.states import waiters_for
from whyhang.analyzer.report import cite

LOCAL = ("localhost", "127.", "::1")
MAX_QUOTES = 3


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
