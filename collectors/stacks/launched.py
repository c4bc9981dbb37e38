"""What the way a process was launched tells of its rank: command line, locals, order of pids."""

import functools
import re
from collections.abc import Sequence

from whyhang.analyzer.facts import NOBODY, Frame, Trust, Who, replace
from whyhang.analyzer.job.launchers import launcher_of
from whyhang.collectors.files.naming import join
from whyhang.collectors.logs.text.prefix import mesh_label
from whyhang.collectors.stacks.sections import ProcessStacks

_FLAG_RANK = re.compile(r"--(?P<local>local[-_])?rank[= ](?P<rank>\d{1,6})(?!\d)")
_PER_NODE = {"torchrun", "torch.distributed.launch"}
_NODES = re.compile(r"--n(?:um[-_])?nodes[= ](\d+)")
LONGEST_RANK = 6  # digits
_RANK_LOCALS = frozenset(("rank", "global_rank", "world_rank", "local_rank"))


def who_by_local(name: str, value: str, frame: Frame, *, is_argument: bool) -> Who:
    """Return what a local variable says of the rank of its process; NOBODY where it does not.

    ``i`` of torch's ``_wrap`` is the index that ``mp.spawn`` gave. A ``rank`` that is no argument
    may be the variable of a loop over ranks.
    """
    if not value.isdecimal() or len(value) > LONGEST_RANK:
        return NOBODY
    if frame.file.endswith("torch/multiprocessing/spawn.py"):
        is_index = name == "i" and frame.function == "_wrap"
        return Who(local_rank=int(value)) if is_index else NOBODY
    is_library = frame.file.startswith(("torch/", "<")) or any(
        folder in frame.file for folder in ("site-packages/", "/torch/")
    )
    if name not in _RANK_LOCALS or is_library:
        return NOBODY
    if name == "local_rank":
        return Who(local_rank=int(value))
    is_sure = is_argument or name != "rank"
    return Who(rank=int(value), trust=Trust.CONTENT if is_sure else Trust.INFERRED)


def agreed(locals_: Sequence[Who]) -> Who:
    """Join what the locals of one thread say; ranks of equal trust that differ say nothing."""
    if not locals_:
        return NOBODY
    trust = max(who.trust for who in locals_)
    rank = _only({who.rank for who in locals_ if who.trust is trust})
    return Who(
        rank=rank,
        trust=Trust.NONE if rank is None else trust,
        local_rank=_only({who.local_rank for who in locals_}),
    )


def _only(numbers: set[int | None]) -> int | None:
    numbers.discard(None)
    return numbers.pop() if len(numbers) == 1 else None


@functools.lru_cache(maxsize=4096)
def who_by_command(command: str) -> Who:
    """Read a rank or a place in a mesh from a command line or process title.

    ``--local_rank=3`` is what torch.distributed.launch and DeepSpeed pass; sglang and vLLM call
    their processes ``sglang::scheduler_DP0_TP0`` and ``VLLM::Worker_TP1``.
    """
    if not command or launcher_of(command.split()):
        return NOBODY
    ranks = {bool(flag["local"]): int(flag["rank"]) for flag in _FLAG_RANK.finditer(command)}
    rank, local_rank = ranks.get(False), ranks.get(True)
    mesh = mesh_label(command[:80]) if "::" in command[:40] else None
    if not ranks and mesh is None:
        return NOBODY
    return Who(
        rank=rank,
        trust=Trust.NONE if rank is None else Trust.CONTENT,
        local_rank=local_rank,
        label=mesh,
    )


def by_order(processes: Sequence[ProcessStacks]) -> list[ProcessStacks]:
    """Give the children of a torchrun ranks by their pids: it starts local rank 0 first.

    That is a conclusion, and said to be one; what a process itself says wins over it.
    """
    launchers = {
        process.who.pid: process.command
        for process in processes
        if process.command
        and process.who.pid is not None
        and launcher_of(process.command.split()) in _PER_NODE
    }
    children: dict[int, set[int]] = {}
    for process in processes:
        if process.parent in launchers and process.who.pid is not None:
            children.setdefault(process.parent, set()).add(process.who.pid)
    by_place: dict[tuple[int | None, int | None], Who] = {}
    for parent, pids in children.items():
        nodes = _NODES.search(launchers[parent])
        is_alone = nodes is None or nodes[1] == "1"
        trust = Trust.INFERRED if is_alone else Trust.NONE
        for place, pid in enumerate(sorted(pids)):
            rank = place if is_alone else None
            by_place[parent, pid] = Who(rank=rank, trust=trust, local_rank=place)
    return [
        replace(process, who=join(process.who, who))
        if (who := by_place.get((process.parent, process.who.pid)))
        else process
        for process in processes
    ]
