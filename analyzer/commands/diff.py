"""Compare two reports: what moved and what stayed, or what two incidents share.

A and B are reports as JSON (`-o FILE.json`), or evidence that is diagnosed first: bundles,
folders, files. Of one job at two times it says which ranks, calls and findings moved. Of two
incidents it says what is alike: signature, place in the code, frames, quoted lines, hosts, GPUs.
Which of both it is follows from the processes; --same-job and --incidents say so.

  whyhang diff at-12-00.json at-12-05.json      does it move at all?
  whyhang diff last-week.json bundle.tar.zst    is this the hang that we had before?
"""

import argparse
import sys
from pathlib import Path

import msgspec
from rich.console import Console

from whyhang.analyzer.commands import output, redaction
from whyhang.analyzer.commands.cards import add_card_folders
from whyhang.analyzer.commands.diagnose import report_on
from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.pseudonyms.report import with_pseudonyms
from whyhang.analyzer.report import Report
from whyhang.analyzer.reports import markdown
from whyhang.analyzer.reports.comparison.blocks import page
from whyhang.analyzer.reports.comparison.compare import compare
from whyhang.analyzer.reports.comparison.records import Comparison
from whyhang.analyzer.reports.faces import FILE_WIDTH, text_of
from whyhang.analyzer.reports.outgoing import outgoing, plain
from whyhang.analyzer.reports.saved import is_saved_report, load
from whyhang.analyzer.reports.terminal import draw

FORMATS = {"terminal": ".txt", "markdown": ".md", "json": ".json"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the two sides and where the comparison goes."""
    parser.add_argument("before", metavar="A", help="a report as JSON, or evidence")
    parser.add_argument("after", metavar="B", help="the other one")
    sort = parser.add_mutually_exclusive_group()
    sort.add_argument("--same-job", action="store_true", help="they are of one job, at two times")
    sort.add_argument("--incidents", action="store_true", help="they are of two incidents")
    ends = f"in the format of its end: {', '.join(FORMATS.values())}"
    output.add_places(parser, FORMATS, files=f"it to FILE, {ends}")
    redaction.add_arguments(parser)
    add_card_folders(parser)


def run(options: argparse.Namespace) -> int:
    """Read or diagnose both, compare, and write the comparison everywhere it should go."""
    formats = {ending: format_ for format_, ending in FORMATS.items()}
    for name in options.output:
        if Path(name).suffix not in formats:
            raise TargetError(
                f"a comparison cannot be written as {name}", f"Use one of {', '.join(formats)}."
            )
    output.check_places(options.output)
    reports = [outgoing(_report(path, options)) for path in (options.before, options.after)]
    names = redaction.pseudonyms(options)
    shown = [plain(path) for path in (options.before, options.after)]
    if names is not None:
        reports = [with_pseudonyms(report, names) for report in reports]
        shown = [names.path(path) for path in shown]
    same_job = True if options.same_job else False if options.incidents else None
    before, after = reports
    compared = compare(before, after, (shown[0], shown[1]), same_job=same_job)
    errors = [
        output.write(path, _rendered(compared, formats[path.suffix]))
        for path in map(Path, dict.fromkeys(options.output))
    ]
    if options.format is None and sys.stdout.isatty():
        draw(page(compared), Console(highlight=False))
    else:
        written = _rendered(compared, options.format or "markdown", output.piped_width())
        sys.stdout.buffer.write(written)
    sys.stdout.flush()
    for error in filter(None, errors):
        raise error
    return 0


def _report(path: str, options: argparse.Namespace) -> Report:
    if is_saved_report(path):
        return load(path)
    if not Path(path).exists():
        raise TargetError(
            f"there is nothing at {path}",
            "Give two reports as JSON, or evidence: a bundle, a folder, a file.",
        )
    return report_on([], [path], options, cards=options.cards)[0]


def _rendered(compared: Comparison, format_: str, width: int = FILE_WIDTH) -> bytes:
    if format_ == "json":
        return msgspec.json.format(msgspec.json.encode(compared), indent=2) + b"\n"
    if format_ == "markdown":
        return markdown.draw(page(compared)).encode()
    return text_of(page(compared), width=width).encode()
