"""What a comparison of two reports says: the contract of ``whyhang diff --json``."""

from typing import Literal

from whyhang.analyzer.facts import Record
from whyhang.analyzer.report import Verdict

SCHEMA_VERSION: Literal[1] = 1
Kind = Literal[
    "signature", "finding", "category", "place", "frames", "line", "host", "gpu", "setting"
]


class Side(Record):
    """One of the two reports, in short."""

    name: str
    verdict: Verdict
    headline: str
    world_size: int | None = None


class Ranks(Record):
    """Ranks that stood alike before, and stand alike after; equal texts: they stayed."""

    ranks: str
    count: int
    before: str
    after: str
    names: tuple[str, ...] = ()


class Group(Record):
    """How far a process group has come: the last sequence number entered, and completed by all."""

    name: str
    entered: tuple[int | None, int | None]
    completed: tuple[int | None, int | None]
    behind: tuple[str, str]

    @property
    def moved(self) -> bool:
        """Return whether any rank has entered or completed more."""
        return self.entered[0] != self.entered[1] or self.completed[0] != self.completed[1]


class Change(Record):
    """A finding that is in both, in the first only, or in the second only."""

    signature: str
    status: Literal["both", "gone", "new"]
    title: str
    culprits: tuple[str, str]
    confidence: tuple[float | None, float | None]


class Alike(Record):
    """Something that two incidents share, or do not."""

    kind: Kind
    says: str
    same: bool


class Comparison(Record):
    """Two reports compared. ``same_job``: they tell of one job at two times."""

    headline: str
    same_job: bool
    before: Side
    after: Side
    ranks: tuple[Ranks, ...] = ()
    groups: tuple[Group, ...] = ()
    findings: tuple[Change, ...] = ()
    alike: tuple[Alike, ...] = ()
    schema_version: Literal[1] = SCHEMA_VERSION
