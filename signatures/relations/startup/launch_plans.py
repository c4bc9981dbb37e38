"""What a batch script or a specification starts, held against what the job waits for."""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import LaunchPlan, SignOfLife, WorldSize, counted
from whyhang.analyzer.findings.signature import CLEAR, INCOMPLETE
from whyhang.analyzer.queries import Case, Hit, Signature, cite

LOCAL = ("localhost", "127.", "::1")
MAX_QUOTES = 3


def starts_fewer(case: Case) -> Iterator[Hit]:
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


def master_is_local(case: Case) -> Iterator[Hit]:
    """Yield one hit for a script of several hosts that has each of them meet at itself."""
    for plan in case.job.of(LaunchPlan):
        if plan.nodes > 1 and (plan.master or "").startswith(LOCAL):
            yield Hit(
                names_culprit=False,
                affected=queries.waiters_for(case),
                evidence=(cite(plan.source, plan.quote),),
                fields={"host": plan.master or "", "nodes": str(plan.nodes)},
            )


STARTS_FEWER = Signature(
    id="launch-starts-fewer",
    story="""\
The batch script, or the job's specification, starts fewer ranks than the job waits for.

A script that calls python without srun or mpirun starts one process on the first node, however
many tasks the allocation has; torchrun without srun starts the ranks of one node. Each waits in
init_process_group for the rest, who were never started. What a script starts by ssh, in a loop or
in the background is not counted, and then nothing is said.
""",
    category="init-missing-rank",
    level="setup",
    title="Only {started} of {wanted} started: {plan}",
    when=starts_fewer,
    means="The job waits for {wanted} ranks, and what was given starts {started}{room}.",
    confidence="strong",
    remedies=(
        "Start the program on every task: srun python train.py, or srun torchrun on each node.",
        "Or let WORLD_SIZE (Trainer(devices=, num_nodes=), --nnodes) be what is started.",
    ),
    next_steps=("sacct -j JOB -o JobID,NTasks,NNodes  # how many tasks did a step have?",),
)

MASTER_IS_LOCAL = Signature(
    id="launch-master-is-local",
    story="""\
A script for several nodes sets MASTER_ADDR to the loopback address.

Every host finds itself there, and only that of rank 0 has the store. The other hosts' ranks are
refused, or wait until the time-out.
""",
    category="init-master-unreachable",
    level="setup",
    title="MASTER_ADDR is {host} in a script for {nodes} nodes: each looks for the store at home",
    when=master_is_local,
    means="{host} is every host itself; ranks that do not run beside rank 0 find no store there.",
    confidence="likely",
    remedies=(
        "MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1), in the script.",
    ),
    next_steps=("scontrol show hostnames  # inside the job",),
)

SIGNATURES = (STARTS_FEWER, MASTER_IS_LOCAL)
