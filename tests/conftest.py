"""The table at the end of a run of live samples: the truth, and what was said of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

COLUMNS = ("sample", "truth", "said live", "", "said from logs alone", "")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print a row for each sample that was started in this run."""
    rows = sorted(_rows(terminalreporter))
    if not rows:
        return
    table = [COLUMNS, *rows]
    widths = [max(len(row[number]) for row in table) for number in range(len(COLUMNS))]
    terminalreporter.section("what was said of each live sample")
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        terminalreporter.write_line("  ".join(cells).rstrip())
    live = sum(row[3] == "right" for row in rows)
    wrong = sum(row[5] == "WRONG" for row in rows)
    terminalreporter.write_line(
        f"{live} of {len(rows)} right live; {wrong} of {len(rows)} wrong from logs alone"
    )


def _rows(reporter: pytest.TerminalReporter) -> Iterator[tuple[str, ...]]:
    for reports in reporter.stats.values():
        for report in reports:
            told: Mapping[str, object] = dict(getattr(report, "user_properties", ()))
            if getattr(report, "when", "") == "call" and "truth" in told:
                names = ("sample", "truth", "live", "live_right", "logs", "logs_right")
                yield tuple(str(told.get(name, "")) for name in names)
