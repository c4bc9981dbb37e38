"""The faces of a report: each format with the ends of file names that ask for it.

A face is made from a report alone, which has gone through the gate (``outgoing``) before.
"""

import io
from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import NamedTuple

from rich.console import Console

from whyhang.analyzer.exports import dot, junit, sarif, stacks, trace
from whyhang.analyzer.report import Report, to_json
from whyhang.analyzer.reports import markdown
from whyhang.analyzer.reports.blocks import Block
from whyhang.analyzer.reports.page import page
from whyhang.analyzer.reports.terminal import draw

FILE_WIDTH = 100


class Face(NamedTuple):
    """One format. ``make`` takes a report and whether all of it is asked for.

    ``of_stacks``: it holds the stacks alone.
    """

    name: str
    endings: tuple[str, ...]
    make: Callable[[Report, bool], bytes]
    of_stacks: bool = False

    def render(self, report: Report, *, full: bool = False) -> bytes:
        """Write a report; ``full``: with all effects and evidence, where the format folds any."""
        return self.make(report, full)


def as_text(report: Report, *, full: bool = False, width: int = FILE_WIDTH) -> str:
    """Render for a text file: no colours, no padding at the ends of lines."""
    return text_of(page(report, full=full), width=width)


def text_of(blocks: Iterable[Block], *, width: int = FILE_WIDTH) -> str:
    """Render blocks for a text file."""
    buffer = io.StringIO()
    draw(blocks, Console(file=buffer, width=width, color_system=None, force_terminal=False))
    return "".join(line.rstrip() + "\n" for line in buffer.getvalue().splitlines())


def _html(report: Report) -> bytes:
    from whyhang.analyzer.reports.html.page import render  # noqa: PLC0415 - Jinja2 is for this face alone

    return render(report)


_ALL = (
    Face("terminal", (".txt",), lambda report, full: as_text(report, full=full).encode()),
    Face(
        "markdown",
        (".md", ".markdown"),
        lambda report, full: markdown.render(report, full=full).encode(),
    ),
    Face("html", (".html", ".htm"), lambda report, _: _html(report)),
    Face("json", (".json",), lambda report, _: to_json(report)),
    Face(
        "speedscope",
        (".speedscope.json",),
        lambda report, _: stacks.speedscope(report),
        of_stacks=True,
    ),
    Face("folded", (".folded",), lambda report, _: stacks.folded(report), of_stacks=True),
    Face("trace", (".trace.json",), lambda report, _: trace.render(report)),
    Face("dot", (".dot", ".gv"), lambda report, _: dot.render(report)),
    Face("sarif", (".sarif", ".sarif.json"), lambda report, _: sarif.render(report)),
    Face("junit", (".junit.xml",), lambda report, _: junit.render(report)),
)
FACES = {face.name: face for face in _ALL}  # all formats by the name that ``--format`` takes
ENDINGS = {ending: face for face in FACES.values() for ending in face.endings}


def face_of(path: str) -> Face | None:
    """Return the format that a file's name asks for: of several ends the longest counts.

    ``junit.xml`` by itself is as good as ``run7.junit.xml``.
    """
    name = PurePath(path).name.lower()
    fitting = [
        ending
        for ending in ENDINGS
        if (name.endswith(ending) and name != ending)
        or (name == ending[1:] and ending.count(".") > 1)
    ]
    return ENDINGS[max(fitting, key=len)] if fitting else None
