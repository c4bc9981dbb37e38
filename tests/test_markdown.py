"""The report as Markdown: a summary first, the rest folded, and evidence that stays text.

What GitHub makes of it is asked of its own renderer (cmark-gfm), with everything switched on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import cmarkgfm
import msgspec
import pytest
from cmarkgfm.cmark import Options
from small_jobs import ALL_REDUCE, ELSEWHERE, report_of, still

from whyhang.analyzer.report import (
    Collective,
    Event,
    Evidence,
    Finding,
    GpuRow,
    Job,
    Location,
    RankRow,
    Report,
    StackGroup,
)
from whyhang.analyzer.reports.markdown import SUMMARY_LINES, render

SAFE = {
    "p", "strong", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "code", "pre",
    "details", "summary",
}  # fmt: skip
HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</details></summary><b>out</b>",
    "[a](https://evil.example)",
    "![a](https://evil.example/x.png)",
    "[a][b] and [b]: https://evil.example",
    "[^1] and [[_TOC_]] and [ ] box",
    "https://evil.example/x?a=b",
    "www.evil.example",
    "tcp://10.0.0.1:29500",
    "mail joe@example.org now",
    "ask @someone and @org/team",
    "@everyone",
    "fixes #7 and org/repo#8, !9",
    "**bold** __bold__ *it* _it_ ~~gone~~ ~gone~",
    "`code` ``` fence ```` longer",
    "```\nout of the fence\n```",
    "a | b \\| c",
    "# heading",
    "1. one",
    "- item",
    "---",
    "===",
    "~~~",
    "> quoted",
    "&lt;b&gt; &#64;someone &copy;",
    "$x$ and $$y$$",
    "trailing \\",
    "`",
)


EVERYWHERE = 40  # a page quotes a text that stands in every field so often, at least


class Page(HTMLParser):
    """Gathers what a rendered page consists of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.open: list[str] = []
        self.prose: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Leave a tag, which must be the one that is open."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Note a text, apart if it is in no code."""
        self.text.append(data)
        if not {"code", "pre"} & set(self.open):
            self.prose.append(data)


def page(text: str) -> Page:
    """Render as GitHub does, raw HTML and all extensions allowed."""
    options = Options.CMARK_OPT_UNSAFE | Options.CMARK_OPT_FOOTNOTES
    return Page(
        cmarkgfm.markdown_to_html_with_extensions(
            text, options, extensions=["table", "strikethrough", "autolink", "tasklist"]
        )
    )


def planted(text: str) -> Report:
    """Put a text wherever evidence has a word in a report."""
    place = Location(file=text, line=3, function=text, excerpt=(text, f"> {text}"))
    finding = Finding(
        signature="gpu-oom",
        category="gpu-oom",
        confidence=0.9,
        title=text,
        explanation=text,
        culprit_ranks=(0,),
        affected_ranks=(1,),
        collective=Collective(op="all_reduce", group=text, seq=5, others=text),
        location=place,
        evidence=(Evidence(source=text, quote=text, line=1, rank=0),),
        remedies=(text, f"Look {text}"),
        next_steps=(f"ls {text}", f"Look {text}"),
        owner=text,
    )
    return Report(
        verdict="hung",
        headline=text,
        job=Job(world_size=2, hosts=(text,), launcher=text),
        findings=(finding, msgspec.structs.replace(finding, signature="other")),
        story=(Event(seconds=0.0, ranks=(0,), says=text, source=text, line=1, finding=0),),
        ranks=(
            RankRow(rank=0, host=text, pid=1, state="blocked", activity=text, location=place),
            RankRow(rank=None, host=text, pid=2, state="running", activity=text, name=text),
        ),
        stack_groups=(StackGroup(ranks=(0,), frames=(text, text), waits_for=text, names=(text,)),),
        gpus=(GpuRow(ranks=(0,), name=text, says=text),),
        gaps=(text,),
        notes=(text,),
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_evidence_stays_text(text: str) -> None:
    """No link, no mention, no reference, no markup: every word is shown as it was written."""
    shown = page(render(planted(text), full=True))
    plain = page(render(planted("word"), full=True))
    assert set(shown.tags) <= SAFE
    assert shown.attributes == []
    assert [t for t in shown.tags if t != "code"] == [t for t in plain.tags if t != "code"]
    prose = "\n".join(shown.prose)
    assert not re.search(r"[@#!]\w", prose)
    assert not re.search(r"://|www\.\w", prose)
    words = " ".join("".join(shown.text).replace("\u200b", "").split())
    assert words.count(" ".join(text.split())) > EVERYWHERE


def test_every_summary_is_short() -> None:
    """At most fifteen lines stand before what is folded, of whatever report."""
    for report in every_report():
        before = render(report).partition("<details>")[0].rstrip("\n").splitlines()
        assert 1 <= len(before) <= SUMMARY_LINES, before
        assert not any(line.startswith(("#", "|", "```")) for line in before)


def every_report() -> Iterator[Report]:
    """Give a report with everything and more of it, an ordinary one and an empty one."""
    full = planted("word")
    yield msgspec.structs.replace(full, findings=full.findings * 9, gaps=("a", "b") * 9)
    yield report_of(still({0: ALL_REDUCE, 1: ALL_REDUCE, 2: ELSEWHERE, 3: ALL_REDUCE}))
    yield Report(verdict="inconclusive", headline="Nothing", job=Job())


def test_what_is_folded_is_closed() -> None:
    """Each part that opens is closed, and the page above nests rightly (see ``Page``)."""
    for report in every_report():
        text = render(report)
        assert text.count("<details>") == text.count("</details>") == text.count("<summary>")


@pytest.mark.parametrize(
    ("url", "link"),
    [
        ("https://wiki.example.org/hangs#gpu-oom", True),
        ("javascript:alert(1)", False),
        ("https://wiki.example.org/> <b>", False),
    ],
)
def test_a_runbook_is_a_link_if_it_is_one(url: str, link: bool) -> None:
    """The one link of the page is that of the user's own configuration."""
    report = planted("word")
    finding = msgspec.structs.replace(report.findings[0], runbook_url=url)
    shown = page(render(msgspec.structs.replace(report, findings=(finding,))))
    assert ("a" in shown.tags) is link


def test_ranks_and_numbers_read_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The words of a call are there, though its number refers to no issue."""
    changes: dict[str, Any] = {"headline": "ranks 5,7 wait in all_reduce #133 of mesh_dp"}
    shown = page(render(msgspec.structs.replace(planted("word"), **changes)))
    assert "wait in all_reduce #\u200b133 of mesh_dp" in "".join(shown.prose)
