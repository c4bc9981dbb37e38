"""The state of torchrun's c10d rendezvous as its store holds it: who has come to which round.

The value of ``torch.rendezvous.<rdzv-id>`` is a pickled ``_RendezvousState`` in base64 (torch 1.9
to 2.15, dynamic_rendezvous.py): nodes are ``_NodeDesc(addr, pid, local_id)``. It is walked
operation by operation; no class is looked up and nothing is called, a record is kept as the dict
of its fields.
"""

from __future__ import annotations

import base64
import binascii
import json
import pickletools
from typing import Any

MAX_BYTES = 1 << 20
MAX_OPERATIONS = 200_000
_MARK = object()


class _Object:
    """An instance of some class: its fields, once they are told."""

    def __init__(self) -> None:
        self.fields: dict[Any, Any] = {}


class _Pairs(list[Any]):
    """A dict as keys and values in turn: its keys may be objects."""


def readable(value: str) -> str | None:
    """Return the state as JSON: round, complete, closed, and the nodes "host pid" by standing.

    None where the value is no such state.
    """
    try:
        state = _walk(base64.b64decode(value[: 2 * MAX_BYTES], validate=True))
        fields = state.fields
        summary = {
            "round": int(fields["round"]),
            "complete": bool(fields["complete"]),
            "closed": bool(fields["closed"]),
            "nodes": [_node(node) for node in fields["participants"][::2]],
            "waiting": [_node(node) for node in fields["wait_list"]],
            "spare": [_node(node) for node in fields.get("redundancy_list", ())],
        }
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, binascii.Error):
        return None
    return json.dumps(summary)


def _node(node: Any) -> str:
    return f"{node.fields['addr']} {int(node.fields['pid'])}"


def _walk(data: bytes) -> Any:  # noqa: C901 - a case per operation
    stack: list[Any] = []
    memo: dict[Any, Any] = {}

    def above_mark() -> list[Any]:
        place = max(i for i, item in enumerate(stack) if item is _MARK)
        items = stack[place + 1 :]
        del stack[place:]
        return items

    for count, (operation, argument, _) in enumerate(pickletools.genops(data)):
        name = operation.name
        if count > MAX_OPERATIONS:
            raise ValueError("too long")
        if name == "STOP":
            return stack.pop()
        if name in {"PROTO", "FRAME"}:
            continue
        if name in {"MEMOIZE", "BINPUT", "LONG_BINPUT"}:
            memo[len(memo) if argument is None else argument] = stack[-1]
        elif name in {"BINGET", "LONG_BINGET"}:
            stack.append(memo[argument])
        elif name == "MARK":
            stack.append(_MARK)
        elif name == "EMPTY_DICT":
            stack.append(_Pairs())
        elif name in {"EMPTY_SET", "EMPTY_LIST", "EMPTY_TUPLE"}:
            stack.append([])
        elif name in {"SETITEMS", "ADDITEMS", "APPENDS"}:
            items = above_mark()
            stack[-1].extend(items)
        elif name == "SETITEM":
            items = [stack.pop(), stack.pop()][::-1]
            stack[-1].extend(items)
        elif name == "APPEND":
            item = stack.pop()
            stack[-1].append(item)
        elif name == "TUPLE":
            stack.append(above_mark())
        elif name in {"TUPLE1", "TUPLE2", "TUPLE3"}:
            size = int(name[-1])
            stack[-size:] = [stack[-size:]]
        elif name in {"NEWOBJ", "REDUCE", "STACK_GLOBAL"}:
            stack[-2:] = [_Object()]
        elif name == "GLOBAL":
            stack.append(_Object())
        elif name == "BUILD":
            pairs = stack.pop()
            stack[-1].fields = dict(zip(pairs[::2], pairs[1::2], strict=True))
        elif name in {"NONE", "NEWTRUE", "NEWFALSE"}:
            stack.append({"NONE": None, "NEWTRUE": True, "NEWFALSE": False}[name])
        elif isinstance(argument, str | bytes | int | float):
            stack.append(argument)
        else:
            raise ValueError(name)
    raise ValueError("it ends in the middle")
