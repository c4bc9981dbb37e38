"""Time every format of a report of many ranks, each in a fresh process.

Run ``python benchmarks/faces.py [N]`` (default 10,000). It writes N stack dumps (``stacks.py``),
diagnoses them once to JSON, and has ``whyhang show`` write each format from that. Where Chromium
and ``playwright`` are, it opens the page and says when it was painted. The bars at 10,000 ranks
are 5 s a format, 5 MB of HTML and 2 s to the first paint.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from stacks import generate, timed

from whyhang.analyzer.reports.faces import FACES

BAR_SECONDS = 5.0
BAR_BYTES = 5 << 20
BAR_PAINT = 2.0

PAINT = """() => new Promise((resolve) => new PerformanceObserver((list) => {
    const entry = list.getEntriesByName("first-contentful-paint")[0];
    if (entry) resolve(entry.startTime);
}).observe({ type: "paint", buffered: true }))"""
"""Waits for the first paint; gives its milliseconds after the page was asked for."""


def painted(page: Path) -> float | None:
    """Return after how many seconds Chromium has painted a page; None where there is none."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if chromium is None:
        return None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium)
        window = browser.new_page()
        window.goto(page.as_uri())
        seconds = window.evaluate(PAINT) / 1000
        browser.close()
    return float(seconds)


def main() -> None:
    """Measure each format."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", nargs="?", type=int, default=10_000)
    count = parser.parse_args().count
    program = [sys.executable, "-m", "whyhang"]
    with tempfile.TemporaryDirectory(prefix="whyhang-faces-") as name:
        folder, kept = Path(name), Path(name) / "report.json"
        (folder / "dumps").mkdir()
        generate(folder / "dumps", count)
        run = timed([*program, str(folder / "dumps"), "--format", "json", "-o", str(kept)])
        print(f"{count:,} ranks diagnosed in {run.wall:.2f} s; bar for a format: {BAR_SECONDS} s")
        print(f"{'format':<12} {'wall s':>8} {'peak MB':>8} {'kB':>8}")
        for face in FACES.values():
            target = folder / f"again{face.endings[0]}"
            row = timed([*program, "show", str(kept), "--format", "json", "-o", str(target)])
            size = target.stat().st_size
            late = row.wall > BAR_SECONDS or (face.name == "html" and size > BAR_BYTES)
            over = "  over the bar" if late else ""
            print(f"{face.name:<12} {row.wall:>8.2f} {row.peak:>8.0f} {size / 1000:>8,.0f}{over}")
        paint = painted(folder / "again.html")
        if paint is None:
            print("no Chromium or no playwright here: the first paint is not measured")
        else:
            over = "" if paint < BAR_PAINT else ", over the bar"
            print(f"first paint of the page after {paint:.2f} s{over}")


if __name__ == "__main__":
    main()
