"""What NCCL warned of in words that no signature knows, and what it gave as a failed call's reason.

A ``NCCL WARN`` line is what NCCL prints before it returns an error; PyTorch repeats the last one
behind "Last error:", even where NCCL_DEBUG is not set.
"""

import re
import signal
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import LogLine, SignOfLife
from whyhang.analyzer.facts.times import latest
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.queries.evidence import cite_line
from whyhang.analyzer.rank_state.log_ends import have_ended

Layer = Literal["ib", "network", "paths", "nvlink", "other"]

LAST_ERROR = "nccl-last-error"
"""The name under which the log reader gives "Last error:"."""
WARNING = r"NCCL WARN (?P<what>\S.*)"
LOST_PEERS = (
    r"ncclRemoteError|remote process exited or there was a network error",
    r"Socket (?:recv|send) failed while polling|Connection closed by|reset by peer",
)
"""With ``WARNING``, patterns that signature nccl-warning has searched for."""

MAX_QUOTES = 4
CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS}
_FAILED = re.compile(r"NCCL (?:[Ee]rror|failure)\b|\bnccl[A-Z]\w+Error: ")
_SAYS_SO = re.compile(
    r"error|fail|invalid|mismatch|unable|cannot|could not|timed? ?out", re.IGNORECASE
)
# NCCL is built in layers, and a line names its source file, or the layer in its own words.
_LAYERS: dict[Layer, re.Pattern[str]] = {
    "ib": re.compile(
        r"net_ib\w*\b|ibvwrap|NET/IB|\bibv_|mlx5|\bIB\b|\bGDAKI\b|\bGIN\b|_mtu\b|\bDMA-BUF\b"
    ),
    "nvlink": re.compile(r"nvls|NVLS|[Nn][Vv][Ll]ink"),
    "paths": re.compile(
        r"\b(?:p2p|shm|rings|paths|topo|search|xml)\.cc|\bgraph/|\bring \d|P2P|\bpeer access"
        r"|[Nn]o path computed|find any local path|\bXML\b"
    ),
    "network": re.compile(
        r"\bnet\w*\.cc|socket\.|bootstrap\.|_plugin\.|\bNCCL/NET\b|NET/|\bUCX\b|\bOFI\b"
        r"|Call to (?:socket|bind|listen|accept|connect|getifaddrs|[gs]etsock\w+) "
    ),
}


def nccl_warned(case: Case) -> Iterable[Hit]:
    """Yield one hit for warnings in unknown words, unless the job went on or ended behind them."""
    return _first(_unknown(case))


def nccl_failed_in(case: Case, layer: Layer) -> Iterable[Hit]:
    """Yield one hit for the first reason of a failed call, in unknown words, if of this layer."""
    reasons = _reasons(case)
    return _first(reasons) if reasons and _layer_of(reasons) == layer else ()


def _reasons(case: Case) -> list[LogLine]:
    """List what NCCL gave as the last error, else warnings, in words that nobody knows.

    None if no call failed. A lost peer is an echo of that one's error, and so is all behind it in
    the same file.
    """
    last = case.job.lines_with((LAST_ERROR,))
    crashed = any(end.signal in CRASHES for s in case.states if (end := s.end) is not None)
    if not (last or crashed or any(_FAILED.search(line.text) for line in case.job.lines)):
        return []
    lost = {
        line.source.file: line.source.line or 0
        for line in reversed(case.job.lines_with(LOST_PEERS))
    }
    lines = last or [line for line in _unknown(case) if _SAYS_SO.search(line.fields["what"])]
    known = {line.source for line in case.job.lines if set(line.matched) - {WARNING, LAST_ERROR}}
    return [
        line
        for line in lines
        if line.source not in known
        and (not lost or (line.source.line or 0) < lost.get(line.source.file, 0))
    ]


def _layer_of(lines: Sequence[LogLine]) -> Layer:
    """Return the layer that the first of these lines names."""
    text = min(lines, key=_when).text
    return next((layer for layer, words in _LAYERS.items() if words.search(text)), "other")


def _first(lines: list[LogLine]) -> Iterator[Hit]:
    """Yield one hit for the words that were printed first."""
    if not lines:
        return
    first = min(lines, key=_when)
    what = first.fields.get("reason") or first.fields.get("what", "")
    yield Hit(
        names_culprit=False,
        evidence=tuple(cite_line(line) for line in _different(lines)),
        fields={"what": what.rstrip(". ")},
        at=first.time,
    )


def _unknown(case: Case) -> list[LogLine]:
    """List warnings that no signature looks for, and that the job did not go on or end after."""
    if have_ended(case.job):
        return []
    alive = {sign.source.file: sign.source.line or 0 for sign in case.job.of(SignOfLife)}
    return [
        line
        for line in case.job.lines_with((WARNING,))
        if set(line.matched) == {WARNING}
        and alive.get(line.source.file, 0) < (line.source.line or 0)
    ]


def _different(lines: list[LogLine]) -> list[LogLine]:
    seen = {line.fields.get("reason") or line.fields.get("what"): line for line in reversed(lines)}
    return sorted(seen.values(), key=lambda line: line.source.line or 0)[:MAX_QUOTES]


def _when(line: LogLine) -> tuple[float, int]:
    return (latest(line.time), line.source.line or 0)
