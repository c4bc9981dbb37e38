"""Two ranks sit on one GPU.

Both processes have their context on it: a missing torch.cuda.set_device(LOCAL_RANK), the same
CUDA_VISIBLE_DEVICES for all, or more processes than GPUs. NCCL refuses it while a communicator is
set up, or hangs; gloo goes on slowly.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import GpuAddress, short_host
from whyhang.analyzer.findings.signature import CLEAR, INCOMPLETE
from whyhang.analyzer.job.device import Device
from whyhang.analyzer.job.device_of_rank import HOW
from whyhang.analyzer.queries import Case, Hit, Signature, cite
from whyhang.analyzer.rank_state.beside_stacks import COMM_INIT


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit per GPU that two ranks use; surer where another GPU of the host has no rank."""
    if case.graph.progress:
        return  # it is allowed there, or harmless
    yield from _shared_by_prints(case) if case.job.gpus.devices else _shared_by_addresses(case)


def _shared_by_prints(case: Case) -> Iterator[Hit]:
    gpus = case.job.gpus
    for device in gpus.devices:
        members = [n for n in device.members if gpus.how[n] < len(HOW) - 1]
        if len(members) < 2 or len({case.member(n).rank for n in members}) < 2:
            continue
        if len({s for n in members if (s := _slice(case, device, n))}) == len(members):
            continue  # each has a MIG device of its own
        free = [d for d in gpus.devices if d.place == device.place and not d.members]
        ranks = case.ranks(members)
        yield queries.hit_on(
            case,
            [device],
            evidence=[queries.cite_gpu(case, device, device.state_with("processes"))],
            strength=CLEAR if free else INCOMPLETE,
            beside=free[:8],
            fields={
                "ranks": queries.ranks_in_words(ranks) if ranks else case.names(members),
                "free": f"; {queries.gpu_names(free)} {'has' if len(free) == 1 else 'have'} no rank"
                if free
                else "",
            },
        )


def _shared_by_addresses(case: Case) -> Iterator[Hit]:
    """Compare what NCCL's own lines say, of ranks that wait until their communicator is made."""
    waiting = {
        number
        for number in case.graph.waiting
        if (position := case.states[number].position) is not None
        and position.inside
        and position.call.op == COMM_INIT
    }
    users: dict[tuple[str, str], dict[int, GpuAddress]] = {}
    for address in case.job.of(GpuAddress):
        member = case.job.member_of(address.who)
        if member is not None and member.id in waiting and member.host is not None:
            users.setdefault((short_host(member.host), address.bus), {})[member.id] = address
    shared = {
        gpu: sorted(by_member)
        for gpu, by_member in users.items()
        if len({case.member(number).pid for number in by_member}) > 1
    }
    if not shared:
        return
    members = tuple(sorted({number for numbers in shared.values() for number in numbers}))
    sides = [queries.ranks_in_words(case.ranks(numbers)) for numbers in shared.values()]
    yield Hit(
        members=members,
        affected=tuple(sorted(set(case.graph.waiting) - set(members))),
        evidence=tuple(
            cite(users[gpu][number].source, f"the GPU at {gpu[1]}", case.member(number).rank)
            for gpu, numbers in shared.items()
            for number in numbers
        ),
        fields={
            "ranks": " and ".join((sides[0], *(side.lower() for side in sides[1:]))),
            "gpus": " and ".join(f"{bus} on {host}" for host, bus in shared),
            "free": "",
        },
    )


SIGNATURE = Signature(
    id="gpu-shared-by-ranks",
    category="duplicate-gpu",
    level="wait",
    title="{ranks} use the same GPU, {gpus}{free}",
    when=when,
    means="{ranks} have their memory on {gpus}{free}. NCCL does not allow that.",
    confidence="likely",
    remedies=(
        "Call torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) before the first CUDA call.",
        "Start no more processes on a host than it has GPUs; check CUDA_VISIBLE_DEVICES of each.",
    ),
    next_steps=("nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv",),
    links=("https://github.com/NVIDIA/nccl/issues/1241",),
)


def _slice(case: Case, device: Device, member: int) -> str | None:
    pid = case.member(member).pid
    processes = device.now("processes") or ()
    return next((process.slice for process in processes if process.pid == pid), None)
