"""The page: a report's blocks in HTML, with style, scripts and data in the same file.

Everything that comes from the report is escaped, by Jinja2 in the markup and as JSON in the data;
scripts put it into the page as text. Should an escape ever fail, the policy of the page stands
behind it: it runs this script and this style, known by their hashes, and fetches nothing.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

import msgspec
from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from whyhang.analyzer.facts import Record, few, replace
from whyhang.analyzer.report import Report
from whyhang.analyzer.reports.blocks import Block, Headline, Section, split
from whyhang.analyzer.reports.finding import is_command
from whyhang.analyzer.reports.html.data import drawn
from whyhang.analyzer.reports.page import job_line, looked_line, page, run_line

MAX_QUOTES = 40  # quotes of one finding; the others are in the JSON report
SCRIPTS = (
    "dagre.min.js",
    "common.js",
    "rank_map.js",
    "wait_graph.js",
    "stacks.js",
    "lanes.js",
    "whole_page.js",
)

MAX_ROWS = 12  # rows of a table that are shown at once
HERE = resources.files(__package__ or "")


_POLICY = (
    "default-src 'none'; script-src {script}; style-src {style}; base-uri 'none'; "
    "form-action 'none'"
)
"""Nothing is run or fetched but the style and the script of this page."""


class Part(Record):
    """A section of the page with what stands in it."""

    title: str
    name: str
    blocks: tuple[Block, ...]
    parts: tuple[Part, ...] = ()
    effect: bool = False
    runbook: str = ""


def render(report: Report) -> bytes:
    """Write a report, with all effects and evidence, as one HTML file in UTF-8."""
    headline, *blocks = page(report, full=True)
    assert isinstance(headline, Headline)
    style, script = _file("style.css"), "".join(map(_file, SCRIPTS))
    around = {(each.source, each.line): each for each in report.lines_around}
    text = _template().render(
        headline=headline,
        report=report,
        facts=job_line(report),
        run=run_line(report),
        looked=looked_line(report).rstrip(","),
        parts={part.name: part for part in _parts(report, blocks)},
        around=around,
        in_time=any(
            lane.calls or any(report.story[n].seconds is not None for n in lane.events)
            for lane in report.timeline.lanes
        ),
        devices=[row for row in report.devices if row not in report.gpus],
        policy=_POLICY.format(script=_hash(script), style=_hash(style)),
        style=Markup(style),  # noqa: S704 - files of this package
        script=Markup(script),  # noqa: S704
        data=_json(drawn(report)),
    )
    return text.encode("utf-8", "replace")


def _parts(report: Report, blocks: Iterable[Block]) -> Iterator[Part]:
    """Nest blocks into sections, and sections of findings into theirs."""
    findings = {f"finding-{n}": finding for n, finding in enumerate(report.findings, 1)}
    for section in split(blocks, level=2):
        whole, *inside = (_part(blocks) for blocks in split(section, level=3))
        finding = findings.get(whole.name)
        url = (finding.runbook_url if finding is not None else None) or ""
        yield replace(
            whole,
            parts=tuple(inside),
            effect=finding is not None and finding.caused_by is not None,
            # A script in the place of an address is none.
            runbook=url if url.startswith(("https://", "http://")) else "",
        )


def _part(blocks: Sequence[Block]) -> Part:
    section, *own = blocks
    assert isinstance(section, Section)
    return Part(title=section.title, name=section.name, blocks=tuple(own))


def _step(text: str) -> tuple[str, str] | None:
    """Take a command and the remark behind it apart; None for a sentence."""
    if not is_command(text):
        return None
    command, _, remark = text.partition("  # ")
    return command, remark


def _json(data: Mapping[str, Any]) -> Markup:
    """Write data that no text in it can end: within a script, only ``<`` begins anything."""
    text = msgspec.json.encode(data).decode()
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return Markup(text)  # noqa: S704 - no markup is left in it


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


@functools.cache
def _file(name: str) -> str:
    return HERE.joinpath(name).read_text(encoding="utf-8")


@functools.cache
def _template() -> Template:
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(kind=lambda block: type(block).__name__, step=_step, ranks=few)
    environment.globals.update(most=MAX_QUOTES, most_rows=MAX_ROWS, todo=("now", "confirm"))
    return environment.from_string(_file("page.html.jinja"))
