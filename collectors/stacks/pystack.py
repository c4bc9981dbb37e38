r"""pystack (Bloomberg's): ``pystack remote PID``, ``pystack core``, ``--native``, ``--locals``.

Its form (``traceback_formatter.py``): ``Traceback for thread TID (name) [status] (most recent
call last):``, then ``    (Python) File "path", line N, in function`` with the source line below,
and ``    (C) File "path", line N, in symbol (library)``; outermost first. The status says
"Has the GIL", "Waiting for the GIL", "Garbage collecting". The name is the kernel's, the same
for all threads of most jobs. The main thread comes last.
"""

import functools
import re

from whyhang.analyzer.facts import Frame, Thread
from whyhang.collectors import limits
from whyhang.collectors.stacks.frames import frame, shared
from whyhang.collectors.stacks.passages import PYSTACK
from whyhang.collectors.stacks.reader import StackText
from whyhang.collectors.stacks.sections import Head, Sections

_HEAD = limits.compile(
    r"^[ \t>|]*+(?:Traceback for thread (?P<tid>\d{1,10})(?: \((?P<name>[^)\n]*)\))?"
    r"(?: \[(?P<status>[^\]\n]*)\])? \(most recent call last\):"
    r"|The frame stack for thread (?P<empty>\d{1,10}) is empty)[^\n]*$",
    re.MULTILINE,
)
_FRAME = re.compile(r'[ \t>|]*\((Python|C)\) File "([^"\n]*)", line (-?\d{1,9}), in ([^\n]*)')
_LIBRARY = re.compile(r"(?: \(inlined\))? \(([^()\n]*)\)$")


class _Pystack(Sections):
    head = _HEAD
    main_is_last = True
    tid_is_pid = True

    def take(self, head: Head, below: str, line: int) -> str:
        """Take a thread."""
        frames, rest = _body(below)
        status = head["status"] or ""
        self.add(
            Thread(
                frames=frames,
                name=head["name"] or None,
                tid=int(head["tid"] or head["empty"]),
                holds_gil="Has the GIL" in status if "GIL" in status else None,
                line=line,
            )
        )
        return rest


READER = StackText(name="pystack", tool="pystack", marks=PYSTACK, sections=_Pystack)


@functools.lru_cache(maxsize=1 << 14)
def _body(text: str) -> tuple[tuple[Frame, ...], str]:
    """Read the frames below a head; give them, innermost first, and what comes after them."""
    frames: list[Frame] = []
    lines = text.split("\n")
    rest = ""
    for number, line in enumerate(lines[1:], 1):
        if parts := _FRAME.match(line):
            kind, file, at, function = parts.groups()
            known = int(at) if int(at) > 0 else None
            if kind == "C":
                frames.append(_native(function, file, known))
            else:
                frames.append(frame(function.strip(), file, known))
        elif line.strip() and not line.startswith((" ", "\t", "*", ">")):
            rest = "\n".join(lines[number:])
            break
    return shared(tuple(reversed(frames))), rest


def _native(symbol: str, file: str, line: int | None) -> Frame:
    """Make a C frame: the source if the debug information names it, else the library."""
    library = _LIBRARY.search(symbol)
    name = symbol[: library.start()] if library else symbol
    if file != "???" and line is not None:
        return frame(name.strip(), file, line, native=True)
    return frame(name.strip(), library[1] if library else "", None, native=True)
