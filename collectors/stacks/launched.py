"""What the way a process was launched tells of its rank: command line, locals, order of pids."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence

from whyhang.analyzer.model import NOBODY, Frame, Trust, Who, replace
from whyhang.collectors.files.naming import join
from whyhang.collectors.stacks.owner import Found

_FLAG_RANK = re.compile(r"--(?P<local>local[-_])?rank[= ](?P<rank>\d{1,6})(?!\d)")
_MESH_TITLE = re.compile(r"(?<![A-Za-z])((?:(?:DP|TP|PP|EP|CP)\d{1,4}[_ ]?)+)")
_LAUNCHER = re.compile(
    r"(?:^|[/ ])(?:torchrun|deepspeed|accelerate|mpirun|mpiexec|srun)(?: |$)"
    r"|torch\.distributed\.(?:run|launch)|deepspeed\.launcher"
)
_TORCHRUN = re.compile(r"(?:^|[/ ])torchrun(?: |$)|torch\.distributed\.(?:run|launch)")
_NODES = re.compile(r"--n(?:um[-_])?nodes[= ](\d+)")
_RANK_LOCALS = frozenset(("rank", "global_rank", "world_rank", "local_rank"))


def told_by_local(name: str, value: int, frame: Frame, *, argument: bool) -> Iterator[Who]:
    """Say what a local variable tells of the rank of its process, if it does.

    ``i`` of torch's ``_wrap`` is the index that ``mp.spawn`` gave. A ``rank`` that is no argument
    may be the variable of a loop over ranks.
    """
    if frame.file.endswith("torch/multiprocessing/spawn.py"):
        if name == "i" and frame.function == "_wrap":
            yield Who(local_rank=value)
    elif name in _RANK_LOCALS and not _is_library(frame.file):
        if name == "local_rank":
            yield Who(local_rank=value)
        elif argument or name != "rank":
            yield Who(rank=value, trust=Trust.CONTENT)
        else:
            yield Who(rank=value, trust=Trust.INFERRED)


def _is_library(file: str) -> bool:
    return file.startswith(("torch/", "<")) or "site-packages/" in file or "/torch/" in file


def agreed(told: Sequence[Who]) -> Who:
    """Join what the locals of one thread tell; ranks of equal trust that differ tell nothing."""
    if not told:
        return NOBODY
    best = max(who.trust for who in told)
    ranks = {who.rank for who in told if who.trust is best and who.rank is not None}
    local_ranks = {who.local_rank for who in told if who.local_rank is not None}
    rank = ranks.pop() if len(ranks) == 1 else None
    return Who(
        rank=rank,
        trust=Trust.NONE if rank is None else best,
        local_rank=local_ranks.pop() if len(local_ranks) == 1 else None,
    )


@functools.lru_cache(maxsize=4096)
def told_by_command(command: str) -> Who:
    """Read a rank or a place in a mesh from a command line or process title.

    ``--local_rank=3`` is what torch.distributed.launch and DeepSpeed pass; sglang and vLLM call
    their processes ``sglang::scheduler_DP0_TP0`` and ``VLLM::Worker_TP1``.
    """
    if not command or _LAUNCHER.search(command):
        return NOBODY
    rank: int | None = None
    local_rank: int | None = None
    for found in _FLAG_RANK.finditer(command):
        if found["local"]:
            local_rank = int(found["rank"])
        else:
            rank = int(found["rank"])
    mesh = _MESH_TITLE.search(command[:80]) if "::" in command[:40] else None
    if rank is None and local_rank is None and mesh is None:
        return NOBODY
    return Who(
        rank=rank,
        trust=Trust.NONE if rank is None else Trust.CONTENT,
        local_rank=local_rank,
        label=mesh[1].rstrip("_ ") if mesh else None,
    )


def by_order(found: list[Found]) -> list[Found]:
    """Give the children of a torchrun ranks by their pids: it starts local rank 0 first.

    That is a conclusion, and said to be one; what a process itself tells wins over it.
    """
    order: dict[int, dict[int, int]] = {}
    for one in found:
        if one.command and one.who.pid is not None and _TORCHRUN.search(one.command):
            children = {
                other.who.pid
                for other in found
                if other.parent == one.who.pid and other.who.pid is not None
            }
            order[one.who.pid] = {pid: place for place, pid in enumerate(sorted(children))}
    if not order:
        return found
    commands = {one.who.pid: one.command or "" for one in found}
    return [_placed(one, order, commands) for one in found]


def _placed(one: Found, order: dict[int, dict[int, int]], commands: dict[int | None, str]) -> Found:
    if one.parent not in order or one.who.pid is None:
        return one
    place = order[one.parent][one.who.pid]
    nodes = _NODES.search(commands[one.parent])
    alone = nodes is None or nodes[1] == "1"
    guess = Who(
        rank=place if alone else None,
        trust=Trust.INFERRED if alone else Trust.NONE,
        local_rank=place,
    )
    return replace(one, who=join(one.who, guess))
