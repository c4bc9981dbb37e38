"""Do ranks that meet under one number call the same thing? The rules per operation.

What must agree: the operation, the number of elements that each rank puts in (for operations
where it must), the type. What may differ: everything about all_to_all; outputs of operations
with a root; the inputs of an all_gather whose outputs say so; a shape with as many elements.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from whyhang.analyzer.facts import Call, Record

ROOTED = frozenset(("broadcast", "reduce", "gather", "scatter"))
"""Operations that some ranks may finish while others have not joined."""

_FAMILY = {
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "all_gather_into_tensor_coalesced": "all_gather_coalesced",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_coalesced",
}
_FREE_SIZES = frozenset(("all_to_all", "barrier", "send", "recv", "coalesced", ""))
_BY_OUTPUT = frozenset(("scatter",))


CLEAR = 3
"""How many times larger than another a camp must be to be the majority, whoever is absent."""


class Camp(Record):
    """Ranks that called the same; ``says`` is what sets them apart from the others."""

    says: str
    ranks: tuple[int, ...]


class Split(Record):
    """Ranks differ in ``field``. ``camps`` have the largest first; ``tie`` if it is not alone."""

    field: str
    camps: tuple[Camp, ...]
    tie: bool

    @property
    def minority(self) -> tuple[int, ...]:
        """The ranks outside the largest camp; none at a tie."""
        return () if self.tie else tuple(sorted(r for camp in self.camps[1:] for r in camp.ranks))


def split(calls: Mapping[int, Call], members: Sequence[int], absent: int = 0) -> Split | None:
    """Compare the calls of ranks under one number; None if they agree.

    ``members`` is the group in its own order, for outputs that list each member's share.
    ``absent`` many left no record or have not come: a camp that they could make the largest is
    no minority, unless it is a small one.
    """
    for field, key, says in (
        ("op", _op, lambda call: call.op),
        ("size", _size, _shapes),
        ("dtype", _dtype, lambda call: ", ".join(dict.fromkeys(call.dtypes))),
    ):
        camps = _camps(calls, key, says)
        if len(camps) > 1 and not (field == "size" and _uneven_by_design(calls, members)):
            most, next_most = len(camps[0].ranks), len(camps[1].ranks)
            clear = most > next_most + absent or (absent and most >= CLEAR * next_most)
            return Split(field=field, camps=camps, tie=not clear)
    return None


def same(a: Call, b: Call) -> bool:
    """Tell whether two calls could meet, or are the same step of a program."""
    pairs = ((_op(a), _op(b)), (_size(a), _size(b)), (_dtype(a), _dtype(b)))
    return all(x is None or y is None or x == y for x, y in pairs)


def family(op: str) -> str:
    """Give the operation that NCCL and gloo see: all_gather for all_gather_into_tensor."""
    return _FAMILY.get(op, op)


def _camps(
    calls: Mapping[int, Call],
    key: Callable[[Call], object],
    says: Callable[[Call], str],
) -> tuple[Camp, ...]:
    camps: dict[object, list[int]] = defaultdict(list)
    for rank, call in calls.items():
        value = key(call)
        if value is not None:
            camps[value].append(rank)
    ordered = sorted(camps.values(), key=lambda ranks: (-len(ranks), min(ranks)))
    return tuple(Camp(says=says(calls[r[0]]), ranks=tuple(sorted(r))) for r in ordered)


def _op(call: Call) -> str | None:
    return family(call.op) if call.op else None


def _size(call: Call) -> object:
    """Give what must be equal: elements per tensor, or all inputs of a reduce_scatter."""
    if family(call.op) in _FREE_SIZES:
        return None
    shapes = call.output_sizes if call.op in _BY_OUTPUT else call.input_sizes
    if not shapes:
        return None
    elements = tuple(math.prod(shape) for shape in shapes)
    return sum(elements) if family(call.op).startswith("reduce_scatter") else elements


def _dtype(call: Call) -> object:
    return tuple(dict.fromkeys(call.dtypes)) or None


def _shapes(call: Call) -> str:
    shapes = call.output_sizes if call.op in _BY_OUTPUT else call.input_sizes
    listed = [str(list(shape)) for shape in shapes or ()]
    return " ".join(listed[:4]) + (" …" if len(listed) > 4 else "")


def _uneven_by_design(calls: Mapping[int, Call], members: Sequence[int]) -> bool:
    """Tell whether each rank puts in just what all ranks expect of it (an uneven all_gather)."""
    place = {rank: index for index, rank in enumerate(members)}
    expected = None
    for rank, call in calls.items():
        outputs, inputs = call.output_sizes, call.input_sizes
        if family(call.op) != "all_gather" or not outputs or not inputs:
            return False
        if len(outputs) != len(members) or (expected is not None and outputs != expected):
            return False
        expected = outputs
        if rank not in place or math.prod(outputs[place[rank]]) != math.prod(inputs[0]):
            return False
    return expected is not None
