"""Ranks whose progress bar is not full, where those of the others are."""

import re
from collections.abc import Iterator, Mapping

from whyhang.analyzer.facts import LogTail, replace
from whyhang.analyzer.rank_state.from_logs.phase import LastPhase

MOST = 0.75  # of the others, which agree
_BAR = re.compile(r"(?<!\d)(?P<at>\d+)/(?P<all>\d+) \[\d\d:\d\d")


def unfinished_bars(tails: Mapping[int, LogTail]) -> Iterator[tuple[int, LastPhase]]:
    """Yield the ranks whose progress bar is not full, where those of most others are."""
    bars = {
        rank: (tail.lines[-1], bar["at"] == bar["all"])
        for rank, tail in tails.items()
        if tail.lines and not tail.cut and (bar := _BAR.search(tail.lines[-1].text)) is not None
    }
    full = [rank for rank, (_, is_full) in bars.items() if is_full]
    if len(bars) < len(tails) or len(full) < max(2, MOST * len(bars)):
        return
    (last, _), source = bars[full[0]], tails[full[0]].source
    for rank in bars.keys() - {*full}:
        line = bars[rank][0]
        if line.template == last.template:
            yield (
                rank,
                LastPhase(
                    rank=rank,
                    line=line,
                    source=replace(tails[rank].source, line=line.number),
                    others=tuple(sorted(full)),
                    lacks=last,
                    lacks_source=replace(source, line=last.number),
                    at_work=True,
                ),
            )
