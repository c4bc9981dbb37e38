"""The GPU of one rank does what those of all others do not: the others wait for it."""

from collections.abc import Iterator, Sequence

from whyhang.analyzer import queries
from whyhang.analyzer.facts import replace
from whyhang.analyzer.findings.signature import INCOMPLETE
from whyhang.analyzer.job.device import Device
from whyhang.analyzer.queries import Case, Hit, RankState, Signature, Status
from whyhang.analyzer.queries.gpus import SHOWN
from whyhang.analyzer.wording.describe import activity

ONE_SIDED = ("broadcast", "reduce", "scatter", "gather", "send", "isend")
"""Operations of which a rank may be done while others are not: an idle GPU tells less."""

# What of CUDA a rank may be held in before its kernel starts, by the names of native frames.
HOLDS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("cuModuleLoad", "cuLibraryLoad", "cuModuleGetFunction", "cuLibraryGetKernel"),
        (
            "it is loading a kernel for the first time, which waits for the kernels that run "
            "(CUDA_MODULE_LOADING=EAGER loads all at the start)"
        ),
    ),
    (
        (
            *("cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaHostRegister", "cuMemAlloc"),
            *("cuMemFree", "cuMemHostAlloc", "cudaMallocHost"),
        ),
        "it is in a CUDA memory call, which waits for all work on the GPU",
    ),
    (
        (
            *("cudaStreamSynchronize", "cudaEventSynchronize", "cudaDeviceSynchronize"),
            *("cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize", "cudaMemcpy"),
            "cuMemcpy",
        ),
        "it waits for work on a stream, before or instead of launching",
    ),
    (("cudaLaunchKernel", "cuLaunchKernel"), "it is in the launch of a kernel"),
)


def never_launched(case: Case) -> Iterator[Hit]:
    """Yield one hit for few idle GPUs while the many spin, with what their stacks say of why."""
    load = queries.load_of(case)
    if not load.idle or load.others or not queries.is_undecided(case):
        return
    few = len(load.idle) < len(load.spinning)
    pair = len(load.idle) == 1 == len(load.spinning) and queries.surely_spins(load.spinning[0])
    if load.computing or not (few or pair):
        return
    if not queries.waits_seen(case) and not all(
        queries.surely_spins(device) for device in load.spinning
    ):
        return
    strength = queries.trust_in_load(case, load)
    if any(meeting.op in ONE_SIDED for meeting in case.graph.operations):
        strength *= INCOMPLETE
    yield _launch_hit(case, load.idle, load.spinning, strength)


def alone_at_work(case: Case) -> Iterator[Hit]:
    """Yield one hit for the one GPU that computes while those of all other ranks are idle."""
    load = queries.load_of(case)
    if load.others or load.spinning or not load.idle or not queries.is_undecided(case):
        return
    if len(load.computing) != 1 or not queries.waits_seen(case):
        return
    yield _launch_hit(case, load.computing, load.idle, queries.trust_in_load(case, load))


NEVER_LAUNCHED = Signature(
    id="gpu-never-launched",
    story="""\
One rank has launched nothing while the kernels of all others wait for it.

All stacks may look alike, standing in the same wait. The GPUs decide: those of the waiting ranks
are at 100 % with little power, as a kernel of NCCL that spins keeps them; that of the missing rank
is at 0 %. Its host has not come to the launch: it is elsewhere, blocked in a CUDA call, loading a
kernel, or waits for another stream.
""",
    category="missing-rank-in-collective",
    level="wait",
    title="{who} {has} launched nothing: {gpus} {is} at {load}, the others at {theirs}",
    when=never_launched,
    means=(
        "The kernels of the other ranks run and wait: {others} {are} at {theirs}. With {gpus} at "
        "{load}, {who} never launched what they wait for. {why}"
    ),
    confidence="likely",
    remedies=("Look at what {who} does on the host before its launch; the others are healthy.",),
    next_steps=(
        "py-spy dump --native --pid PID  # of {who}, twice",
        "nvidia-smi --query-gpu=index,utilization.gpu,power.draw --format=csv -l 1",
    ),
    links=("https://github.com/NVIDIA/nccl/issues/857",),
)

ALONE_AT_WORK = Signature(
    id="gpu-alone-at-work",
    story="""\
One GPU computes while those of all other ranks have nothing to do.

The ranks wait for it on the host (a store, a barrier, gloo): its rank is behind with real work, or
in a kernel that does not end.
""",
    category="missing-rank-in-collective",
    level="wait",
    title="{who} still computes: {gpus} is at {load}, the others at {theirs}",
    when=alone_at_work,
    means=(
        "Only {gpus} is at work, at {load}; {others} {are} at {theirs} and {who} is waited for: it "
        "has more to compute, or a kernel of it does not end."
    ),
    confidence="possible",
    remedies=("Compare the work of {who} with that of the others: batch, shapes, a loop.",),
    next_steps=("nvidia-smi dmon -s pu -c 10  # does the load ever end?",),
)

SIGNATURES = (NEVER_LAUNCHED, ALONE_AT_WORK)


def _launch_hit(case: Case, odd: Sequence[Device], rest: Sequence[Device], strength: float) -> Hit:
    shown = [*odd[: SHOWN // 2], *rest[:2]]
    evidence = [queries.cite_gpu(case, d, d.state_with("busy")) for d in shown]
    states = [case.states[number] for d in odd for number in d.members if case.states]
    for state in states[:2]:
        evidence += queries.evidence_of(case, state)[:1]
    hit = queries.hit_on(
        case,
        odd,
        beside=rest,
        evidence=evidence,
        strength=strength,
        fields={
            "load": queries.load_in_words(odd),
            "others": queries.gpu_names(rest),
            "theirs": queries.load_in_words(rest),
            "why": _why(case, states),
            "is": "is" if len(odd) == 1 else "are",
            "has": "has" if len(odd) == 1 else "have",
            "are": "is" if len(rest) == 1 else "are",
        },
    )
    return replace(
        hit,
        collective=queries.call_of(case, hit.affected),
        location=queries.location_of(case, states[0]) if len(states) == 1 else None,
        fields={
            **hit.fields,
            "who": case.names(hit.members) or f"the program on {queries.gpu_names(odd)}",
        },
    )


def _why(case: Case, states: Sequence[RankState]) -> str:
    """Return why nothing was launched, as far as the stack of the first rank tells."""
    if not states or states[0].status is Status.UNSEEN:
        return "Its stack would say why; it was not taken."
    held = _held(case, states[0])
    if held is not None:
        return f"Its stack says why: {held}."
    return f"Its stack shows it {activity(states[0])}; native frames (--native always) tell more."


def _held(case: Case, state: RankState) -> str | None:
    dumps = case.member(state.member).dumps
    functions = {
        frame.function.lstrip("_").partition("(")[0]
        for dump in dumps
        for thread in dump.threads
        for frame in thread.frames
        if frame.native and (state.place is None or thread.tid in {state.place.tid, None})
    }
    for starts, words in HOLDS:
        if any(function.startswith(starts) for function in functions):
            return words
    return None
