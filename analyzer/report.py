"""The diagnosis as the contract fixes it: the records behind ``--format json``.

On-call automation reads these names. Fields may be added; none may change meaning. The JSON
Schema that ``whyhang schema`` prints is made from these types.
"""

from typing import Annotated, Any, Literal

import msgspec

from whyhang.analyzer.facts import Record, Source

SCHEMA_VERSION: Literal[1] = 1

Verdict = Literal["hung", "failed", "slow", "healthy", "inconclusive"]
RankStateName = Literal[
    "waiting", "blocked", "running", "stopped", "exited", "missing", "unreachable"
]
Confidence = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Evidence(Record):
    """What a statement rests on: the place it was read and its words, verbatim."""

    source: str
    quote: str
    line: int | None = None
    rank: int | None = None

    @property
    def place(self) -> Source:
        """The file and line where it was read."""
        return Source(file=self.source, line=self.line)


def cite(source: Source, quote: str, rank: int | None = None) -> Evidence:
    """Return words as evidence, with the file and line where they were read."""
    return Evidence(source=source.file, line=source.line, rank=rank, quote=quote)


class Collective(Record):
    """The collective in question. ``others``: what the other ranks called, for a mismatch."""

    op: str
    group: str | None = None
    seq: int | None = None
    others: str | None = None


class Location(Record):
    """A place in the user's own code. ``excerpt`` holds source lines around it, if known."""

    file: str
    line: int | None = None
    function: str | None = None
    excerpt: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = f"{self.file}{f':{self.line}' if self.line is not None else ''}"
        return f"{self.function} ({where})" if self.function else where


class Finding(Record):
    """One thing that is wrong, and why it is believed.

    ``caused_by`` is the index of the finding that this one is an effect of. ``subjects`` names
    whom it is about in words, also where no rank number is known. A ``kind`` of "consequence" that
    nothing is said to have caused is one whose cause is not in the evidence. ``owner`` and
    ``runbook_url`` are from the user's configuration.
    """

    signature: str
    category: str
    confidence: Confidence
    title: str
    explanation: str
    culprit_ranks: tuple[int, ...] | None = None
    affected_ranks: tuple[int, ...] = ()
    collective: Collective | None = None
    location: Location | None = None
    evidence: tuple[Evidence, ...] = ()
    remedies: tuple[str, ...] = ()
    next_steps: tuple[str, ...] = ()
    runbook_url: str | None = None
    caused_by: int | None = None
    kind: Literal["cause", "consequence", "noise"] = "cause"
    subjects: tuple[str, ...] = ()
    owner: str | None = None


class Event(Record):
    """Something that changed the picture, at a time after the first event where that is known.

    ``source`` and ``line`` are the first of the ``lines`` that show it, ``finding`` is the index of
    the finding that explains it.
    """

    seconds: float | None
    ranks: tuple[int, ...]
    says: str
    source: str
    line: int | None = None
    lines: int = 1
    finding: int | None = None


class RankRow(Record):
    """Where one rank stands. ``name`` says who it is when the rank number is not known.

    ``step`` is the last one that it noted itself (``whyhang.heartbeat``).
    """

    rank: int | None
    host: str | None
    pid: int | None
    state: RankStateName
    activity: str
    location: Location | None = None
    name: str = ""
    step: int | None = None


class GpuRow(Record):
    """GPUs in one state, where that decides something.

    ``name`` names them together, ``devices`` one by one. ``use`` is the share of time with a
    kernel running, ``power`` what they draw, both as ranges over the samples.
    """

    ranks: tuple[int, ...]
    name: str
    devices: tuple[str, ...] = ()
    use: str = ""
    power: str = ""
    says: str = ""


class StackGroup(Record):
    """Ranks that stand at the same place. ``frames`` are printed innermost first."""

    ranks: tuple[int, ...]
    frames: tuple[str, ...]
    waits_for: str | None = None
    names: tuple[str, ...] = ()
    thread: str = "main"


class LinesAround(Record):
    """The lines of a file around one that is cited as evidence: ``lines[0]`` is line ``first``."""

    source: str
    line: int
    first: int
    lines: tuple[str, ...]


class ProcessGroup(Record):
    """A process group and how far its ranks came in it, as records tell.

    ``ranks`` is folded ("0-3,7"), ``size`` counts them. ``completed`` is the last sequence number
    that all of them have completed, ``entered`` the last that any has entered; ``behind`` are the
    ranks that have not entered that one, ``unseen`` those of which nothing is recorded.
    """

    name: str
    ranks: str
    size: int
    completed: int | None = None
    entered: int | None = None
    behind: str = ""
    unseen: str = ""


