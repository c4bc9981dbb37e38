"""The HTML page in a real Chromium: what is drawn, filtered, clicked and typed; what is not run."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from log_docs import diagnosed
from small_jobs import report_of
from test_html import HOSTILE, report
from test_story import eight_ranks
from test_views import ring

from whyhang.analyzer.commands import diagnose
from whyhang.analyzer.report import RankRow, Report
from whyhang.analyzer.reports.html.page import render
from whyhang.samples.harness import scenario

if TYPE_CHECKING:
    from playwright import sync_api

DOCS = Path(__file__).parents[1] / "docs"
CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[sync_api.Browser]:
    """Start one Chromium for all tests."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM)
        yield started
        started.close()


class Opened:
    """A page in the browser, with what it complained of and asked for."""

    def __init__(self, browser: sync_api.Browser, file: Path, **options: object) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page = browser.new_page(**{"viewport": {"width": 1280, "height": 900}, **options})
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.add_init_script(
            "document.addEventListener('securitypolicyviolation',"
            " (event) => console.error(event.violatedDirective))"
        )
        self.page.set_default_timeout(10_000)
        self.url = file.as_uri()
        self.page.goto(self.url)

    def chosen(self) -> str | None:
        """Return the rank that is chosen in the map."""
        return self.page.locator("#rank-map canvas").get_attribute("data-chosen")

    def visible(self) -> int:
        """Return how many ranks pass the filters."""
        return int(self.page.locator("#rank-map canvas").get_attribute("data-visible") or -1)


@pytest.fixture
def opened(browser: sync_api.Browser, tmp_path: Path) -> Iterator[object]:
    """Open reports; at the end no page has complained, or asked for anything but itself."""
    pages: list[Opened] = []

    def open_page(made: Report, **options: object) -> Opened:
        file = tmp_path / f"report{len(pages)}.html"
        file.write_bytes(render(made))
        pages.append(Opened(browser, file, **options))
        return pages[-1]

    yield open_page
    for page in pages:
        assert page.complaints == []
        assert set(page.requests) == {page.url}
        page.page.close()


def sample(name: str) -> Report:
    """Diagnose the recording of a sample."""
    made, _ = diagnose.report_on([], [str(scenario.samples()[name].bundle)], argparse.Namespace())
    return made


def large(size: int = 10_000) -> Report:
    """Make a report of many ranks on hosts of eight, one of them blocked."""
    made = report_of(ring(64))
    rows = tuple(
        RankRow(
            rank=rank, host=f"node{rank // 8:04}", pid=5000 + rank, name=f"rank {rank}",
            state="blocked" if rank == 7777 else "waiting",
            activity="reading a file" if rank == 7777 else f"in all_reduce #{rank % 50} of mesh_dp",
        )
        for rank in range(size)
    )  # fmt: skip
    return msgspec.structs.replace(made, ranks=rows)


PAINT = """() => new Promise((resolve) => new PerformanceObserver((list) => {
    const entry = list.getEntriesByName("first-contentful-paint")[0];
    if (entry) resolve(entry.startTime);
}).observe({ type: "paint", buffered: true }))"""

SAMPLES = (
    "dataloader-worker-blocked",
    "broadcast-against-all-reduce",
    "fr-groups-in-opposite-order",
    "fr-mesh-chain",
    "rank-died",
    "healthy-job",
)


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", SAMPLES)
def test_a_page_fits_every_screen(opened, name: str, scheme: str, width: int) -> None:
    """Nothing makes the page itself wider than the screen, and every drawing draws something."""
    page = opened(sample(name), color_scheme=scheme, viewport={"width": width, "height": 844}).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for drawing in page.locator(".drawing").all():
        assert drawing.bounding_box()["height"] > 20
    light = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert light == (scheme == "light")


