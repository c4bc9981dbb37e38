"""The state of torchrun's c10d rendezvous as its store holds it: who has come to which round.

The value of ``torch.rendezvous.<rdzv-id>`` is a pickled ``_RendezvousState`` in base64 (torch 1.9
to 2.15, dynamic_rendezvous.py): nodes are ``_NodeDesc(addr, pid, local_id)``. Its operations are
listed, not run: no class is looked up and nothing is called. What is wanted stands in it as texts,
numbers and booleans in a row, each name before its value.
"""

import base64
import itertools
import json
import pickletools
from collections.abc import Iterator
from typing import TypeAlias

MAX_BYTES = 1 << 20
MAX_OPERATIONS = 200_000

_Atom: TypeAlias = "str | bytes | float | None"
_CONSTANTS: dict[str, _Atom] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_NODES = {"participants": "nodes", "wait_list": "waiting", "redundancy_list": "spare"}


def readable(value: str) -> str | None:
    """Return the state as JSON: round, complete, closed, and the nodes "host pid" by standing.

    None where the value is no such state.
    """
    fields: dict[str, _Atom] = {}
    nodes: dict[str, list[str]] = {name: [] for name in _NODES.values()}
    section, address = "", ""
    try:
        atoms = list(_atoms(base64.b64decode(value[: 2 * MAX_BYTES], validate=True)))
        for name, after in itertools.pairwise(atoms):
            if name in {"round", "complete", "closed"}:
                fields.setdefault(str(name), after)
            elif name in {*_NODES, "last_heartbeats"}:
                section = _NODES.get(str(name), "")
            elif name == "addr":
                address = str(after)
            elif name == "pid" and section:
                nodes[section].append(f"{address} {int(after or 0)}")
        state = {
            "round": int(fields["round"] or 0),
            "complete": bool(fields["complete"]),
            "closed": bool(fields["closed"]),
            **nodes,
        }
    except (ValueError, KeyError, IndexError, TypeError):
        return None
    return json.dumps(state)


def _atoms(data: bytes) -> Iterator[_Atom]:
    """Yield texts, numbers and constants of a pickle in their order, also those told before."""
    memo: dict[object, _Atom] = {}
    last: _Atom = None  # what MEMOIZE keeps: a text, or None in the place of what is built
    for count, (operation, argument, _) in enumerate(pickletools.genops(data)):
        name = operation.name
        if count > MAX_OPERATIONS:
            raise ValueError("too long")
        if name in {"MEMOIZE", "BINPUT", "LONG_BINPUT"}:
            memo[len(memo) if argument is None else argument] = last
        elif name in {"BINGET", "LONG_BINGET"}:
            last = memo[argument]
            if last is not None:
                yield last
        elif name in _CONSTANTS:
            yield _CONSTANTS[name]
        elif name not in {"PROTO", "FRAME", "GLOBAL"} and argument is not None:
            last = argument
            yield argument
        else:
            last = None
