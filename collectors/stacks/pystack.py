r"""pystack (Bloomberg's): ``pystack remote PID``, ``pystack core``, ``--native``, ``--locals``.

Its form (``traceback_formatter.py``): ``Traceback for thread TID (name) [status] (most recent
call last):``, then ``    (Python) File "path", line N, in function`` with the source line below,
and ``    (C) File "path", line N, in symbol (library)``; outermost first. The status says
"Has the GIL", "Waiting for the GIL", "Garbage collecting". The name is the kernel's, the same
for all threads of most jobs. The main thread comes last.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from whyhang.analyzer.model import Fact, Frame, Record, Thread, Who
from whyhang.analyzer.reading import Document, Reader
from whyhang.collectors.stacks import owner as stack_owner
from whyhang.collectors.stacks import text as stack_text
from whyhang.collectors.stacks.gather import Gather, Section
from whyhang.collectors.stacks.text import Passage

_HEAD = re.compile(
    r"^[ \t>|]*(?:Traceback for thread (?P<tid>\d{1,10})(?: \((?P<name>[^)\n]*)\))?"
    r"(?: \[(?P<status>[^\]\n]*)\])? \(most recent call last\):"
    r"|The frame stack for thread (?P<empty>\d{1,10}) is empty)[^\n]*$",
    re.MULTILINE,
)
_PYTHON = re.compile(r'[ \t>|]*\(Python\) File "([^"\n]*)", line (-?\d{1,9}), in ([^\n]*)')
_NATIVE = re.compile(r'[ \t>|]*\(C\) File "([^"\n]*)", line (-?\d{1,9}), in ([^\n]*)')
_LIBRARY = re.compile(r"(?: \(inlined\))? \(([^()\n]*)\)$")


class _Pystack:
    """Reads pystack's reports."""

    name = "pystack"

    def sniff(self, document: Document) -> bool:
        return stack_text.holds(document, stack_text.PYSTACK)

    def read(self, document: Document) -> Iterator[Fact]:
        for passage in stack_text.passages(document, stack_text.PYSTACK):
            for section, found in _sections(passage):
                yield from stack_owner.dumps(document, passage, "pystack", section, found)


READER: Reader = _Pystack()


class _Body(Record):
    frames: tuple[Frame, ...]
    rest: str


def _sections(passage: Passage) -> Iterator[Section]:
    text = passage.text
    gather = _PidOfMain()
    heads = list(_HEAD.finditer(text))
    if heads:
        yield from gather.heed(text[: heads[0].start()])
    for number, head in enumerate(heads):
        last = number + 1 == len(heads)
        body = _body(text[head.end() : len(text) if last else heads[number + 1].start()])
        line = passage.line(head.start())
        gather.add(_thread(head, body, line), line)
        if not last:
            yield from gather.heed(body.rest)
    yield from gather.flush()


class _PidOfMain(Gather):
    """pystack's thread ids are the kernel's, so that of the main thread is the pid."""

    def close(self, who: Who | None = None, *, main_only: bool = False) -> None:
        main = next(
            (
                thread.tid
                for thread in self.threads
                if stack_owner.outermost(thread.frames) == "<module>"
            ),
            None,
        )
        super().close(who or Who(pid=main), main_only=main_only)


def _thread(head: re.Match[str], body: _Body, line: int) -> Thread:
    status = head["status"] or ""
    holds = None
    if "GIL" in status:
        holds = "Has the GIL" in status
    return Thread(
        frames=body.frames,
        name=head["name"] or None,
        tid=int(head["tid"] or head["empty"]),
        holds_gil=holds,
        line=line,
    )


@functools.lru_cache(maxsize=1 << 14)
def _body(text: str) -> _Body:
    frames: list[Frame] = []
    lines = text.split("\n")
    for number, line in enumerate(lines[1:], 1):
        if found := _PYTHON.match(line):
            file, at, function = found.groups()
            frames.append(stack_text.frame(function.strip(), file, max(int(at), 0) or None))
        elif found := _NATIVE.match(line):
            frames.append(_native(*found.groups()))
        elif line.strip() and not line.startswith((" ", "\t", "*", ">")):
            rest = "\n".join(lines[number:])
            return _Body(frames=stack_text.shared(tuple(reversed(frames))), rest=rest)
    return _Body(frames=stack_text.shared(tuple(reversed(frames))), rest="")


def _native(file: str, line: str, symbol: str) -> Frame:
    """Make a C frame: the source if the debug information names it, else the library."""
    library = ""
    if found := _LIBRARY.search(symbol):
        library, symbol = found[1], symbol[: found.start()]
    known = file != "???" and int(line) > 0
    return stack_text.frame(
        symbol.strip(), file if known else library, int(line) if known else None, native=True
    )
