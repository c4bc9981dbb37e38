"""The operations of torch.distributed, by whatever name torch or NCCL gives them."""

from whyhang.analyzer import toml
from whyhang.analyzer.facts import Record
from whyhang.collectors import tables


class _Names(Record):
    waits: frozenset[str]
    names: dict[str, tuple[str, ...]]


_TABLE = toml.read(__package__, "ops.toml", _Names)
_OPS = tables.by_pattern(_TABLE.names)

P2P = frozenset({"send", "recv"})

OPERATIONS = _TABLE.waits
"""Functions that say by themselves that a process waits for others."""


def op_of(name: str) -> str:
    """Return the name of torch's function.

    That is ``all_gather_into_tensor`` for ``_ALLGATHER_BASE`` of c10d and ``_all_gather_base`` of
    its recorder, ``all_reduce`` for NCCL's ``AllReduce``.
    """
    name = name.lower().lstrip("_")
    return _OPS.get(name.replace("_", ""), name)
