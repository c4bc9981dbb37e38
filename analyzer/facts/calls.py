"""Collective and point-to-point operations as ranks issued them, and process groups."""

import enum
from collections.abc import Callable

from whyhang.analyzer.facts.base import MAX_RANKS, Record, Sourced
from whyhang.analyzer.facts.stacks import Frame
from whyhang.analyzer.facts.statements import Statement

PEER_TO_PEER = ("send", "isend", "ssend", "bsend", "rsend", "recv", "irecv", "probe", "mprobe")
"""How the names of operations between two ranks begin."""

ROOTED = frozenset(("broadcast", "reduce", "gather", "scatter"))
"""Collectives with one rank that gives or takes: some may finish while others have not joined."""


_GATHERS = frozenset(("all_gather", "all_gather_into_tensor"))
_SCATTERS = frozenset(("reduce_scatter", "reduce_scatter_tensor"))


class CallState(enum.IntEnum):
    """How far one call on one rank got. INSIDE: a stack shows the rank within the call."""

    UNKNOWN = 0
    INSIDE = 1
    SCHEDULED = 2
    STARTED = 3
    COMPLETED = 4


class Call(Record):
    """One collective or point-to-point operation as one rank issued it.

    ``op`` is the lower-case torch name ("all_reduce", "send"). ``seq`` is the sequence number
    of the group (collectives) or of the pair (``p2p``). ``peer`` is the global rank of a send
    or recv, when known, ``tag`` what both sides must agree on. Sizes are shapes, one per tensor.
    ``order`` counts the calls of this rank over all groups, as they were issued. ``unclosed``:
    in a coalesced block that was opened and not ended. ``given_up_at``: when its watchdog did.
    ``limit`` is how many seconds it may take.
    ``failed_early``: that was an error before the limit, and it was created then at the earliest.
    """

    op: str
    seq: int | None = None
    state: CallState = CallState.UNKNOWN
    p2p: bool = False
    peer: int | None = None
    tag: int | None = None
    input_sizes: tuple[tuple[int, ...], ...] | None = None
    output_sizes: tuple[tuple[int, ...], ...] | None = None
    dtypes: tuple[str, ...] = ()
    created_at: float | None = None
    given_up_at: float | None = None
    limit: float | None = None
    failed_early: bool = False
    frames: tuple[Frame, ...] = ()
    order: int | None = None
    unclosed: bool = False

    @property
    def group_size(self) -> int | None:
        """From how many ranks it gathers, or to how many it scatters, as its sizes tell."""
        if not (self.input_sizes and self.output_sizes):
            return None
        given, taken = self.input_sizes[0], self.output_sizes[0]
        if len(given) != 1 or len(taken) != 1 or self.op not in _GATHERS | _SCATTERS:
            return None
        few, many = (given[0], taken[0]) if self.op in _GATHERS else (taken[0], given[0])
        whole = 0 < few < many <= few * MAX_RANKS and many % few == 0
        return many // few if whole else None


class Group(Record):
    """A process group: the name that ranks use for it and the global ranks in it.

    Groups with equal names and different ranks are different groups ("tp" on each node).
    ``inferred``: the membership was concluded, not read.
    """

    name: str
    ranks: tuple[int, ...] | None = None
    description: str | None = None
    inferred: bool = False


class Track(Sourced):
    """How far one rank came on one group, as one source tells.

    ``enqueued`` and ``completed`` are the last sequence numbers (None: not told;
    0: none yet). ``calls`` holds those calls that matter, oldest first; ``lost`` counts
    records that a ring buffer overwrote. ``kind`` names the evidence ("flight-recorder",
    "watchdog", "fingerprint", "nccl-coll", "ras", "stack"). ``number`` is the rank within the
    group, where the source tells it. ``detail`` reads every call that the
    source has of this track, oldest first, where that is more than ``calls``. ``library`` is
    what the calls go through ("nccl", "gloo"). ``unrecorded``: the source counts more calls of
    this rank than it records (over gloo: sends and receives), so it may stand in one of those.
    ``in_motion``: the source was written sooner after the last call than this rank takes
    between two calls, so nothing shows that it stands still. ``idle``: no call of this rank on
    this group is open, though nothing tells how far it came. ``cut``: the source ends in the
    middle, and later calls may be missing. ``one_clock``: its times were measured against those of
    all other ranks.
    """

    group: Group
    kind: str
    enqueued: int | None = None
    completed: int | None = None
    calls: tuple[Call, ...] = ()
    lost: int = 0
    look: int = 0
    number: int | None = None
    detail: Callable[[], tuple[Call, ...]] | None = None
    library: str = ""
    unrecorded: bool = False
    in_motion: bool = False
    idle: bool = False
    cut: bool = False
    one_clock: bool = False


class GroupConnections(Statement):
    """The TCP connections that the process of a rank has for one process group over gloo.

    ``ends`` are both addresses of each, the own one first. ``in_call``: it waits for others of the
    group in a collective.
    """

    ends: tuple[tuple[str, str], ...]
    in_call: bool = False


def is_of_all(op: str) -> bool:
    """Return whether an operation is one of all ranks of a group, by its name.

    Not a message, nor a wait or test for requests of MPI, nor an exchange with neighbors.
    """
    some = "wait" in op or op.startswith("test") or "neighbor_" in op
    return not some and not op.startswith(PEER_TO_PEER)
