"""All GPUs do the same while all ranks wait for each other; nobody is blamed."""

from collections.abc import Iterator, Sequence

from whyhang.analyzer import queries
from whyhang.analyzer.facts import Setting
from whyhang.analyzer.findings.signature import INCOMPLETE, INDIRECT
from whyhang.analyzer.job.device import Device
from whyhang.analyzer.queries import Case, Hit, Signature, WaitKind

_LAUNCHING = {WaitKind.COLLECTIVE, WaitKind.P2P, WaitKind.BACKWARD, WaitKind.CUDA_SYNC}


def all_spin(case: Case) -> Iterator[Hit]:
    """Yield one hit if the GPUs of all ranks are busy and draw little power."""
    load = queries.load_of(case)
    if len(load.spinning) < 2 or load.computing or load.idle or load.others:
        return
    if not queries.is_undecided(case) or (case.job.absent and not queries.waits_seen(case)):
        return
    surely = all(queries.surely_spins(device) for device in load.spinning)
    if not surely and not queries.waits_seen(case):
        return
    ranked = sum(len(device.members) for device in load.spinning)
    whole = 1.0 if ranked == len(case.job.members) and not case.job.absent else INCOMPLETE
    strength = queries.trust_in_load(case, load) * (whole if queries.waits_seen(case) else INDIRECT)
    yield _hit(case, load.spinning, strength)


def all_idle(case: Case) -> Iterator[Hit]:
    """Yield one hit if no GPU has work; not for jobs whose collectives run on the host."""
    load = queries.load_of(case)
    if len(load.idle) < 2 or load.busy or load.others or not queries.is_undecided(case):
        return
    backends = {fact.value for fact in case.job.of(Setting) if fact.name == "backend"}
    kinds = {meeting.kind for meeting in case.graph.operations}
    if "gloo" in backends or not kinds or not kinds <= _LAUNCHING:
        return
    if not all(device.pids for device in load.idle):
        return
    yield _hit(case, load.idle, queries.trust_in_load(case, load))


ALL_SPIN = Signature(
    id="gpus-spin-together",
    story="""\
Every rank has launched, and the kernels wait for each other.

All GPUs are at 100 % with little power and no memory traffic: each runs a kernel that spins on its
peers. The program did its part on every rank. The cause lies below it, a link, the network, a GPU,
or in arguments that differ (size, group) in a way that stacks do not show.
""",
    category="unknown",
    level="summary",
    title="All ranks have launched and their kernels wait for each other{where}",
    when=all_spin,
    means=(
        "{gpus} are all at {load}: each runs a kernel that waits for its peers. No rank is "
        "missing; the cause is a link, the network or a GPU, or sizes that differ between ranks."
    ),
    confidence="likely",
    remedies=(
        "Look at NVLink, InfiniBand and kernel logs of all hosts before the code.",
        "Rule out different sizes with a flight-recorder dump or NCCL's RAS.",
    ),
    next_steps=(
        "nvidia-smi nvlink -e; dmesg -T | grep -iE 'NVRM|Xid|mlx5'  # on every host",
        "TORCH_FR_BUFFER_SIZE=2000 on the next run records what each rank called.",
    ),
)

ALL_IDLE = Signature(
    id="gpus-idle-together",
    story="""\
All ranks wait for each other, and no GPU has anything to run.

Nobody has launched the operation in which everybody stands: what holds them is on the host, a
store, a lock, a thread that issues the work, a stream that waits for an event.
""",
    category="unknown",
    level="wait",
    title="No GPU has anything to run{where}",
    when=all_idle,
    means=(
        "{gpus} are at {load} with the ranks' processes on them: no rank has launched what all "
        "wait for. The cause is on the host: the setting up of a communicator, the store, a lock, "
        "or a stream that waits for an event."
    ),
    confidence="possible",
    remedies=("Take native stacks of two ranks and look at the threads that launch.",),
    next_steps=("whyhang PID --native always", "NCCL_DEBUG=INFO on the next run."),
)

SIGNATURES = (ALL_SPIN, ALL_IDLE)


def _hit(case: Case, devices: Sequence[Device], strength: float) -> Hit:
    waiters = queries.waiters_for(case)
    meetings = case.graph.operations
    evidence = [queries.cite_gpu(case, d, d.state_with("busy")) for d in devices[:3]]
    if waiters:
        evidence += queries.evidence_of(case, case.states[waiters[0]])[:1]
    return Hit(
        affected=waiters,
        evidence=tuple(evidence),
        strength=strength,
        names_culprit=False,
        collective=queries.call_of(case, waiters),
        gpus=tuple(device.number for device in devices),
        fields={
            "gpus": queries.gpu_names(devices),
            "load": queries.load_in_words(devices),
            "where": f" while all ranks stand in {meetings[0].says.call}"
            if len(meetings) == 1
            else "",
        },
    )
