"""Two ranks sit on one GPU.

Both processes have their context on it: a missing torch.cuda.set_device(LOCAL_RANK), the same
CUDA_VISIBLE_DEVICES for all, or more processes than GPUs. NCCL refuses it while a communicator is
set up, or hangs; gloo goes on slowly.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import GpuAddress
from whyhang.analyzer.job.devices import HOW
from whyhang.analyzer.queries import CLEAR, INCOMPLETE, Case, Hit, Signature, cite


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit per GPU that two ranks use; surer where another GPU of the host has no rank."""
    if case.graph.progress:
        return  # it is allowed there, or harmless
    gpus = case.job.gpus
    if not gpus.devices:
        yield from _by_address(case)
    for device in gpus.devices:
        members = [n for n in device.members if gpus.how[n] < len(HOW) - 1]
        if len(members) < 2 or len({case.member(n).rank for n in members}) < 2:
            continue
        slices = {process.pid: process.slice for process in device.now("processes") or ()}
        if len({s for n in members if (s := slices.get(case.member(n).pid))}) == len(members):
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


def _by_address(case: Case) -> Iterator[Hit]:
    """Yield one hit per address of a GPU that NCCL printed for several ranks of one host.

    Not where they give it different numbers, nor of a rank that has set up a communicator: NCCL
    has found nothing wrong then.
    """
    done = {x.who.rank for x in case.job.tracks if x.kind == "nccl-init" and x.completed}
    users: dict[tuple[str, str, int | None], dict[int, GpuAddress]] = {}
    for address in case.job.of(GpuAddress):
        member = case.job.member_of(address.who)
        rank, host = (None, None) if member is None else (member.rank, member.host)
        if rank is not None and host is not None and rank not in done:
            users.setdefault((host, address.bus, address.device), {})[rank] = address
    for (host, bus, _), addresses in users.items():
        if len(addresses) > 1:
            yield Hit(
                ranks=tuple(sorted(addresses)),
                evidence=tuple(
                    cite(address.source, address.quote, rank)
                    for rank, address in sorted(addresses.items())
                ),
                strength=INCOMPLETE,
                fields={
                    "ranks": queries.ranks_in_words(addresses),
                    "gpus": f"{bus} of {host}",
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
