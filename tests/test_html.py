"""The HTML page without a browser: one file, nothing from elsewhere, text that stays text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest
from log_docs import diagnosed
from small_jobs import ALL_REDUCE, ELSEWHERE, report_of, still
from test_story import eight_ranks

from whyhang.analyzer.report import Event, LinesAround, RankRow, Report
from whyhang.analyzer.reports.html.page import render
from whyhang.analyzer.reports.outgoing import outgoing

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "{{ 7 * 7 }} {% raw %} <!-- ]]> &lt;b&gt;",
    "<style>*{display:none}</style>",
    "javascript:alert(1) '\"` \u2028\u2029",
)
ELEMENTS = (
    "a html head meta title style body header nav main footer noscript script section div span p h1"
    " h2 h3 b i q ul li pre code details summary table thead tbody tr th td"
)


class Page(HTMLParser):
    """A page taken apart: its elements, and the texts in them by their tag."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(data.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep an element."""
        self.elements.append((tag, dict(attrs)))
        if tag != "meta":
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Require that what is closed was opened."""
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Keep a text."""
        if self._open:
            self.texts.setdefault(self._open[-1], []).append(data)

    @property
    def data(self) -> dict[str, Any]:
        """What the drawings are made from."""
        content: dict[str, Any] = json.loads(self.texts["script"][0])
        return content

    @property
    def policy(self) -> str:
        """Its content security policy."""
        return next(a["content"] or "" for t, a in self.elements if "http-equiv" in a)

    @property
    def text(self) -> str:
        """All that it shows without its drawings."""
        shown = (
            text
            for tag, texts in self.texts.items()
            if tag not in {"script", "style"}
            for text in texts
        )
        return "\n".join(shown)