def test_filters_hide_ranks_and_give_them_back(opened) -> None:
    """By state, by host, by group, by rank and by word."""
    page = opened(large())
    assert page.visible() == 10_000
    blocked = page.page.locator("button[data-state=blocked]")
    waiting = page.page.locator("button[data-state=waiting]")
    waiting.click()
    assert page.visible() == 1
    blocked.click()
    assert page.visible() == 0
    waiting.click()
    blocked.click()
    page.page.get_by_label("host").fill("node0012")
    assert page.visible() == 8
    page.page.get_by_label("host").fill("")
    page.page.get_by_label("find").fill("5, 100-119")
    assert page.visible() == 21
    page.page.get_by_label("find").fill("reading")
    assert page.visible() == 1
    page.page.get_by_label("find").fill("")
    page.page.get_by_label("group").select_option(label="process group default_pg")
    assert page.visible() == 64


def test_where_all_are_in_one_state_colours_tell_what_they_do(opened) -> None:
    """A map of one colour says nothing; what ranks do is folded over the names of groups."""
    page = opened(sample("fr-groups-in-opposite-order"))
    legend = [each.inner_text() for each in page.page.locator("button.state").all()]
    assert legend == ["in all_reduce #7 of weights 3", "in all_reduce #7 of statistics 1"]
    page.page.locator("button.state").first.click()
    assert page.visible() == 1
    page.page.get_by_label("colour").select_option(label="by state")
    assert page.visible() == 4
    assert page.page.locator("button[data-state=waiting]").count() == 1


def test_a_click_on_a_cell_tells_of_its_rank(opened) -> None:
    """The place, the stack and the evidence of the rank that is clicked stand beside the map."""
    page = opened(sample("dataloader-worker-blocked"))
    card = page.page.locator(".card")
    assert page.chosen() == "1"
    assert "look here first" in card.inner_text().lower()
    assert "__getitem__" in card.inner_text()
    canvas = page.page.locator("#rank-map canvas")
    canvas.click(position={"x": 2 + 36 * 2 + 10, "y": 12})
    assert page.chosen() == "2"
    assert "gradient all_reduce" in card.inner_text()


def test_keys_choose_ranks(opened) -> None:
    """Arrows, Home and End move over the map, and what is chosen stays in sight."""
    page = opened(large())
    canvas = page.page.locator("#rank-map canvas")
    canvas.focus()
    for key, rank in (
        ("End", "9999"),
        ("ArrowRight", "9999"),
        ("ArrowLeft", "9998"),
        ("Home", "0"),
        ("ArrowRight", "1"),
    ):
        canvas.press(key)
        assert page.chosen() == rank
    canvas.press("ArrowDown")
    below = int(page.chosen() or 0)
    assert below > 8
    canvas.press("ArrowUp")
    assert page.chosen() == "1"


def test_what_matters_is_in_sight_where_drawings_are_larger_than_the_screen(opened) -> None:
    """The map and the graph are scrolled to the rank to look at, also on a phone."""
    page = opened(large(), viewport={"width": 390, "height": 844}).page
    assert page.locator(".canvas").evaluate("box => box.scrollHeight > box.clientHeight")
    made = large()
    finding = msgspec.structs.replace(
        made.findings[0], culprit_ranks=(7777,), subjects=("rank 7777",)
    )
    shown = opened(
        msgspec.structs.replace(made, findings=(finding,)), viewport={"width": 390, "height": 844}
    )
    assert shown.chosen() == "7777"
    assert shown.page.locator(".canvas").evaluate("box => box.scrollTop") > 300
    graph = opened(sample("fr-mesh-chain"), viewport={"width": 390, "height": 844}).page
    root = graph.locator(".node.root").bounding_box()
    assert 0 <= root["x"] <= 390 - root["width"]


def test_ten_thousand_ranks_are_painted_soon_and_answer_at_once(opened) -> None:
    """First paint under two seconds; a click or a filter under a tenth of that."""
    began = time.monotonic()
    page = opened(large())
    painted = page.page.evaluate(PAINT)
    assert painted < 2000
    assert time.monotonic() - began < 10
    spent = page.page.evaluate(
        "() => { const began = performance.now();"
        " document.querySelector('button[data-state=waiting]').click();"
        " return performance.now() - began; }"
    )
    assert spent < 200
    assert page.visible() == 1


