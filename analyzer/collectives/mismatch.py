"""Do ranks that meet under one sequence number call the same thing? The rules per operation.

What must agree: the operation, the number of elements that each rank puts in (for operations
where it must), the type. What may differ: everything about all_to_all; outputs of operations
with a root; the inputs of an all_gather whose outputs say so; a shape with as many elements.
"""

import math
from collections.abc import Callable, Mapping, Sequence

from whyhang.analyzer.facts import Call, Frame, Record, grouped

_FAMILY = {
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "all_gather_into_tensor_coalesced": "all_gather_coalesced",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_coalesced",
}
_FREE_SIZES = frozenset(("all_to_all", "barrier", "send", "recv", "coalesced", ""))

CLEAR = 3
"""How many times larger than another a side must be to be the usual one, whoever is absent."""


class Side(Record):
    """What some ranks did under one number: one side of a mismatch.

    ``says`` is what sets the side apart ("all_reduce", "[4, 10] Float"); ``site`` is the
    place in the user's code of the first of its ranks, where that was looked up.
    """

    says: str
    ranks: tuple[int, ...]
    site: Frame | None = None


class Mismatch(Record):
    """Ranks differ in ``field``. ``sides``: most ranks first; ``tie``: none has clearly most."""

    field: str
    sides: tuple[Side, ...]
    tie: bool

    @property
    def minority(self) -> tuple[int, ...]:
        """The ranks outside the largest side; none at a tie."""
        others = () if self.tie else self.sides[1:]
        return tuple(sorted(rank for side in others for rank in side.ranks))


def find_mismatch(
    calls: Mapping[int, Call], members: Sequence[int], absent: int = 0
) -> Mismatch | None:
    """Compare the calls of ranks under one number; None if they agree.

    ``members`` is the group in its own order, for outputs that list each member's share.
    ``absent`` many left no record or have not come: a side that they could make larger than
    the largest is no minority, unless it is a small one.
    """
    compared: tuple[tuple[str, Callable[[Call], object], Callable[[Call], str]], ...] = (
        ("op", lambda call: family(call.op) or None, lambda call: call.op),
        ("size", _size, _shapes),
        ("dtype", lambda call: _dtypes(call) or None, _dtypes),
    )
    for field, key, says in compared:
        known = {rank: value for rank, call in calls.items() if (value := key(call)) is not None}
        alike = sorted(grouped(known, known.__getitem__).values(), key=lambda r: (-len(r), min(r)))
        if len(alike) > 1 and not (field == "size" and _uneven_by_design(calls, members)):
            most, next_most = len(alike[0]), len(alike[1])
            clear = most >= next_most + max(absent, 1) or (absent and most >= CLEAR * next_most)
            sides = (Side(says=says(calls[own[0]]), ranks=tuple(sorted(own))) for own in alike)
            return Mismatch(field=field, sides=tuple(sides), tie=not clear)
    return None


def family(op: str) -> str:
    """Return the operation that NCCL and gloo see: all_gather for all_gather_into_tensor."""
    return _FAMILY.get(op, op)


def elements(call: Call) -> tuple[int, ...]:
    """Return the elements of each input; of an all_to_all none, which differ by design."""
    if call.op == "all_to_all":
        return ()
    return tuple(math.prod(shape) for shape in call.input_sizes or ())


def _compared_sizes(call: Call) -> tuple[tuple[int, ...], ...]:
    return (call.output_sizes if call.op == "scatter" else call.input_sizes) or ()


def _size(call: Call) -> object:
    """Return what must be equal: elements per tensor, or of all inputs of a reduce_scatter."""
    shapes = _compared_sizes(call)
    if (family(call.op) in _FREE_SIZES and not _gathers(call)) or not shapes:
        return None
    counts = tuple(math.prod(shape) for shape in shapes)
    return sum(counts) if family(call.op).startswith("reduce_scatter") else counts


def _gathers(call: Call) -> bool:
    """Return whether a coalesced block is of gathers: its outputs hold its inputs several times.

    One of sends and receives takes in and gives out what each rank exchanges.
    """
    given, got = (sum(map(math.prod, s or ())) for s in (call.input_sizes, call.output_sizes))
    return call.op == "coalesced" and 0 < given < got and got % given == 0


def _dtypes(call: Call) -> str:
    return ", ".join(dict.fromkeys(call.dtypes))


def _shapes(call: Call) -> str:
    listed = [str(list(shape)) for shape in _compared_sizes(call)]
    return " ".join(listed[:4]) + (" …" if len(listed) > 4 else "")


def _uneven_by_design(calls: Mapping[int, Call], members: Sequence[int]) -> bool:
    """Return whether each rank puts in just what all ranks expect of it (an uneven all_gather)."""
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
