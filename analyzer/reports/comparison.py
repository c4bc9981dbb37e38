"""Two reports against each other: what moved and what stayed, or what two incidents have in common.

Of one job, at two times, ranks are compared one by one. Of two incidents ranks mean nothing to
each other; there signatures, places in the code, frames, hosts and quoted lines are compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from whyhang.analyzer.facts import Record, counted, few, fold, unfold
from whyhang.analyzer.report import (
    Finding,
    ProcessGroup,
    RankRow,
    Report,
    StackGroup,
    Verdict,
)
from whyhang.analyzer.reports.page import place_line

SCHEMA_VERSION: Literal[1] = 1
SAME_START = 1.0  # seconds that two readings of one first event may differ by

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


def compare(
    before: Report, after: Report, names: tuple[str, str], *, same_job: bool | None = None
) -> Comparison:
    """Compare two reports that have gone through the gate.

    ``same_job`` None: see by the reports themselves whether they are of one job.
    """
    one = is_same_job(before, after) if same_job is None else same_job
    sides = [
        Side(name=name, verdict=r.verdict, headline=r.headline, world_size=r.job.world_size)
        for name, r in zip(names, (before, after), strict=True)
    ]
    findings = tuple(_changes(before.findings, after.findings))
    if one:
        ranks, groups = tuple(_ranks(before, after)), tuple(_groups(before.groups, after.groups))
        headline = _what_moved(before, after, ranks, groups)
        return Comparison(
            headline=headline,
            same_job=True,
            before=sides[0],
            after=sides[1],
            ranks=ranks,
            groups=groups,
            findings=findings,
        )
    alike = tuple(_alike(before, after))
    return Comparison(
        headline=_what_is_alike(alike),
        same_job=False,
        before=sides[0],
        after=sides[1],
        findings=findings,
        alike=alike,
    )


def is_same_job(before: Report, after: Report) -> bool:
    """Return whether two reports tell of one job: the same processes, or the same first event."""
    pids = [{(r.host, r.pid) for r in each.ranks if r.pid is not None} for each in (before, after)]
    if all(pids):
        return not pids[0].isdisjoint(pids[1])
    starts = before.timeline.start, after.timeline.start
    if starts[0] is not None and starts[1] is not None:
        return abs(starts[0] - starts[1]) <= SAME_START
    here, there = before.job, after.job
    return here.hosts is not None and (here.hosts, here.world_size) == (
        there.hosts,
        there.world_size,
    )


def _standing(row: RankRow | None) -> str:
    if row is None:
        return "not seen"
    activity = f": {row.activity}" if row.activity else ""
    place = f" at {place_line(row.location)}" if row.location is not None else ""
    return f"{row.state}{activity}{place}"


def _ranks(before: Report, after: Report) -> Iterator[Ranks]:
    """Fold ranks that made the same move; those that moved first."""
    rows = [{row.name or row.rank: row for row in report.ranks} for report in (before, after)]
    alike: dict[tuple[str, str], list[RankRow]] = {}
    for key in dict.fromkeys((*rows[0], *rows[1])):
        pair = rows[0].get(key), rows[1].get(key)
        row = pair[0] or pair[1]
        if row is not None:
            alike.setdefault((_standing(pair[0]), _standing(pair[1])), []).append(row)
    for (old, new), own in sorted(alike.items(), key=lambda item: item[0][0] == item[0][1]):
        yield Ranks(
            ranks=fold(row.rank for row in own if row.rank is not None),
            count=len(own),
            before=old,
            after=new,
            names=tuple(row.name for row in own if row.rank is None),
        )


def _groups(before: Sequence[ProcessGroup], after: Sequence[ProcessGroup]) -> Iterator[Group]:
    known = {group.name: group for group in before}
    for group in after:
        old = known.get(group.name)
        if old is not None:
            yield Group(
                name=group.name,
                entered=(old.entered, group.entered),
                completed=(old.completed, group.completed),
                behind=(old.behind, group.behind),
            )


def _what_moved(
    before: Report, after: Report, ranks: Sequence[Ranks], groups: Sequence[Group]
) -> str:
    moved = [each for each in ranks if each.before != each.after]
    count, whole = sum(each.count for each in moved), sum(each.count for each in ranks)
    on = [group.name for group in groups if group.moved]
    if not whole:
        said = "Neither report says where any rank stands"
    elif not moved:
        said = f"Nothing moved: {'all ' * (whole > 1)}{counted(whole, 'rank')} where before"
        said = said.replace(
            "where before", "stand where they stood" if whole > 1 else "stands still"
        )
    elif count == whole:
        said = f"{'All ' * (whole > 1)}{counted(whole, 'rank')} moved"
    else:
        which = few(rank for each in moved for rank in unfold(each.ranks))
        said = f"{count} of {counted(whole, 'rank')} moved{f' ({which})' if which else ''}"
    if on:
        said += f"; calls went on in {', '.join(on[:3])}{', …' if len(on) > 3 else ''}"
    elif moved and groups:
        said += "; no call went on in any process group"
    if before.verdict != after.verdict:
        said += f"; {before.verdict} before, {after.verdict} after"
    return f"{said}."


def _changes(before: Sequence[Finding], after: Sequence[Finding]) -> Iterator[Change]:
    """Yield the findings of both in the order of the second report, then those that are gone."""
    left = list(before)
    for new in after:
        old = next((each for each in left if each.signature == new.signature), None)
        if old is not None:
            left.remove(old)
        yield Change(
            signature=new.signature,
            status="new" if old is None else "both",
            title=new.title,
            culprits=(_culprits(old), _culprits(new)),
            confidence=(old.confidence if old is not None else None, new.confidence),
        )
    for old in left:
        yield Change(
            signature=old.signature,
            status="gone",
            title=old.title,
            culprits=(_culprits(old), ""),
            confidence=(old.confidence, None),
        )


def _culprits(finding: Finding | None) -> str:
    return fold(finding.culprit_ranks or ()) if finding is not None else ""


def _alike(before: Report, after: Report) -> Iterator[Alike]:
    """Yield what both incidents have, and what tells them apart, the most telling first."""
    causes = [_causes(report) for report in (before, after)]
    yield from _of_findings((before, after), causes)
    yield from _of_signatures(*causes)
    places = [{(f.location.file, f.location.function) for f in own if f.location} for own in causes]
    for file, function in sorted(places[0] & places[1], key=str):
        yield Alike(kind="place", says=f"the culprit at {function or '?'} ({file})", same=True)
    if all(places) and not places[0] & places[1]:
        yield Alike(kind="place", says=_two(*(_places(own) for own in causes)), same=False)
    yield from _of_frames(before, after)
    lines = [
        {_line(p.quote): p.quote for f in own for p in f.evidence if p.line is not None}
        for own in (before.findings, after.findings)
    ]
    for line in [line for line in lines[0] if line in lines[1]][:3]:
        yield Alike(kind="line", says=lines[1][line], same=True)
    yield from _of_hosts(before, after)
    devices = [{d for row in report.gpus for d in row.devices} for report in (before, after)]
    if common := sorted(devices[0] & devices[1]):
        yield Alike(kind="gpu", says=", ".join(common[:5]), same=True)
    yield from _of_settings(before, after)


def _causes(report: Report) -> list[Finding]:
    return [f for f in report.findings if f.caused_by is None and f.kind != "noise"]


def _of_findings(reports: Sequence[Report], causes: Sequence[list[Finding]]) -> Iterator[Alike]:
    """Yield what both have where it is no cause in one of them, and they share no cause."""
    old, new = ({f.signature for f in own} for own in causes)
    if old & new:
        return
    seen = {f.signature for f in reports[0].findings}
    for name in dict.fromkeys(f.signature for f in reports[1].findings):
        if name in seen:
            yield Alike(kind="finding", says=name, same=True)


def _of_signatures(before: list[Finding], after: list[Finding]) -> Iterator[Alike]:
    found = [list(dict.fromkeys(f.signature for f in own)) for own in (before, after)]
    common = [signature for signature in found[1] if signature in found[0]]
    for signature in common:
        yield Alike(kind="signature", says=signature, same=True)
    if common or not all(found):
        return
    categories = [list(dict.fromkeys(f.category for f in own)) for own in (before, after)]
    shared = [category for category in categories[1] if category in categories[0]]
    for category in shared:
        yield Alike(kind="category", says=category, same=True)
    yield Alike(kind="signature", says=_two(", ".join(found[0]), ", ".join(found[1])), same=False)


def _places(causes: list[Finding]) -> str:
    return ", ".join(place_line(f.location) for f in causes[:1] if f.location is not None)


_NUMBER = re.compile(r"\d+")
_AT_LINE = re.compile(r":\d+\)$")


def _line(quote: str) -> str:
    return _NUMBER.sub("0", " ".join(quote.split()))


def _of_frames(before: Report, after: Report) -> Iterator[Alike]:
    """Compare the culprits' stacks from the innermost frame on; lines may differ."""
    stacks = [list(_of_culprits(report)) for report in (before, after)]
    best = max(
        (_common(old, new) for old in stacks[0] for new in stacks[1]),
        key=len,
        default=(),
    )
    if len(best) > 1:
        shown = f"{best[0]} … {best[-1]}"
        yield Alike(kind="frames", says=f"{len(best)} frames: {shown}", same=True)
    elif all(stacks):
        says = _two(stacks[0][0].frames[0], stacks[1][0].frames[0])
        yield Alike(kind="frames", says=says, same=False)


