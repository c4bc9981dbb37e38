"""The report as JSON, Markdown and on a terminal."""

from __future__ import annotations

import io

import jsonschema
import msgspec
import pytest
from rich.console import Console
from small_jobs import ALL_REDUCE, ELSEWHERE, report_of, still

from whyhang.analyzer.findings.categories import CATEGORIES
from whyhang.analyzer.report import Evidence, Finding, Job, Report, schema, to_json
from whyhang.analyzer.reports.blocks import Quotes, Table
from whyhang.analyzer.reports.markdown import _text, render
from whyhang.analyzer.reports.page import page
from whyhang.analyzer.reports.terminal import draw, show


@pytest.fixture
def report() -> Report:
    """Give the report of four ranks, one of them elsewhere."""
    return report_of(still({0: ALL_REDUCE, 1: ALL_REDUCE, 2: ELSEWHERE, 3: ALL_REDUCE}))


def terminal(report: Report, width: int, *, colour: bool) -> str:
    """Print a report the way a terminal of this width would show it."""
    buffer = io.StringIO()
    console = Console(
        file=buffer, width=width, force_terminal=colour, no_color=not colour, highlight=False
    )
    show(report, console)
    return buffer.getvalue()


def test_the_json_report_keeps_its_own_schema(report: Report) -> None:
    """Every JSON report is valid against the schema that is published."""
    jsonschema.validate(msgspec.json.decode(to_json(report)), schema())


def test_the_json_report_has_the_names_of_the_contract(report: Report) -> None:
    """On-call automation finds the fields it reads."""
    document = msgspec.json.decode(to_json(report))

    assert {"schema_version", "verdict", "headline", "job", "findings", "ranks"} <= set(document)
    assert {"stack_groups", "gaps"} <= set(document)
    assert {
        "signature", "category", "confidence", "title", "explanation", "culprit_ranks",
        "affected_ranks", "collective", "location", "evidence", "remedies", "next_steps",
        "runbook_url",
    } <= set(document["findings"][0])  # fmt: skip
    assert document["findings"][0]["category"] in {c for cs in CATEGORIES.values() for c in cs}


def test_the_first_line_is_the_answer(report: Report) -> None:
    """Whoever reads one line only has read the diagnosis."""
    first = terminal(report, 200, colour=False).splitlines()[0]

    assert first.strip().startswith("HUNG")
    assert "rank 2" in first.lower()
    assert render(report).startswith("**HUNG**")


@pytest.mark.parametrize("width", [80, 140])
def test_nothing_is_wider_than_the_terminal(report: Report, width: int) -> None:
    """No line is cut off or wrapped by the terminal itself."""
    assert max(len(line) for line in terminal(report, width, colour=False).splitlines()) <= width


def test_no_colour_codes_without_colour(report: Report) -> None:
    """A report piped to a file holds text only."""
    assert "\x1b" not in terminal(report, 80, colour=False)
    assert "\x1b" in terminal(report, 80, colour=True)


def test_markdown_keeps_names_of_functions(report: Report) -> None:
    """Names such as <module> survive as text, and tables keep their columns."""
    text = render(report)

    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert rows
    assert len({line.replace("\\|", "").count("|") for line in rows}) == 1
    assert "<module>" in text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("in all_reduce of mesh_dp (ranks 5,7)", "in all_reduce of mesh_dp (ranks 5,7)"),
        ("at __getitem__ of <module>", "at `__getitem__` of `<module>`"),
        ("[8, 16] against [8]", "[8, 16] against [8]"),
        ("[a](b) and 2 * 3", r"\[a](b) and 2 \* 3"),
        ("# not a heading", r"\# not a heading"),
    ],
)
def test_markdown_escapes_markup_and_nothing_else(text: str, written: str) -> None:
    """A report reads the same raw and rendered: only what would be markup is escaped."""
    assert _text(text) == written


def test_what_to_confirm_is_code_only_where_it_is_a_command(report: Report) -> None:
    """A person pastes what stands in code marks; a sentence is no command."""
    steps = ("dmesg -T | grep Xid  # on that host", "Print len(loader) on every rank.")
    finding = msgspec.structs.replace(report.findings[0], next_steps=steps, caused_by=None)
    text = render(msgspec.structs.replace(report, findings=(finding,)))
    assert f"- `{' '.join(steps[0].split())}`\n- {steps[1]}" in text


def _quoted(pieces: list[Evidence], title: str = "t") -> list[tuple[str, str]]:
    finding = Finding(
        signature="s",
        category="unknown",
        confidence=0.9,
        title=title,
        explanation="",
        evidence=tuple(pieces),
    )
    report = Report(verdict="hung", headline="x", job=Job(), findings=(finding,))
    blocks = [block for block in page(report) if isinstance(block, Quotes)]
    return [item for block in blocks for item in block.items]


def test_values_that_differ_are_quoted_each() -> None:
    """A shape, a world size or a port may be what is wrong; a pid or a time is not."""
    shapes = [
        Evidence(source=f"d{rank}", quote=f"record 1{rank}: all_reduce #12 [{size}, 16]", rank=rank)
        for rank, size in enumerate((32, 32, 20))
    ]
    assert _quoted(shapes) == [
        ("ranks 0-1 · d0 and 1 more", "record 10: all_reduce #12 [32, 16]"),
        ("rank 2 · d2", "record 12: all_reduce #12 [20, 16]"),
    ]
    pids = [
        Evidence(
            source="l", quote=f"pid 10{rank}: WORLD_SIZE={rank // 2}, 0{rank}:11:12", rank=rank
        )
        for rank in range(4)
    ]
    assert [where for where, _ in _quoted(pids)] == [
        "ranks 0-1 · l and 1 more",
        "ranks 2-3 · l and 1 more",
    ]


def test_a_rank_whose_line_is_the_title_is_counted() -> None:
    """Who is quoted above still belongs to those that say the same."""
    pieces = [
        Evidence(source="l", quote=f"[rank{rank}] ran for {rank}7 ms", rank=rank)
        for rank in range(7)
    ]
    assert [where for where, _ in _quoted(pieces, title=pieces[5].quote)] == [
        "ranks 0-6 · l and 6 more"
    ]


def test_a_table_s_narrow_columns_keep_their_width() -> None:
    """Who and where is not squeezed to a few characters a line beside a long sentence."""
    sentence = "Ranks called a collective with different sizes (16384 came, 14336 expected) (1)"
    rows = (("0-1,4-7", sentence, "nccl.log:14"), ("0", "A peer closed it", "nccl.log:15"))
    table = Table(columns=("ranks", "event", "read in"), rows=rows)
    console = Console(width=60, record=True, file=io.StringIO())
    draw([table], console)
    lines = console.export_text().splitlines()
    assert lines[1].startswith("0-1,4-7  Ranks called a collective")
    assert lines[1].rstrip().endswith("nccl.log:14")
    assert [line[:9].strip() for line in lines if line[:9].strip()] == ["ranks", "0-1,4-7", "0"]
