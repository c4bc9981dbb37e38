"""A report as Markdown, fit to paste into an incident.

At most ``SUMMARY_LINES`` lines come first, without tables or headings, so that chats and trackers
that know little of Markdown show them too; the rest is folded. What evidence says is text and
nothing else: it opens no link, mentions nobody, refers to no issue and ends no fence. Rules:
https://github.github.com/gfm, https://docs.gitlab.com/user/markdown.
"""

import html
import re
from collections.abc import Iterable, Iterator

from whyhang.analyzer.facts import listed, ranks_in_words
from whyhang.analyzer.report import Finding, Report
from whyhang.analyzer.reports.blocks import (
    Block,
    Code,
    Commands,
    Headline,
    Items,
    Para,
    Quotes,
    Section,
    Table,
    split,
)
from whyhang.analyzer.reports.finding import MAX_RANKS, cut, is_command, known
from whyhang.analyzer.reports.page import culprit_hosts, job_line, looked_line, page, who

SUMMARY_LINES = 15
MAX_TEXT = 400
MAX_CAUSES = 3


def render(report: Report, *, full: bool = False) -> str:
    """Render a report; ends with one newline. ``full``: with all effects and evidence."""
    lines = [f"**{report.verdict.upper()}** {_text(report.headline)}"]
    if points := [f"- **{label}:** {text}" for label, text in _points(report)]:
        lines += ["", *points[: SUMMARY_LINES - 2]]
    parts = map(_fold, split(page(report, full=full)[1:], level=2))
    return "\n\n".join(["\n".join(lines), *parts]) + "\n"


def draw(blocks: Iterable[Block]) -> str:
    """Render blocks one below the other, nothing folded."""
    return "\n\n".join(_block(block) for block in blocks) + "\n"


def _points(report: Report) -> Iterator[tuple[str, str]]:
    """Yield what to read out behind the answer: who, why, what to do, what else there is."""
    for first in report.findings[:1]:
        yield from _of_finding(report, first)
    causes = [
        (number, finding)
        for number, finding in enumerate(report.findings)
        if number and finding.caused_by is None and finding.kind == "cause"
    ]
    for number, finding in causes[:MAX_CAUSES]:
        yield f"Also ({number + 1})", _text(cut(finding.title, MAX_TEXT))
    if len(causes) > MAX_CAUSES:
        yield "Also", f"{len(causes) - MAX_CAUSES} more below"
    if facts := job_line(report):
        yield "Job", _text(cut(facts, MAX_TEXT))
    if report.gaps:
        more = f" ({len(report.gaps) - 1} more below)" if len(report.gaps) > 1 else ""
        yield "Not known", _text(cut(report.gaps[0], MAX_TEXT)) + more
    if seen := looked_line(report):
        yield "Looked at", _text(seen.removeprefix("looked at ").rstrip(","))


def _of_finding(report: Report, finding: Finding) -> Iterator[tuple[str, str]]:
    yield "Finding", _text(known(finding))
    culprits = set(finding.culprit_ranks or ())
    rows = [row for row in report.ranks if row.rank in culprits]
    if rows:
        hosts = culprit_hosts(report)
        on = f" on {listed(hosts)}" if hosts else ""
        yield "Look at", _text(f"{'rank' if len(culprits) == 1 else 'ranks'} {who(rows)}{on}")
    if finding.location is not None:
        yield "Where", _code(str(finding.location))
    if finding.affected_ranks:
        yield "Held up", ranks_in_words(finding.affected_ranks, MAX_RANKS)
    if finding.owner:
        yield "Owner", _text(finding.owner)
    for remedy in finding.remedies[:1]:
        yield "Do now", _text(cut(remedy, MAX_TEXT))
    for step in finding.next_steps[:1]:
        yield "To confirm", _code(step) if is_command(step) else _text(cut(step, MAX_TEXT))
    if finding.runbook_url:
        yield "Runbook", link(finding.runbook_url)