def _of_culprits(report: Report) -> Iterable[StackGroup]:
    culprits = {rank for finding in report.findings[:1] for rank in finding.culprit_ranks or ()}
    return (g for g in report.stack_groups if g.frames and (not culprits.isdisjoint(g.ranks)))


def _common(old: StackGroup, new: StackGroup) -> tuple[str, ...]:
    same = []
    for one, other in zip(old.frames, new.frames, strict=False):
        if _AT_LINE.sub(")", one) != _AT_LINE.sub(")", other):
            break
        same.append(other)
    return tuple(same)


def _of_hosts(before: Report, after: Report) -> Iterator[Alike]:
    hosts = []
    for report in (before, after):
        ranks = {rank for f in _causes(report) for rank in f.culprit_ranks or ()}
        hosts.append({row.host for row in report.ranks if row.rank in ranks and row.host})
    common = sorted(hosts[0] & hosts[1])
    if common:
        says = f"the culprits are on {', '.join(common[:5])}{', …' if len(common) > 5 else ''}"
        yield Alike(kind="host", says=says, same=True)
    elif all(hosts):
        says = _two(", ".join(sorted(hosts[0])[:3]), ", ".join(sorted(hosts[1])[:3]))
        yield Alike(kind="host", says=says, same=False)


def _of_settings(before: Report, after: Report) -> Iterator[Alike]:
    for label, name in (
        ("ranks", "world_size"),
        ("launcher", "launcher"),
        ("backend", "backend"),
        ("torch", "torch_version"),
        ("NCCL", "nccl_version"),
    ):
        old, new = getattr(before.job, name), getattr(after.job, name)
        if old is None or new is None:
            continue
        says = f"{label} {new}" if old == new else f"{label} {_two(str(old), str(new))}"
        yield Alike(kind="setting", says=says, same=old == new)


def _two(before: str, after: str) -> str:
    return f"{before} in the first, {after} in the second"


_SAYS: dict[Kind, str] = {
    "signature": "the same signature",
    "finding": "the same finding",
    "category": "the same category",
    "place": "the same place in the code",
    "frames": "the same frames",
    "line": "the same line",
    "host": "the same host",
    "gpu": "the same GPU",
}


def _what_is_alike(alike: Sequence[Alike]) -> str:
    same = list(
        dict.fromkeys(_SAYS[each.kind] for each in alike if each.same and each.kind in _SAYS)
    )
    if not same:
        return "Two incidents that have nothing in common but, at most, settings."
    listed = same[0] if len(same) == 1 else f"{', '.join(same[:-1])} and {same[-1]}"
    return f"Two incidents with {listed}."
