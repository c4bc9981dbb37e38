"""The process group of a call, as the source line that makes it names it."""

import re

from whyhang.analyzer.facts import Frame, replace
from whyhang.analyzer.stacks.kinds import LineText, Place, WaitKind

MAX_CALL_LINES = 8
DEFAULT_GROUP = "the default group"

_WORLD = {"None", "dist.group.WORLD", "group.WORLD", "torch.distributed.group.WORLD"}

# dist.all_reduce(x, group=self.tp_group): the whole argument, by name. Given by position, by a
# helper's own argument, by a condition or an index that may differ, the line says nothing.
_GROUP = re.compile(
    r"[(,]\s*(?:process_)?group\s*=\s*(?:(?P<group>[\w.]+(?:\[(?:\d+|'[^']*'|\"[^\"]*\")\])*)\s*(?=[,)]))?"
)
_OF_ALL = re.compile(r"(?i)(?:^|[._])world$")
# comm.allreduce(x) of mpi4py: the object itself is the group.
_COMM = r"(?P<group>[\w.]+(?:\[[^\]]*\])*)\s*\.\s*{op}\s*\("


def named_group(place: Place, text: LineText) -> str | None:
    """Return the group that the line of a call names; None where it does not tell.

    Of a line without one that is ``DEFAULT_GROUP``, of a call of mpi4py its communicator.
    """
    line = call_text(place.user, text) if place.user is not None and place.certain else None
    if line is None:
        return None
    if place.kind is WaitKind.MPI:
        if (place.op or "").startswith("wait"):
            return None  # a method of a request, which does not tell its communicator
        name = (place.op or "").replace("_", "")
        call = re.search(_COMM.format(op=re.escape(name)), line, re.IGNORECASE) if name else None
        return call["group"] if call else None
    if not any(name and f"{name}(" in line for name in (place.op, place.api)):
        return None
    argument = _GROUP.search(line)
    if argument is None:
        # without a keyword the group may still stand there by position
        return DEFAULT_GROUP if line.count(",") == 0 else None
    group = argument["group"]
    if group is None:
        return None
    return DEFAULT_GROUP if group in _WORLD else group.removeprefix("self.").strip("_")


def is_of_all_ranks(group: str) -> bool:
    """Return whether a group's name says that all ranks are in it."""
    return group == DEFAULT_GROUP or _OF_ALL.search(group) is not None


def leaves_group_open(line: str) -> bool:
    """Return whether a call gives a group that may be another on each rank.

    So do a condition and an index: ``group=tp if rank < 4 else None``, ``group=groups[rank % 2]``.
    """
    argument = _GROUP.search(line)
    return argument is not None and argument["group"] is None


def call_text(frame: Frame, text: LineText) -> str | None:
    """Return the source of the call that a frame stands in, up to its last bracket."""
    call = ""
    for number in range(frame.line or 0, (frame.line or 0) + MAX_CALL_LINES):
        line = text(replace(frame, line=number))
        if line is None:
            return None
        call += line.partition(" #")[0]
        if call.count("(") <= call.count(")"):
            return call
    return None