class LaneCall(Record):
    """A call that the ranks of a lane made.

    ``start`` and ``latest`` are when the first and the last of them entered it, ``end`` is when
    its watchdog gave it up, in seconds as in ``Event``; completed calls leave no end.
    """

    name: str
    group: str
    op: str
    seq: int | None
    state: Literal["completed", "pending", "unknown"]
    start: float | None = None
    latest: float | None = None
    end: float | None = None


class Lane(Record):
    """Ranks that did the same: a line of the timeline.

    ``ranks`` is folded, ``count`` is how many processes they are, ``names`` those without a rank
    number. ``calls`` are the last of its lowest rank, oldest first, ``events`` index the story.
    """

    ranks: str
    count: int
    state: RankStateName
    activity: str
    names: tuple[str, ...] = ()
    culprit: bool = False
    calls: tuple[LaneCall, ...] = ()
    events: tuple[int, ...] = ()


class Timeline(Record):
    """What ranks did in time. ``start`` is second 0 of all times, since the epoch (UTC).

    ``end`` is when they were last looked at or heard of. ``last_common`` is the last call that all
    ranks of the largest process group have completed, where that holds half of them; ``gap`` is
    the seconds from its start to ``end``.
    """

    start: float | None = None
    end: float | None = None
    last_common: LaneCall | None = None
    gap: float | None = None
    lanes: tuple[Lane, ...] = ()


class WaitNode(Record):
    """Ranks that wait alike or do the same, or a call that ranks wait in.

    ``role``: waits end at a "root", never end in a "cycle"; a "missing" rank has no process.
    ``culprit``: the first finding names these ranks. ``hosts`` are theirs, of a job on several.
    """

    kind: Literal["ranks", "call"]
    says: str
    ranks: str = ""
    count: int = 0
    names: tuple[str, ...] = ()
    state: RankStateName | None = None
    role: Literal["root", "cycle", "missing", ""] = ""
    culprit: bool = False
    hosts: tuple[str, ...] = ()


class WaitEdge(Record):
    """One node waits for another, by index. ``certain``: the others are known not to be there."""

    source: int
    target: int
    certain: bool = True


class Waits(Record):
    """Who waits for whom: from ranks to the call they are in, from there to who has not come."""

    nodes: tuple[WaitNode, ...] = ()
    edges: tuple[WaitEdge, ...] = ()


class Job(Record):
    """What is known of the job as a whole; null where unknown.

    ``command`` is the command line of a rank, secrets blanked; ``run_id`` what its launcher or
    scheduler calls this run.
    """

    world_size: int | None = None
    hosts: tuple[str, ...] | None = None
    launcher: str | None = None
    backend: str | None = None
    torch_version: str | None = None
    nccl_version: str | None = None
    command: str | None = None
    run_id: str | None = None


class Captured(Record):
    """When processes of the job were looked at, first and last, in seconds since the epoch (UTC).

    By the clocks of their hosts.
    """

    first: float
    last: float
    looks: int


class Report(Record):
    """The whole diagnosis. Findings stand most likely root cause first.

    ``gpus`` are those that decide something, ``devices`` all that are known.
    """

    verdict: Verdict
    headline: str
    job: Job
    findings: tuple[Finding, ...] = ()
    story: tuple[Event, ...] = ()
    ranks: tuple[RankRow, ...] = ()
    stack_groups: tuple[StackGroup, ...] = ()
    gpus: tuple[GpuRow, ...] = ()
    gaps: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    timeline: Timeline = Timeline()
    waits: Waits = Waits()
    groups: tuple[ProcessGroup, ...] = ()
    devices: tuple[GpuRow, ...] = ()
    lines_around: tuple[LinesAround, ...] = ()
    captured: Captured | None = None
    schema_version: Literal[1] = SCHEMA_VERSION
    tool_version: str = ""


def to_json(report: Report) -> bytes:
    """Encode a report as indented UTF-8 JSON with a final newline."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"


def schema() -> dict[str, Any]:
    """Build the JSON Schema (2020-12) of a report."""
    document = msgspec.json.schema(Report)
    document["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    document["title"] = "whyhang diagnosis, version 1"
    return document
