"""NCCL says what went wrong, in words that have no signature of their own."""

import re
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence

from whyhang.analyzer import queries
from whyhang.analyzer.facts import LogLine, SignOfLife, replace
from whyhang.analyzer.facts.exceptions import EXCEPTION
from whyhang.analyzer.queries import Case, Hit, Kind, Signature
from whyhang.analyzer.rank_state.log_ends import have_ended

LAST_ERROR = "nccl-last-error"
"""The name under which the log reader gives "Last error:"."""

WARNING = r"NCCL WARN (?P<what>\S.*)"
LOST_PEERS = (
    r"ncclRemoteError|remote process exited or there was a network error",
    r"Socket (?:recv|send) failed while polling|Connection closed by|reset by peer",
)
MAX_QUOTES = 4
CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS}
_FAILED = re.compile(r"NCCL (?:[Ee]rror|failure)\b|\bnccl[A-Z]\w+Error: ")
_SAYS_SO = re.compile(
    r"error|fail|invalid|mismatch|unable|cannot|could not|timed? ?out", re.IGNORECASE
)
# NCCL is built in layers, and a line names its source file, or the layer in its own words.
_LAYERS = {
    "nccl-ib-error": re.compile(r"net_ib\w*\.|ibvwrap|NET/IB|\bibv_|mlx5|\bIB\b"),
    "nvlink-error": re.compile(r"nvls|NVLS|[Nn][Vv][Ll]ink"),
    "nccl-p2p-or-acs": re.compile(
        r"\b(?:p2p|shm|rings|paths|topo|search)\.cc|\bring \d|P2P|\bpeer access"
    ),
    "nccl-network-interface": re.compile(
        r"\bnet\w*\.cc|socket\.|bootstrap\.|_plugin\.|\bNCCL/NET\b|NET/|\bUCX\b|\bOFI\b"
    ),
}
OTHER = "nccl-internal-error"


def warned(case: Case) -> Iterable[Hit]:
    return _first(_strange(case))


def failed_in(layer: str) -> Callable[[Case], Iterable[Hit]]:
    """Return a query for the first reason of a failed call, if it is of a layer."""
    return lambda case: _first(lines) if _layer_of(lines := _reasons(case)) == layer else ()


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
    lines = last or [line for line in _strange(case) if _SAYS_SO.search(line.fields["what"])]
    known = {
        line.source
        for line in case.job.lines
        if set(line.matched) - {WARNING, LAST_ERROR, EXCEPTION}
    }
    return [
        line
        for line in lines
        if line.source not in known
        and (not lost or (line.source.line or 0) < lost.get(line.source.file, 0))
    ]


def _layer_of(lines: Sequence[LogLine]) -> str:
    """Return the category of the layer that the first of these lines names."""
    if not lines:
        return ""
    text = min(lines, key=_when).text
    return next((layer for layer, words in _LAYERS.items() if words.search(text)), OTHER)


WARNED = Signature(
    id="nccl-warning",
    story="""\
NCCL warns of something, and nothing else in the logs tells what is wrong.

A WARN line is what NCCL prints before it returns an error. Those with a known story have
signatures of their own; this one makes sure that an unknown one is not passed over in silence.
A job that is seen to work on below it was not stopped by it.
""",
    category="unknown",
    kind=Kind.CONSEQUENCE,
    level="peer",
    title="NCCL warns: {what}",
    when=warned,
    patterns=(WARNING,),
    means="NCCL prints such a line when one of its calls fails. What it means for the job is open.",
    confidence="hint",
    next_steps=(
        "Read the lines around it in the logs of all ranks: who says it first?",
        "Run again with NCCL_DEBUG=INFO",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
    matches=(
        "node3:75:95 [2] graph/xml.h:101 NCCL WARN Attribute arch of node cpu not found",
        "node3:99:140 [1] init.cc:800 NCCL WARN Something that nobody has seen before",
    ),
    misses=("node3:99:140 [1] NCCL INFO init.cc:1548 -> 3",),
)

FAILED = Signature(
    id="nccl-failed-saying-why",
    story="""\
A call of NCCL failed, and it said why in words that have no signature of their own.

PyTorch repeats NCCL's last warning behind "Last error:", even where NCCL_DEBUG is not set; else
the reason is a WARN line. With several ranks, the one that failed first may say something else
than the others, which only lost their peer. Where the line names the layer of NCCL that it comes
from (InfiniBand, sockets and network plugins, the paths between GPUs, NVLink), the finding is of
that layer.
""",
    category=OTHER,
    level="peer",
    title="NCCL failed: {what}",
    when=failed_in(OTHER),
    vetoes=LOST_PEERS,
    means=(
        "A call of NCCL failed and the job ended on it. These are its own words for the reason; "
        "they blame no rank."
    ),
    confidence="possible",
    remedies=(
        "Read the WARN lines of all ranks (NCCL_DEBUG=WARN): the first of them is the cause.",
    ),
    next_steps=(
        "grep -n 'NCCL WARN' LOG  # in the logs of all ranks",
        "df -h /dev/shm; ulimit -l; nvidia-smi; dmesg -T | grep -i xid  # on each host",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
    misses=(
        "[rank1]: ncclRemoteError: A call failed possibly due to a network error",
        "[rank1]: socketProgress: Connection closed by remote peer n9<55912>",
    ),
    # carries the reason of the same error
    explains=("nccl-unhandled-error", "plain-exception"),
)


def _in_layer(words: str, step: str) -> Signature:
    """Return the same story told of one layer of NCCL; it has its own id and category."""
    return replace(
        FAILED,
        level="setup",  # deep enough to explain the error that carries the reason
        explains=(),
        title=f"NCCL failed in {words}: {{what}}",
        next_steps=(step, *FAILED.next_steps[:1]),
    )


SIGNATURES = (
    WARNED,
    FAILED,
    replace(
        _in_layer("InfiniBand", "ibstat; rdma link; ulimit -l  # on each host"),
        id="nccl-failed-in-ib",
        category="nccl-ib-error",
        when=failed_in("nccl-ib-error"),
    ),
    replace(
        _in_layer("its network layer", "ip -br addr; env | grep -E 'NCCL|UCX|FI_'  # on each host"),
        id="nccl-failed-in-network",
        category="nccl-network-interface",
        when=failed_in("nccl-network-interface"),
    ),
    replace(
        _in_layer("the paths between GPUs", "nvidia-smi topo -m"),
        id="nccl-failed-in-paths",
        category="nccl-p2p-or-acs",
        when=failed_in("nccl-p2p-or-acs"),
    ),
    replace(
        _in_layer("NVLink", "nvidia-smi nvlink -s; nvidia-smi -q | grep -A3 Fabric"),
        id="nccl-failed-in-nvlink",
        category="nvlink-error",
        when=failed_in("nvlink-error"),
    ),
)


def _first(lines: list[LogLine]) -> Iterator[Hit]:
    """Yield one hit for the words that were printed first."""
    if not lines:
        return
    first = min(lines, key=_when)
    what = first.fields.get("reason") or first.fields.get("what", "")
    yield Hit(
        names_culprit=False,
        evidence=tuple(queries.cite_line(line) for line in _different(lines)),
        fields={"what": what.rstrip(". ")},
        at=first.time,
    )


def _strange(case: Case) -> list[LogLine]:
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
    return (line.time or float("inf"), line.source.line or 0)
