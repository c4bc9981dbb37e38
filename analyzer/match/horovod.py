"""Matchers over Horovod's report of tensors that only some ranks have submitted."""

from __future__ import annotations

import re
from itertools import combinations

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Record, Who
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.match.log import quote, ranks_in

MAX_QUOTES = 6
MAX_KINDS = 300  # of sets of ranks that are compared with each other
SOME = "..."  # stands for all tensors, where lists of them were cut short

_TOLD = re.compile(r"(?P<tensor>\S+) \[(?P<how>missing|ready) ranks: ?(?P<ranks>\d[\d, ]*)")
_LISTED = re.compile(r"^(?P<rank>\d+): \[(?P<tensors>.*?)(?: \.\.\.)?\]?$")


class Stalled(Record):
    """Horovod tells for each tensor which ranks lack it, or which have submitted it.

    The ranks that lack every tensor are those the others wait for. Where one rank lacks what
    another has submitted and the other way round, the ranks are in different places instead:
    ``apart`` asks for that.
    """

    patterns: tuple[str, ...]
    apart: bool = False

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for all reports."""
        lines = case.job.lines_with(self.patterns)
        missing, ready = _read([line.text for line in lines])
        apart = _differ(missing) or _differ(ready)
        ranks = () if apart else _absent(missing, ready)
        if not (missing or ready) or apart is not self.apart or not (apart or ranks):
            return ()
        found = [case.job.member_of(Who(rank=rank)) for rank in ranks]
        first = min(lines, key=lambda line: (line.time or float("inf"), line.source.line or 0))
        return (
            Hit(
                members=tuple(sorted(member.id for member in found if member is not None)),
                ranks=tuple(r for r, m in zip(ranks, found, strict=True) if m is None),
                names_culprit=bool(ranks),
                evidence=tuple(quote(line) for line in lines[:MAX_QUOTES]),
                at=first.time,
            ),
        )


def _read(texts: list[str]) -> tuple[dict[str, set[int]], dict[str, set[int]]]:
    """Give by tensor the ranks that lack it, and the ranks that are told to have submitted it."""
    missing: dict[str, set[int]] = {}
    ready: dict[str, set[int]] = {}
    cut = any(text.endswith(("...]", "...")) for text in texts)  # lists that cannot be compared
    for text in texts:
        for told in _TOLD.finditer(text):
            into = missing if told["how"] == "missing" else ready
            into[told["tensor"]] = set(ranks_in(told["ranks"]))  # the last report counts
        if listed := _LISTED.match(text):
            names = [SOME] if cut else listed["tensors"].split(", ")
            for tensor in names:
                missing.setdefault(tensor, set()).update(ranks_in(listed["rank"]))
    return missing, ready


def _differ(by_tensor: dict[str, set[int]]) -> bool:
    """Tell whether there are two tensors of which each concerns a rank that the other does not."""
    kinds = sorted({frozenset(ranks) for ranks in by_tensor.values()}, key=sorted)[:MAX_KINDS]
    return any(one - other and other - one for one, other in combinations(kinds, 2))


def _absent(missing: dict[str, set[int]], ready: dict[str, set[int]]) -> tuple[int, ...]:
    """Say which ranks lack every tensor. Ranks are counted from 0 without gaps."""
    if missing:
        return tuple(sorted(set.intersection(*missing.values())))
    came = set[int]().union(*ready.values())
    return tuple(sorted(set(range(max(came, default=0))) - came))


def horovod_stalled(*patterns: str, apart: bool = False) -> Stalled:
    """Ask for what Horovod's stall check tells; see ``Stalled``."""
    return Stalled(patterns=patterns, apart=apart)
