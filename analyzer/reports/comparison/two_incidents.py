"""Two incidents: what they have in common, and what tells them apart.

Ranks mean nothing to each other; signatures, places in the code, frames, hosts and quoted lines are
compared.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from whyhang.analyzer.facts import listed
from whyhang.analyzer.report import Finding, Report
from whyhang.analyzer.reports.comparison.records import Alike, Kind


def common_and_different(before: Report, after: Report) -> Iterator[Alike]:
    """Yield what both incidents have, and what tells them apart, the most telling first."""
    causes = [_causes(report) for report in (before, after)]
    yield from _of_signatures((before, after), causes)
    places = [{(f.location.file, f.location.function) for f in own if f.location} for own in causes]
    for file, function in sorted(places[0] & places[1], key=str):
        yield Alike(kind="place", says=f"the culprit at {function or '?'} ({file})", same=True)
    if all(places) and not places[0] & places[1]:
        first = [", ".join(str(f.location) for f in own[:1] if f.location) for own in causes]
        yield Alike(kind="place", says=_two(*first), same=False)
    yield from _of_frames(before, after)
    pieces = [[p for f in report.findings for p in f.evidence] for report in (before, after)]
    quotes = [[p.quote for p in own if p.line is not None] for own in pieces]
    lines = [{_NUMBER.sub("0", " ".join(q.split())): q for q in own} for own in quotes]
    for line in [line for line in lines[0] if line in lines[1]][:3]:
        yield Alike(kind="line", says=lines[1][line], same=True)
    yield from _of_hosts(before, after)
    devices = [{d for row in report.gpus for d in row.devices} for report in (before, after)]
    if common := sorted(devices[0] & devices[1]):
        yield Alike(kind="gpu", says=", ".join(common[:5]), same=True)
    yield from _of_settings(before, after)


def _causes(report: Report) -> list[Finding]:
    return [f for f in report.findings if f.caused_by is None and f.kind != "noise"]


def _of_signatures(reports: Sequence[Report], causes: Sequence[list[Finding]]) -> Iterator[Alike]:
    """Yield the causes that both have; without one, what else they share, and how they differ."""
    signatures = [dict.fromkeys(f.signature for f in own) for own in causes]
    if common := [name for name in signatures[1] if name in signatures[0]]:
        yield from (Alike(kind="signature", says=name, same=True) for name in common)
        return
    old, new = (dict.fromkeys(f.signature for f in report.findings) for report in reports)
    yield from (Alike(kind="finding", says=name, same=True) for name in new if name in old)
    if not all(signatures):
        return
    before, after = (dict.fromkeys(f.category for f in own) for own in causes)
    yield from (Alike(kind="category", says=name, same=True) for name in after if name in before)
    yield Alike(kind="signature", says=_two(*map(", ".join, signatures)), same=False)


_NUMBER = re.compile(r"\d+")
_AT_LINE = re.compile(r":\d+\)$")


def _of_frames(before: Report, after: Report) -> Iterator[Alike]:
    """Compare the culprits' stacks from the innermost frame on; lines may differ."""
    stacks = []
    for report in (before, after):
        culprits = {rank for finding in report.findings[:1] for rank in finding.culprit_ranks or ()}
        groups = (g for g in report.stack_groups if not culprits.isdisjoint(g.ranks))
        stacks.append([group.frames for group in groups if group.frames])
    best = max((_common(old, new) for old in stacks[0] for new in stacks[1]), key=len, default=())
    if len(best) > 1:
        shown = f"{best[0]} … {best[-1]}"
        yield Alike(kind="frames", says=f"{len(best)} frames: {shown}", same=True)
    elif all(stacks):
        yield Alike(kind="frames", says=_two(stacks[0][0][0], stacks[1][0][0]), same=False)


def _common(old: Sequence[str], new: Sequence[str]) -> tuple[str, ...]:
    pairs = zip(old, new, strict=False)
    alike = takewhile(lambda pair: len({_AT_LINE.sub(")", each) for each in pair}) == 1, pairs)
    return tuple(other for _, other in alike)


def _of_hosts(before: Report, after: Report) -> Iterator[Alike]:
    hosts = []
    for report in (before, after):
        ranks = {rank for f in _causes(report) for rank in f.culprit_ranks or ()}
        hosts.append({row.host for row in report.ranks if row.rank in ranks and row.host})
    if common := sorted(hosts[0] & hosts[1]):
        yield Alike(kind="host", says=f"the culprits are on {listed(common, 5)}", same=True)
    elif all(hosts):
        says = _two(", ".join(sorted(hosts[0])[:3]), ", ".join(sorted(hosts[1])[:3]))
        yield Alike(kind="host", says=says, same=False)


def _of_settings(before: Report, after: Report) -> Iterator[Alike]:
    one, other = before.job, after.job
    for label, old, new in (
        ("ranks", one.world_size, other.world_size),
        ("launcher", one.launcher, other.launcher),
        ("backend", one.backend, other.backend),
        ("torch", one.torch_version, other.torch_version),
        ("NCCL", one.nccl_version, other.nccl_version),
    ):
        if old is not None and new is not None:
            says = str(new) if old == new else _two(str(old), str(new))
            yield Alike(kind="setting", says=f"{label} {says}", same=old == new)


def _two(before: str, after: str) -> str:
    return f"{before} in the first, {after} in the second"


_SAYS: dict[Kind, str] = {"place": "place in the code", "gpu": "GPU"}
"""How a kind is called where that is not its name."""


def what_is_alike(alike: Sequence[Alike]) -> str:
    """Say in a sentence what two incidents have in common."""
    kinds = dict.fromkeys(each.kind for each in alike if each.same and each.kind != "setting")
    same = [f"the same {_SAYS.get(kind, kind)}" for kind in kinds]
    if not same:
        unlike = next((each.says for each in alike if each.kind == "signature"), "")
        return f"Two incidents that are not alike{f': {unlike}' if unlike else ''}."
    listed = same[0] if len(same) == 1 else f"{', '.join(same[:-1])} and {same[-1]}"
    return f"Two incidents with {listed}."
