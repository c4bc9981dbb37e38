r"""faulthandler: what Python itself prints of its threads, by signal, by timer or when it dies.

Its form (CPython ``Python/traceback.c``): ``Thread 0x00007f… [name] (most recent call first):``
or ``Current thread 0x…``, then ``  File "path", line N in function``, innermost first; the name
since 3.14. The newest thread comes first and the main thread last. torch's debug server prints
the same per rank. In a log the lines carry launcher prefixes, and where several processes
share a stream without them the text may be garbled, which is told by lines that are torn.
"""

import functools
import re

from whyhang.analyzer.facts import Frame, Record, Thread
from whyhang.collectors import limits
from whyhang.collectors.stacks.frames import frame, shared
from whyhang.collectors.stacks.passages import FIRST, TIMED_OUT
from whyhang.collectors.stacks.reader import StackText
from whyhang.collectors.stacks.sections import Head, Sections

_HEAD = limits.compile(
    r"^[ \t>|]*+(?:(?:Current t|T)hread (?P<tid>0x[0-9A-Fa-f]{1,16})(?: \[(?P<name>[^\]\n]*)\])?"
    r"|(?P<stack>Stack)) \(most recent call first\):[^\n]*$"
    r"|^Timeout \(\d{1,4}:\d\d:\d\d(?:\.\d{1,6})?\)!(?=\n[ \t]{0,4}File \")",  # the head is lost
    re.MULTILINE,
)
_FRAME = re.compile(r'[ \t>|]*File "([^"\n]*)", line (\d{1,9}|\?\?\?) in ([^\s"()]+)\s*$')
_DEBRIS = re.compile(r"File |, line|\(most recent call first\)|Thread 0x")
_NEW_DUMP = ("Fatal Python error", "Timeout (")
# A process that broke waits for nothing: where it stood says what broke. One that aborted itself
# mostly did so because of a wait, and stands there.
_BROKE = re.compile(
    r"Fatal Python error: (?:Segmentation fault|Bus error|Illegal instruction|Floating)"
)
_SKIPPED = ("<no Python frame>", "...", "<tstate is freed>", "<freed thread state>")


class _Body(Record):
    frames: tuple[Frame, ...]
    rest: str = ""
    is_garbled: bool = False


class _Faulthandler(Sections):
    head = _HEAD
    main_is_last = True

    def __init__(self) -> None:
        super().__init__()
        self._broke = False

    def between(self, text: str) -> None:
        """Take in the lines between two stacks, which may say that another dump begins."""
        if any(mark in text for mark in _NEW_DUMP):
            self.end_process()
            self._broke = _BROKE.search(text) is not None
        super().between(text)

    def take(self, head: Head, below: str, line: int) -> str:
        """Take a thread."""
        body = _body(below)
        if self._broke:
            return body.rest
        if body.is_garbled:
            self.add_garbled()
            return body.rest
        tid = int(head["tid"], 16) if head["tid"] else None
        thread = Thread(frames=body.frames, name=head["name"], tid=tid, line=line)
        self.add(thread, alone=head["stack"] is not None)
        return body.rest


READER = StackText(
    name="faulthandler", tool="faulthandler", marks=(*FIRST, *TIMED_OUT), sections=_Faulthandler
)


@functools.lru_cache(maxsize=1 << 14)
def _body(text: str) -> _Body:
    frames: list[Frame] = []
    lines = text.split("\n")
    for number, line in enumerate(lines[1:], 1):
        if parts := _FRAME.match(line):
            file, at, function = parts.groups()
            frames.append(frame(function, file, None if at == "???" else int(at)))
        elif line.strip() not in _SKIPPED:
            return _Body(
                frames=shared(tuple(frames)),
                rest="\n".join(lines[number:]),
                is_garbled=_DEBRIS.search(line) is not None,
            )
    return _Body(frames=shared(tuple(frames)))
