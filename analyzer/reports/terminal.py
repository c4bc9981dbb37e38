"""A report on a terminal: colours where there are any, and nothing wider than the window."""

from collections.abc import Iterable

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from whyhang.analyzer.report import Report
from whyhang.analyzer.reports.blocks import (
    Block,
    Code,
    Commands,
    Headline,
    Items,
    Para,
    Quotes,
    Section,
    Table,
)
from whyhang.analyzer.reports.finding import is_command
from whyhang.analyzer.reports.page import page

VERDICT_STYLES = {
    "hung": "bold white on red",
    "failed": "bold white on red",
    "slow": "bold black on yellow",
    "healthy": "bold white on green",
    "inconclusive": "bold black on yellow",
}
WIDEST = 140
INDENT = 6


def show(report: Report, console: Console, *, full: bool = False) -> None:
    """Print the report; ``full``: with all effects and evidence."""
    draw(page(report, full=full), console)


def draw(blocks: Iterable[Block], console: Console) -> None:
    """Print blocks one below the other."""
    previous: Block | None = None
    for block in blocks:
        below_heading = previous is None or isinstance(previous, Section)
        if not below_heading and isinstance(block, Section) | isinstance(previous, Headline):
            console.print()
        width = min(console.width, WIDEST)
        console.print(_draw(block, width), soft_wrap=False, crop=False, width=width)
        previous = block


def _draw(block: Block, width: int) -> RenderableType:
    match block:
        case Headline():
            return Text.assemble(
                (f" {block.verdict.upper()} ", VERDICT_STYLES[block.verdict]), " ", block.text
            )
        case Section():
            styles = {1: "bold underline", 2: "bold", 3: "bold"}
            indent = 3 if block.level == 3 else 0
            return Padding(
                Text(block.title, style=styles[block.level]), (0, 0, 0, indent), expand=False
            )
        case Para():
            return Padding(Text(block.text), (0, 0, 0, 3), expand=False)
        case Items():
            return _listed([("•", item) for item in block.items])
        case Commands():
            return Group(*(_step(item, width) for item in block.items))
        case Code():
            return Padding(Text("\n".join(block.lines), style="dim"), (0, 0, 0, 5), expand=False)
        case Quotes():
            return _quotes(block)
        case Table():
            return _table(block, width)


GAP = 2  # characters between columns
MOST_KEPT = 2 / 3  # of the width, that columns take which do not wrap


def _step(item: str, width: int) -> RenderableType:
    """Draw a command on a line that is not broken, so that it can be copied; else a sentence.

    What is said behind it goes below where both do not fit.
    """
    if not is_command(item):
        return _listed([("•", item)])
    command, _, words = item.partition("  # ")
    if not words or len(item) + INDENT <= width:
        return Text(f"    $ {item}", no_wrap=True, overflow="ignore")
    comment = Padding(Text(f"# {words}"), (0, 0, 0, INDENT), expand=False)
    return Group(Text(f"    $ {command}", no_wrap=True, overflow="ignore"), comment)


def _listed(items: list[tuple[str, str]]) -> RenderableType:
    grid = Grid.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=5, justify="right")
    grid.add_column(overflow="fold")
    for mark, text in items:
        grid.add_row(mark, Text(text))
    return grid


def _quotes(block: Quotes) -> RenderableType:
    lines: list[RenderableType] = []
    for where, quote in block.items:
        lines.append(Padding(Text(where, style="dim"), (0, 0, 0, 5), expand=False))
        lines.append(Padding(Text(quote), (0, 0, 0, 7), expand=False))
    return Group(*lines)


def _table(block: Table, width: int) -> RenderableType:
    """Draw a table whose narrow columns keep their width; the wide ones share what is left."""
    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    rows = (block.columns, *block.rows)
    widths = [max(map(cell_len, cells)) + GAP for cells in zip(*rows, strict=True)]
    kept, room = set[int](), int(width * MOST_KEPT)
    for number in sorted(range(len(widths)), key=widths.__getitem__):
        if (room := room - widths[number]) >= 0:
            kept.add(number)
    for number, name in enumerate(block.columns):
        grid.add_column(name, overflow="fold", no_wrap=number in kept)
    for row in block.rows:
        grid.add_row(*(Text(cell) for cell in row))
    return grid
