"""The calls of each process group, and how far each rank came in it."""

from whyhang.analyzer.facts import Call, CallState, Group, Record, Source, Track

RECORDER = "flight-recorder"

OVERTAKEN = "overtaken"
"""The kind of a track whose dump is older than others: it shows nothing but membership."""

STATE = "state"
"""The kind of a track that says what the stack or the end of a rank proves of its calls."""

SPACES = {
    RECORDER: "torch",
    "watchdog": "torch",
    OVERTAKEN: "torch",
    "fingerprint": "fingerprint",  # counted by a wrapper, from 0
    "nccl-coll": "nccl",
    "ras": "nccl",
    "ras-text": "ras-text",  # counts of the operations in which ranks differ, not of all
    "stack": "stack",
    STATE: "torch",
}
"""Which sequence numbers of different kinds of evidence count the same calls."""

COUNTERS = frozenset({"ras", "ras-text"})
"""Counts of launches, read while ranks run: those of a job that moves differ at any moment."""


class Disagreement(Record):
    """Two sources say different things of one rank; the first one was believed."""

    rank: int
    group: str
    what: str
    believed: str
    other: str
    sources: tuple[Source, ...] = ()

    def __str__(self) -> str:
        where = f" of {self.group}" if self.group else ""
        return f"rank {self.rank}{where}: {self.what}: {self.believed}, but {self.other}"


class GroupProgress(Record):
    """How far one rank came on one group. ``calls`` are its collectives by sequence number.

    ``known`` is False where only its absence from a group of others says that it never used it.
    ``exact`` is False where the numbers may count sends and receives as well, or the last
    calls are not known.
    """

    rank: int
    enqueued: int | None = None
    completed: int | None = None
    calls: dict[int, Call] = {}
    p2p: tuple[Call, ...] = ()
    tracks: tuple[Track, ...] = ()
    known: bool = True
    exact: bool = True

    @property
    def source(self) -> Source | None:
        """Where the surest of its tracks was read."""
        return self.tracks[0].source if self.tracks else None

    @property
    def idle(self) -> bool:
        """Whether none of its calls is open, and no more is known."""
        return self.enqueued is None and any(track.idle for track in self.tracks)

    @property
    def behind(self) -> bool:
        """Whether it is known to have enqueued more than it has completed."""
        return self.completed is not None and (self.enqueued or 0) > self.completed

    @property
    def unrecorded(self) -> bool:
        """Whether it may be inside a call that its recorder leaves out."""
        return any(track.unrecorded for track in self.tracks)

    @property
    def over_gloo(self) -> bool:
        """Whether its calls go through gloo, which records their ends late, and of failed ones."""
        return any(track.library == "gloo" for track in self.tracks)

    def has_completed(self, seq: int) -> bool:
        """Return whether the collective of this number is known to be completed."""
        call = self.calls.get(seq)
        if call is not None and call.state is not CallState.UNKNOWN:
            return call.state is CallState.COMPLETED
        return self.completed is not None and self.completed >= seq

    def all_calls(self) -> tuple[Call, ...]:
        """Return all collectives, and then all sends and receives, reading the source once more."""
        calls = dict(self.calls)
        p2p: tuple[Call, ...] = ()
        for track in self.tracks:
            whole = track.detail() if track.detail is not None else ()
            p2p = p2p or tuple(call for call in whole if call.p2p)
            for call in whole:
                if not call.p2p and call.seq is not None:
                    calls.setdefault(call.seq, call)
        return (*calls.values(), *(p2p or self.p2p))

    def collectives(self) -> dict[int, Call]:
        """Return all collectives by number, reading the source once more."""
        return {call.seq or 0: call for call in self.all_calls() if not call.p2p}


class GroupCalls(Record):
    """One process group in one space. ``name`` is the one to show, unique within the space.

    ``index`` numbers the groups of a job. ``absent`` are members without any record. ``silent``
    counts ranks without any record that may be members, too, where the membership was inferred.
    """

    index: int
    pg: Group
    name: str
    space: str
    members: tuple[int, ...]
    progress: dict[int, GroupProgress]
    absent: frozenset[int]
    silent: int = 0

    @property
    def inferred(self) -> bool:
        """Whether the membership was inferred."""
        return self.pg.inferred

    @property
    def completed(self) -> dict[int, int | None]:
        """The last completed sequence number of each rank; None where it is not known."""
        return {rank: progress.completed for rank, progress in self.progress.items()}


class JobCalls(Record):
    """The calls of all groups. ``present`` are ranks with at least one track (stacks aside).

    ``older`` are those of which there are overtaken dumps only.
    """

    groups: tuple[GroupCalls, ...]
    present: frozenset[int]
    stacks: dict[int, Track]
    disagreements: tuple[Disagreement, ...]
    older: frozenset[int] = frozenset()
