"""Variables of the environment (env, exports, scripts) and limits (ulimit, /proc/PID/limits)."""

import itertools

from whyhang.analyzer.facts import Statement, Trust, Variable, replace
from whyhang.collectors import limits
from whyhang.collectors.prints import Lines

_LINE = limits.compile(
    r"(?:export |declare -x |ENV |- )?"
    r"(?P<name>(?:NCCL|GLOO|TORCH|MASTER|FI|UCX|OMPI_MCA)_[A-Z0-9_]+|WORLD_SIZE|NNODES|CUDA_VISIBLE_DEVICES)=(?P<value>[\"']?[^\s\"'$`]*[\"']?);?$"
)

_PAIR = limits.compile(r"(?P<name>[A-Z][A-Z0-9_]*)=(?P<value>[^\s\"'$`]*)$")
_OWN = limits.compile(r"(?:NCCL|GLOO|TORCH|MASTER|FI|UCX|OMPI_MCA)_|WORLD_SIZE$|NNODES$")

_LIMIT = limits.compile(
    r"(?:max locked memory +\(kbytes, -l\) +(?P<value>\d+|unlimited)"
    r"|Max locked memory +(?P<value>\d+|unlimited) +\S+ +bytes)$"
)


def limit(lines: Lines) -> list[Statement]:
    """Read how much memory a process may lock, which RDMA needs, in KiB."""
    match = _LIMIT.match(lines.next.words)
    if match is None:
        return []
    source, value = lines.next.source, match["value"]
    if lines.take().words.endswith("bytes") and value.isdecimal():
        value = str(int(value) >> 10)
    return [Variable(who=lines.who, source=source, name="max locked memory", value=value)]


def variable(lines: Lines) -> list[Statement]:
    """Read variables: of the rank or host that their file, their line or the prompt above names."""
    match = _LINE.match(lines.next.words)
    if match is not None:
        source = lines.take().source
        value = match["value"].strip("\"'")
        return [Variable(who=lines.who, source=source, name=match["name"], value=value)]
    words = lines.next.words.split(" ")
    if "=" not in words[-1]:
        return []
    pairs = [*itertools.takewhile(bool, map(_PAIR.match, reversed(words)))]  # behind a header
    values = {pair["name"]: pair["value"] for pair in reversed(pairs) if pair is not None}
    if len(pairs) < 2 or len(values) < len(pairs):
        return []
    who, rank = lines.who, values.get("RANK", "")
    if rank.isdecimal() and len(rank) < 7 and who.rank is None:
        who = replace(who, rank=int(rank), trust=Trust.CONTENT)
    source = lines.next.source
    variables = [
        Variable(who=who, source=source, name=name, value=value)
        for name, value in values.items()
        if _OWN.match(name)
    ]
    if variables:
        lines.take()
    return [*variables]
