"""Show a report again that was kept as JSON, in any format.

REPORT is what `-o FILE.json` or `--format json` wrote; "-" is standard input. Nothing is
diagnosed anew: the same facts in the same order, as terminal text, Markdown, or for the tools
that -o and --format name.

  whyhang show report.json                         on the terminal
  whyhang show report.json -o report.md -o stacks.speedscope.json
  whyhang show report.json --format sarif > whyhang.sarif
"""

import argparse

from whyhang.analyzer.commands import output
from whyhang.analyzer.reports.saved import load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the report and where it goes."""
    parser.add_argument("report", metavar="REPORT", help="a report as JSON")
    output.add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Read the report and write it everywhere it should go."""
    output.check(options)
    return output.emit(load(options.report), options)
