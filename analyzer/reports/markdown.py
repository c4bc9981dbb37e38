"""A report as Markdown, fit to paste into an incident."""

from __future__ import annotations

import re

from whyhang.analyzer.report import Report
from whyhang.analyzer.reports.page import (
    Block,
    Code,
    Commands,
    Headline,
    Items,
    Para,
    Quotes,
    Section,
    Table,
    is_command,
    page,
)


def render(report: Report, *, full: bool = False) -> str:
    """Render a report; ends with one newline. ``full``: with all effects and evidence."""
    parts = [_block(block) for block in page(report, full=full)]
    return "\n\n".join(parts) + "\n"


def _block(block: Block) -> str:
    match block:
        case Headline():
            return f"**{block.verdict.upper()}** {_text(block.text)}"
        case Section():
            marks = {1: "##", 2: "##", 3: "####"}
            return f"{marks[block.level]} {_text(block.title)}"
        case Para():
            return _text(block.text)
        case Items():
            return "\n".join(f"- {_text(item)}" for item in block.items)
        case Commands():
            return "\n".join(
                f"- {_code(item) if is_command(item) else _text(item)}" for item in block.items
            )
        case Code():
            return _fence("\n".join(block.lines))
        case Table():
            return _table(block)
        case Quotes():
            return "\n".join(f"- {_text(where)}: {_code(quote)}" for where, quote in block.items)


# What CommonMark would read as markup inside a line. An underscore between letters is none,
# and a bracket is only where a link or its target follows.
_MARKUP = re.compile(r"[\\`*<]|(?<![^\W_])_|_(?![^\W_])|\[(?=[^\]]*\][(\[:])|^[>#+-](?=\s)")


def _text(text: str) -> str:
    """Keep names like ``__getitem__`` and ``<module>`` from being read as markup."""
    return _MARKUP.sub(r"\\\g<0>", " ".join(text.split()))


def _code(text: str) -> str:
    text = " ".join(text.split())
    ticks = "``" if "`" in text else "`"
    pad = " " if "`" in text else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def _fence(text: str) -> str:
    fence = "````" if "```" in text else "```"
    return f"{fence}\n{text}\n{fence}"


def _table(table: Table) -> str:
    rows = [table.columns, tuple("---" for _ in table.columns)]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines += [
        "| " + " | ".join(_text(cell).replace("|", "\\|") for cell in row) + " |"
        for row in table.rows
    ]
    return "\n".join(lines)