def report(texts: tuple[str, ...] = ()) -> Report:
    """Diagnose four ranks, one elsewhere; each text stands in every field that evidence fills."""
    made = report_of(still({0: ALL_REDUCE, 1: ALL_REDUCE, 2: ELSEWHERE, 3: ALL_REDUCE}))
    if not texts:
        return made
    words = " ".join(texts)

    def spoilt(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: spoilt(each, name) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [spoilt(each, key) for each in value]
        fixed = {
            "verdict",
            "state",
            "kind",
            "role",
            "category",
            "signature",
            "ranks",
            "behind",
            "tool_version",
        }
        return f"{value} {words}" if isinstance(value, str) and key not in fixed else value

    return msgspec.convert(spoilt(msgspec.to_builtins(made)), Report)


def test_evidence_never_becomes_markup() -> None:
    page = Page(render(report(HOSTILE)))
    assert {tag for tag, _ in page.elements} <= set(ELEMENTS.split())
    assert not [
        a
        for _, a in page.elements
        if set(a) & {"style", "src"} or any(n.startswith("on") for n in a)
    ]
    for text in HOSTILE:
        assert text in page.text
    assert len(page.texts["script"]) == 2
    assert any(HOSTILE[0] in text for text in page.data["ranks"]["activities"])
    assert any(HOSTILE[1] in node["says"] for node in page.data["waits"]["nodes"])


def test_the_policy_allows_the_script_and_the_style_of_the_page_and_nothing_else() -> None:
    page = Page(render(report()))

    def named(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    allowed = dict(part.strip().split(" ", 1) for part in page.policy.split(";"))
    assert allowed == {
        "default-src": "'none'",
        "script-src": named(page.texts["script"][1]),
        "style-src": named(page.texts["style"][0]),
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert [t for t, _ in page.elements].index("style") > [
        "http-equiv" in a for _, a in page.elements
    ].index(True)


def test_nothing_is_fetched_and_no_string_becomes_code_or_markup() -> None:
    text = render(report()).decode()
    own = text[text.rindex("/** @type {Data} */") :]
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\(", own
    )
    assert not re.search(
        r"(?:src|href)\s*=\s*[\"']?(?:https?:)?//|@import|url\((?!#)", text.replace("url(#", "")
    )
    assert not re.search(r"\b(?:fetch|XMLHttpRequest|WebSocket|EventSource|sendBeacon)\b", text)


def test_the_page_says_what_the_report_says() -> None:
    made = report()
    page = Page(render(made))
    for text in (made.headline, made.findings[0].remedies[0], made.findings[0].evidence[0].quote):
        assert text in page.text
    assert page.data["culprits"] == "2"
    ranks = page.data["ranks"]
    assert ranks["rank"] == [0, 1, 2, 3]
    assert [ranks["states"][n] for n in ranks["state"]] == [row.state for row in made.ranks]


def test_lines_around_stand_below_their_quote() -> None:
    made = report()
    piece = msgspec.structs.replace(made.findings[0].evidence[0], line=7)
    finding = msgspec.structs.replace(made.findings[0], evidence=(piece,))
    made = msgspec.structs.replace(made, findings=(finding,))
    near = LinesAround(source=piece.source, line=7, first=7, lines=("this", "next"))
    page = Page(render(msgspec.structs.replace(made, lines_around=(near,))))
    assert "lines around" in page.texts["summary"]
    assert any("next" in text for text in page.texts["span"])


def test_an_effect_is_folded_below_its_cause() -> None:
    page = Page(render(diagnosed(eight_ranks())))
    ids = [a.get("id") for _, a in page.elements]
    assert "finding-1" in ids
    assert "effects" in ids
    assert any("watchdog" in text for text in page.texts["summary"])


def test_secrets_do_not_reach_the_page() -> None:
    """The page is made of what the gate lets through."""
    made = report(("--token=abcdef0123456789", "https://user:hunter22@host/x"))
    text = render(outgoing(made)).decode()
    assert "abcdef0123456789" not in text
    assert "hunter22" not in text


def test_a_long_story_is_folded_and_an_empty_column_left_out() -> None:
    events = tuple(
        Event(seconds=None, ranks=(n,), says=f"event {n}", source="a.log") for n in range(20)
    )
    page = Page(render(msgspec.structs.replace(report(), story=events)))
    assert "8 more" in page.texts["summary"]
    assert {f"event {n}" for n in range(20)} <= set(page.texts["td"])
    without = tuple(msgspec.structs.replace(row, location=None) for row in report().ranks)
    page = Page(render(msgspec.structs.replace(report(), ranks=without)))
    assert "in the user's code" not in page.texts["th"]


@pytest.mark.parametrize(
    "url", ['https://wiki.example.org/x?a=1&b="2', "javascript:alert(1)", "//x"]
)
def test_only_an_address_of_the_web_is_a_link(url: str) -> None:
    finding = msgspec.structs.replace(report().findings[0], runbook_url=url)
    page = Page(render(msgspec.structs.replace(report(), findings=(finding,))))
    links = [a["href"] for tag, a in page.elements if tag == "a"]
    assert links == ([url] if url.startswith("https:") else [])


def test_a_healthy_job_has_no_graph_of_waits() -> None:
    made = msgspec.structs.replace(report(), verdict="healthy")
    assert "wait-graph" not in [a.get("id") for _, a in Page(render(made)).elements]


@pytest.mark.parametrize(
    "drop", ["findings", "ranks", "stack_groups", "story", "waits", "timeline", "gaps"]
)
def test_every_part_may_be_missing(drop: str) -> None:
    empty = Report(verdict="inconclusive", headline="", job=report().job)
    made = msgspec.structs.replace(report(), **{drop: getattr(empty, drop)})
    assert Page(render(made)).data["verdict"] == "hung"


def test_a_page_of_ten_thousand_ranks_is_small() -> None:
    rows = tuple(
        RankRow(
            rank=rank,
            host=f"node{rank // 8:05}.cluster.example.org",
            pid=100000 + rank,
            state="waiting",
            activity=f"in all_reduce #{rank % 97} of mesh_dp (ranks {rank}-{rank + 7})",
            name=f"rank {rank}",
        )
        for rank in range(10_000)
    )  # fmt: skip
    page = render(msgspec.structs.replace(report(), ranks=rows))
    assert len(page) < 2_000_000


def test_of_more_ranks_than_cells_those_that_tell_are_shown() -> None:
    rows = tuple(
        RankRow(
            rank=rank,
            host=None,
            pid=None,
            state="exited" if rank == 29_999 else "waiting",
            activity="",
        )
        for rank in range(30_000)
    )
    data = Page(render(msgspec.structs.replace(report(), ranks=rows))).data
    assert (data["count"], len(data["ranks"]["rank"])) == (30_000, 20_000)
    assert data["ranks"]["rank"][-1] == 29_999
