"""Names of operations and groups as c10d's C++ log lines write them."""

from __future__ import annotations

import re

from whyhang.analyzer.facts import Group

# c10d/Types (OpType names) to the names of torch.distributed's functions.
_OPS = {
    "ALLREDUCE": "all_reduce",
    "ALLREDUCE_COALESCED": "all_reduce_coalesced",
    "_ALLREDUCE_SPARSE": "all_reduce_sparse",
    "ALLGATHER": "all_gather",
    "_ALLGATHER_BASE": "all_gather_into_tensor",
    "ALLGATHER_COALESCED": "all_gather_coalesced",
    "ALLGATHER_INTO_TENSOR_COALESCED": "all_gather_into_tensor_coalesced",
    "REDUCE_SCATTER": "reduce_scatter",
    "_REDUCE_SCATTER_BASE": "reduce_scatter_tensor",
    "ALLTOALL_BASE": "all_to_all",
    "ALLTOALL": "all_to_all",
    "RECVANYSOURCE": "recv",
}
_P2P = frozenset({"send", "recv"})
# Two or three shapes of one prefix: torch 2.3 ("[PG 0 Rank 1]"), 2.4 (with a description), 2.5+.
_GROUP = re.compile(
    r"\[PG (?:ID \d+ )?(?:PG )?(?:GUID )?(?P<name>[^\s(\]]+) ?(?:\((?P<desc>[^)]*)\))?"
    r"(?: Rank (?P<rank>\d+))?\]"
)
DEFAULT_GROUP = Group(name="0", description="default_pg", inferred=True)
_MINUS_ONE = 2**64 - 1  # what c10d prints for "unknown" sizes


def op_of(op_type: str) -> str:
    """Return the torch name of an OpType: "ALLREDUCE" is "all_reduce"."""
    return _OPS.get(op_type.upper(), op_type.lower().lstrip("_"))


def is_p2p(op: str) -> bool:
    """Return whether an operation is a send or receive, not a collective."""
    return op in _P2P


def group_of(text: str) -> tuple[Group | None, int | None]:
    """Return the group a line speaks of, and the speaker's rank within it."""
    groups = list(_GROUP.finditer(text))
    if not groups:
        return None, None
    group = next((group for group in groups if group["rank"] is not None), groups[-1])
    description = None if group["desc"] in ("", "undefined") else group["desc"]
    if group["name"] == "0" and description is None:
        description = "default_pg"
    rank = int(group["rank"]) if group["rank"] else None
    return Group(name=group["name"], description=description), rank


def numbers_in(text: str) -> tuple[int, ...]:
    """Return the numbers of a list such as "[4, 10]" or "4 10"."""
    return tuple(int(number) for number in re.findall(r"\d+", text))


def shape(text: str | None) -> tuple[tuple[int, ...], ...] | None:
    """Return the shape that a list of sizes gives; None where nothing is told."""
    return None if text is None else (numbers_in(text),)


def numel(text: str | None) -> tuple[tuple[int, ...], ...] | None:
    """Read a number of elements as a flat shape; -1 as an unsigned number means unknown."""
    if text is None or int(text) == _MINUS_ONE:
        return None
    return ((int(text),),)
