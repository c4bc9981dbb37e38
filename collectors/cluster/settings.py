"""Variables of the environment as env, printenv, export lines and scripts show them."""

from __future__ import annotations

from whyhang.analyzer.facts import Statement, Variable
from whyhang.analyzer.reading import Document
from whyhang.collectors import limits
from whyhang.collectors.gpu.lines import Lines

_LINE = limits.compile(
    r"(?:export |declare -x |ENV |- )?"
    r"(?P<name>(?:NCCL|GLOO|TORCH|MASTER|FI|UCX|OMPI_MCA)_[A-Z0-9_]+|WORLD_SIZE|NNODES|CUDA_VISIBLE_DEVICES)=(?P<value>[\"']?[^\s\"'$`]*[\"']?);?$"
)


def variable(document: Document, lines: Lines) -> list[Statement]:
    """Read one variable: of the rank or host that its file or the prompt above names."""
    match = _LINE.match(lines.next.words)
    if match is None:
        return []
    source = document.source(lines.take().number)
    value = match["value"].strip("\"'")
    return [Variable(who=document.who, source=source, name=match["name"], value=value)]
