"""Draw the picture of the HTML page that its documentation shows.

Run with: ``python docs/page_picture.py [FILE]``. It writes ``docs/report-page.png``, or FILE, from
the recording of a sample; Chromium and the package ``playwright`` have to be there.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from whyhang.analyzer.commands import diagnose
from whyhang.analyzer.reports.html.page import render
from whyhang.analyzer.reports.outgoing import outgoing
from whyhang.samples.harness import scenario

SAMPLE = "dataloader-worker-blocked"
SIZE = (1200, 1440)
"""Pixels of the window: the answer, who waits for whom, the first finding, the map of ranks."""


def picture() -> bytes:
    """Return what Chromium shows of the page of the sample, as PNG."""
    bundle = scenario.samples()[SAMPLE].bundle
    report, _ = diagnose.report_on([], [str(bundle)], argparse.Namespace())
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "report.html"
        file.write_bytes(render(outgoing(report)))
        browser = playwright.chromium.launch(executable_path=chromium)
        window = browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]})
        window.goto(file.as_uri())
        shown = window.screenshot()
        browser.close()
    return shown


if __name__ == "__main__":
    target = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("report-page.png")
    Path(target).write_bytes(picture())