def _fold(part: list[Block]) -> str:
    heading, *blocks = part
    if not isinstance(heading, Section):
        return draw(part).rstrip("\n")
    title = _mute(html.escape(" ".join(heading.title.split()), quote=False))
    return "\n\n".join(
        [f"<details>\n<summary>{title}</summary>", *map(_block, blocks), "</details>"]
    )


def _block(block: Block) -> str:
    match block:
        case Headline():
            return f"**{block.verdict.upper()}** {_text(block.text)}"
        case Section():
            return f"**{_text(block.title)}**" if block.level == 3 else f"## {_text(block.title)}"
        case Para():
            return _text(block.text)
        case Items():
            return "\n".join(f"- {_text(item)}" for item in block.items)
        case Commands():
            return "\n".join(
                f"- {_code(item) if is_command(item) else _text(item)}" for item in block.items
            )
        case Code():
            text = "\n".join(block.lines)
            return f"{_ticks(text, 3)}\n{text}\n{_ticks(text, 3)}"
        case Table():
            return _table(block)
        case Quotes():
            return "\n".join(f"- {_text(where)}: {_code(quote)}" for where, quote in block.items)


# What is shown as code: what would become a link by itself, which it does not there, and names
# that need more than a letter escaped, since chats show a backslash as one.
_CODE = re.compile(
    r"(?:\b[a-z][a-z0-9+.-]{0,30}://|\bwww\.|\b(?:mailto|xmpp):)[^\s<>]+"
    r"|[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+"
    r"|(?<!\w)__\w+__(?!\w)|<\w+>",
    re.IGNORECASE,
)
# What CommonMark, GFM or GitLab would read as markup inside a line. An underscore between letters
# is none, and a bracket is only where a link, a target, a footnote or a box to tick follows.
_MARKUP = re.compile(
    r"[\\`*<~]|(?<![^\W_])_|_(?![^\W_])"
    r"|\[(?=[^\]]*\][(\[:])|\[(?=[\[^~]|[ xX]\])"
    r"|&(?=#?\w+;)|\$(?=.*\$)|(?<=\$)\$|^[>#+|-](?=\s|$)|^-(?=-)|^=(?==)|(?<=^\d)[.)](?=\s)"
)
# Mentions, and numbers of issues and merge requests, are looked for in the finished text: no
# escape of Markdown keeps them from being found, a blank of no width does.
_REFERENCE = re.compile(r"(?<=[@#!])(?=\w)")
_NO_WIDTH = "\u200b"


def _text(text: str) -> str:
    """Keep names like ``__getitem__`` and ``<module>`` from being read as markup."""
    text = " ".join(text.split())
    parts: list[str] = []
    end = 0
    for match in _CODE.finditer(text):
        parts += [_escaped(text[end : match.start()]), _code(match[0])]
        end = match.end()
    return "".join([*parts, _escaped(text[end:])])


def _escaped(text: str) -> str:
    return _mute(_MARKUP.sub(r"\\\g<0>", text))


def _mute(text: str) -> str:
    return _REFERENCE.sub(_NO_WIDTH, text)


_RUNBOOK = re.compile(r"https?://[\w.~:/?#@!$&+,;=%-]+", re.ASCII)


def link(url: str) -> str:
    """Write a link of the user's own configuration as one, if it is nothing else."""
    return f"<{url}>" if _RUNBOOK.fullmatch(url) else _code(url)


_TICKS = re.compile("`+")


def _ticks(text: str, least: int) -> str:
    """Return more backticks than stand in a row anywhere in a text."""
    return "`" * max(least, *(len(run) + 1 for run in _TICKS.findall(text)), 0)


def _code(text: str) -> str:
    text = " ".join(text.split())
    if not text:
        return ""
    ticks = _ticks(text, 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def _table(table: Table) -> str:
    rows = [table.columns, tuple("---" for _ in table.columns)]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines += [
        "| " + " | ".join(_text(cell).replace("|", "\\|") for cell in row) + " |"
        for row in table.rows
    ]
    return "\n".join(lines)