def test_hostile_text_is_shown_as_text(opened) -> None:
    """In names of functions, in lines of logs, of hosts: it is read, never run or drawn."""
    page = opened(report(HOSTILE))
    text = page.page.locator("body").inner_text()
    for hostile in HOSTILE[:3]:
        assert hostile in text
    assert page.page.locator("img, body svg[onload], body style").count() == 0
    assert page.page.locator("body script").count() == 2
    page.page.locator("#rank-map canvas").press("End")
    assert HOSTILE[1] in page.page.locator(".card").inner_text()


def test_what_the_policy_forbids_does_not_happen(opened, browser: sync_api.Browser) -> None:
    """Were a text ever to become markup, it could still run nothing: the policy is in force."""
    page = opened(report())
    page.page.evaluate("""() => {
        const script = document.createElement("script");
        script.textContent = "window.stolen = 1";
        document.body.append(script);
        document.body.setAttribute("onclick", "window.stolen = 2");
    }""")
    page.page.locator("h1").click()
    assert page.page.evaluate("window.stolen") is None
    assert any("script-src" in each for each in page.complaints)
    page.complaints.clear()


def test_the_root_and_the_circle_are_marked(opened) -> None:
    """Who holds the others up is told from who waits."""
    root = opened(sample("dataloader-worker-blocked")).page.locator(".node.root.culprit")
    assert "rank 1" in root.inner_text()
    assert "waits end here" in root.inner_text()
    circle = opened(sample("fr-groups-in-opposite-order")).page
    assert circle.locator(".node.ranks.cycle").count() == 2
    assert circle.locator(".edge.circle").count() == 4


def test_the_way_to_the_culprit_is_marked_in_the_stacks(opened) -> None:
    """From the outermost frame to the place where it stands; frames between can be unfolded."""
    page = opened(sample("dataloader-worker-blocked")).page
    chart = page.locator("#icicle .icicle").first
    assert chart.locator(".frame.culprit.leaf").inner_text().startswith("rank 1")
    before = chart.locator(".frame").count()
    chart.locator("button.fold").click()
    assert chart.locator(".frame").count() > before
    chart.get_by_text("main (dataloader-worker-blocked/train.py:58)").click()
    assert [leaf.inner_text()[:9] for leaf in chart.locator(".leaf").all()] == ["ranks 0,2"]
    page.get_by_text("show all stacks").first.click()
    assert chart.locator(".leaf").count() == 2


def test_events_of_the_lanes_can_be_read_with_keys(opened) -> None:
    """An event that has the focus is said below the lanes."""
    page = opened(diagnosed(eight_ranks())).page
    page.locator("#lanes .event").first.focus()
    assert "record 77" in page.locator("#lanes [role=status]").inner_text()


def test_commands_can_be_copied(opened, browser: sync_api.Browser) -> None:
    """The button behind a command takes the command alone."""
    page = opened(sample("dataloader-worker-blocked")).page
    command = page.locator(".command").first.inner_text()
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    page.locator(".steps button.copy").first.click()
    page.locator(".steps button", has_text="copied").wait_for()
    assert page.evaluate("window.copied") == command
    page.get_by_text("copy summary").click()
    page.locator(".facts button", has_text="copied").wait_for()
    assert page.evaluate("window.copied").startswith("HUNG: Rank 1 gets no batch")
    assert "Do now:" in page.evaluate("window.copied")


def test_print_shows_what_is_folded(opened) -> None:
    """On paper nothing can be unfolded or typed in; what the colours mean stays."""
    page = opened(diagnosed(eight_ranks())).page
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    assert page.locator("nav").is_hidden()
    assert page.get_by_label("find").is_hidden()
    assert page.locator("button.state").first.is_visible()


def test_the_picture_of_the_documentation_can_be_drawn(tmp_path: Path) -> None:
    """By the command that the docs name."""
    target = tmp_path / "page.png"
    subprocess.run([sys.executable, DOCS / "page_picture.py", target], check=True)
    assert target.read_bytes().startswith(b"\x89PNG")
