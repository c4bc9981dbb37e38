"""The wait graph in the language of Graphviz: ``dot -Tsvg waits.dot``.

Format: https://graphviz.org/doc/info/lang.html.
"""

import textwrap

from whyhang.analyzer.facts import listed
from whyhang.analyzer.report import Report, WaitNode

WIDTH = 40
MAX_LABEL = 300

_ROLES = {
    "root": 'style="filled,bold", fillcolor="#f8c9c4"',
    "cycle": 'style="filled", fillcolor="#fbe3b5"',
    "missing": 'style="dashed"',
    "": "",
}


def render(report: Report) -> bytes:
    """Write who waits for whom: ranks as boxes, calls as ellipses, roots and cycles filled."""
    lines = [
        "digraph waits {",
        f"  // whyhang {report.tool_version}".rstrip(),
        f'  graph [label="{_text(report.headline)}", labelloc=t, rankdir=LR, fontname=sans];',
        "  node [fontname=sans];",
        "  edge [fontname=sans];",
    ]
    lines += [f"  n{number} [{_node(node)}];" for number, node in enumerate(report.waits.nodes)]
    for edge in report.waits.edges:
        style = "" if edge.certain else ' [style=dashed, tooltip="not certain"]'
        lines.append(f"  n{edge.source} -> n{edge.target}{style};")
    return "\n".join([*lines, "}\n"]).encode()


def _node(node: WaitNode) -> str:
    if node.kind == "call":
        return f'shape=ellipse, label="{_text(node.says)}"'
    ranks = f"rank{'s' * (node.count != 1)} {node.ranks}" if node.ranks else ""
    whose = ", ".join(part for part in (ranks, listed(node.names)) if part)
    parts = ["shape=box", f'label="{_text(whose)}\\n{_text(node.says)}"', _ROLES[node.role]]
    if node.culprit:
        parts += ['color="#b3261e"', "penwidth=2"]
    return ", ".join(part for part in parts if part)


def _text(text: str) -> str:
    """Wrap a text, so that a graph stays readable, and write it as the inside of a string."""
    cut = text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + "…"
    lines = textwrap.wrap(cut, WIDTH, break_on_hyphens=False) or [""]
    return "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)
