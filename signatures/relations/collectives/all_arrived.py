"""Every rank that should be there is in the same operation: the cause is below it."""

from collections.abc import Iterable, Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.findings.signature import CLEAR, CONTRADICTED, GUESSED, INCOMPLETE
from whyhang.analyzer.queries import Case, Hit, Signature, Verdict, WaitKind
from whyhang.analyzer.wait_graph import PendingOperation


def in_one_call(case: Case) -> Iterable[Hit]:
    return queries.merged(
        _by_stacks(case), queries.recorded(case, Verdict.ALL_ARRIVED, Verdict.PARTLY_COMPLETED)
    )


def creating_groups(case: Case) -> Iterable[Hit]:
    return _by_stacks(case, WaitKind.GROUP)


def in_mpi(case: Case) -> Iterable[Hit]:
    return _by_stacks(case, WaitKind.MPI)


IN_ONE_CALL = Signature(
    id="stuck-together",
    story="""\
Every rank has reached the same operation and none comes back.

The program did its part: all arrived. What is left is below it, the network, NCCL, a GPU, or
arguments that differ in a way stacks do not show (shape, dtype, group). GPU state, NCCL's
warnings and the recorder decide.
""",
    category="unknown",
    level="summary",
    title="{says}",
    when=in_one_call,
    means=(
        "Everyone that was seen is inside {call}; no rank is missing. The cause lies below the "
        "program (network, NCCL, GPU) or in arguments that stacks do not show (shape, dtype, "
        "group)."
    ),
    confidence="possible",
    remedies=(
        "Look at the GPUs and links of all hosts before the code: nvidia-smi, dmesg, ibstat.",
        "Rule out a shape or group mismatch with a flight-recorder dump.",
    ),
    next_steps=(
        (
            "If it is the first collective on NCCL, try one switch at a time; the one that helps "
            "names the cause: NCCL_P2P_DISABLE=1, NCCL_SHM_DISABLE=1, NCCL_IB_DISABLE=1, "
            "NCCL_NVLS_ENABLE=0, NCCL_CUMEM_ENABLE=0."
        ),
        "nvidia-smi; dmesg -T | grep -iE 'NVRM|Xid|mlx5|oom'  # on every host",
        "TORCH_FR_BUFFER_SIZE=2000 on the next run records what each rank called.",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
)

CREATING_GROUPS = Signature(
    id="group-creation-order",
    story="""\
Every rank is creating a process group, and none comes back.

All have come to new_group, so nobody is missing; but ranks that create several groups in
different orders, or with different members, meet different partners and wait for ever.
""",
    category="group-creation-mismatch",
    level="program",
    title="All ranks are creating a process group and none comes back: not the same group for all",
    when=creating_groups,
    means=(
        "Everyone stands inside new_group (or a function that calls it) and waits for the other "
        "members. The ranks create groups in different orders or with different members; less "
        "likely, the members cannot connect to each other."
    ),
    confidence="likely",
    remedies=(
        "Create all groups on all ranks in one order; no list of members may depend on the rank.",
        "If the order is right, check the network between the members (GLOO_SOCKET_IFNAME).",
    ),
    next_steps=("grep -rn 'new_group' .  # in the training code: what is the order on each rank?",),
    links=("https://pytorch.org/docs/stable/distributed.html#torch.distributed.new_group",),
)

IN_MPI = Signature(
    id="mpi-all-in-one-call",
    story="""\
Every rank stands in the same MPI call and none comes back.

Nobody is missing. Stacks do not show the arguments: the ranks may be on different communicators
(one on a copy of the world), name different roots or counts, or be one call apart in a loop.
Less likely, the messages do not arrive.
""",
    category="mpi-mismatch",
    level="program",
    title="All ranks stand in {call} of MPI and none comes back: not the same call for all",
    when=in_mpi,
    means=(
        "Everyone that was seen is inside {call}; no rank is missing. Different communicators, "
        "roots or counts look so, and so does one rank that is a call ahead of the others."
    ),
    confidence="possible",
    remedies=(
        "Compare on all ranks what {where} is called with: communicator, root, count, type.",
        "If all agree, try another transport: mpirun --mca btl tcp,self (Open MPI).",
    ),
    next_steps=("gdb -p {pid} -batch -ex 'thread apply all bt'  # of two ranks: which comm=?",),
)

SIGNATURES = (IN_ONE_CALL, CREATING_GROUPS, IN_MPI)


def _by_stacks(case: Case, *kinds: WaitKind) -> Iterator[Hit]:
    """Yield one hit that blames nobody; ``kinds`` limits it to operations of these kinds."""
    graph = case.graph
    if graph.lagging or graph.progress or len(graph.operations) != 1 or case.job.missing:
        return
    if queries.all_recorded(case):
        return
    meeting = graph.operations[0]
    if kinds and meeting.kind not in kinds:
        return
    others = [s for s in case.states if s.member not in set(meeting.members)]
    ranked = any(case.member(s.member).rank is not None for s in others)
    if len(meeting.members) < 2 or not queries.all_seen(case) or ranked:
        return
    states = [case.states[number] for number in meeting.members]
    yield Hit(
        affected=meeting.members,
        evidence=tuple(queries.evidence_of(case, states[0])),
        names_culprit=False,
        strength=_trust(case, meeting),
        collective=queries.call_of(case, meeting.members),
        location=queries.location_of(case, states[0]) if len(meeting.sites) < 2 else None,
        fields={
            **queries.subject_fields(case, states, ()),
            "call": meeting.op,
            "says": f"All ranks stand in {meeting.op}{_sites(meeting)} and none comes back",
        },
    )


def _trust(case: Case, meeting: PendingOperation) -> float:
    """Return how sure it is that all ranks are in one call.

    Ranks that nobody saw may be elsewhere, one look may have caught them in passing, and the
    same operation at several places may be several groups. Who sleeps in the kernel's file or
    page I/O is on its way through the program, whatever frame it was caught in.
    """
    strength = GUESSED if case.job.absent else CLEAR
    if case.graph.snapshots < 2:
        strength *= INCOMPLETE
    if any(_in_kernel_io(case, number) for number in meeting.members):
        strength *= CONTRADICTED
    return strength * INCOMPLETE if len(meeting.sites) > 1 else strength


def _in_kernel_io(case: Case, number: int) -> bool:
    processes = case.member(number).processes
    return bool(processes) and processes[-1].state == "D"


def _sites(meeting: PendingOperation) -> str:
    if len(meeting.sites) < 2:
        return ""
    return f", at different places ({', '.join(meeting.sites[:4])})"
