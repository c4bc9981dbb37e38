"""Draw the picture of a report in a terminal that the README and the first page show.

Run with: ``python docs/picture.py``. It writes ``docs/report.svg`` from the recording of a sample.
"""

from __future__ import annotations

import argparse
import io
import re
from pathlib import Path

from rich.console import Console
from rich.text import Text

from whyhang.analyzer.commands import diagnose
from whyhang.analyzer.reports import terminal
from whyhang.samples.harness import scenario

SAMPLE = "dataloader-worker-blocked"
LINES = 38
"""What a picture of a page may show: the answer, the ranks, the first finding."""


def picture() -> str:
    """Return the report of the sample as SVG, as a terminal of 100 columns shows it."""
    bundle = scenario.samples()[SAMPLE].bundle
    report, _ = diagnose.report_on([], [str(bundle)], argparse.Namespace())
    whole = io.StringIO()
    terminal.show(report, Console(file=whole, force_terminal=True, width=100))
    lines = whole.getvalue().splitlines()[:LINES]
    console = Console(record=True, file=io.StringIO(), force_terminal=True, width=100)
    console.print(f"$ whyhang PID   # whyhang demo {SAMPLE} --recorded", highlight=False)
    console.print()
    for line in lines:
        console.print(Text.from_ansi(line), soft_wrap=True)
    svg = console.export_svg(title="whyhang", unique_id="whyhang")
    return re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)  # no font from elsewhere


if __name__ == "__main__":
    Path(__file__).with_name("report.svg").write_text(picture(), encoding="utf-8")
