r"""faulthandler: what Python itself prints of its threads, by signal, by timer or when it dies.

Its form (CPython ``Python/traceback.c``): ``Thread 0x00007f… [name] (most recent call first):``
or ``Current thread 0x…``, then ``  File "path", line N in function``, innermost first; the name
since 3.14. The newest thread comes first and the main thread last. torch's debug server prints
the same per rank. In a log the lines carry launcher prefixes, and where several processes
share a stream without them the text may be garbled, which is told by lines that are torn.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from whyhang.analyzer.model import Fact, Frame, Gap, Record, Thread
from whyhang.analyzer.reading import Document, Reader
from whyhang.collectors.stacks import owner as stack_owner
from whyhang.collectors.stacks import text as stack_text
from whyhang.collectors.stacks.gather import Gather, Section
from whyhang.collectors.stacks.text import Passage

_HEAD = re.compile(
    r"^[ \t>|]*(?:(?:Current t|T)hread (?P<tid>0x[0-9A-Fa-f]{1,16})(?: \[(?P<name>[^\]\n]*)\])?"
    r"|(?P<stack>Stack)) \(most recent call first\):[^\n]*$",
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
    rest: str
    torn: bool = False


class _Faulthandler:
    """Reads faulthandler dumps, alone or inside logs."""

    name = "faulthandler"

    def sniff(self, document: Document) -> bool:
        return stack_text.holds(document, stack_text.FIRST)

    def read(self, document: Document) -> Iterator[Fact]:
        torn = 0
        for passage in stack_text.passages(document, stack_text.FIRST):
            reading = _Reading(passage)
            for section, found in reading.sections():
                yield from stack_owner.dumps(document, passage, "faulthandler", section, found)
            torn += reading.torn
        if torn:
            yield Gap(
                what=f"reading the stacks in {document.path}",
                why=f"{torn} of them are garbled: several processes wrote into it at once",
                cost="the processes they belong to are not placed",
                remedy="Dump one process at a time, or with py-spy",
                source=document.source(),
            )


READER: Reader = _Faulthandler()


class _Reading:
    def __init__(self, passage: Passage) -> None:
        self._passage = passage
        self._gather = Gather()
        self.torn = 0

    def sections(self) -> Iterator[Section]:
        text = self._passage.text
        heads = list(_HEAD.finditer(text))
        before, broke = text[: heads[0].start()] if heads else "", False
        if heads:
            yield from self._gather.heed(before)
        for number, head in enumerate(heads):
            end = heads[number + 1].start() if number + 1 < len(heads) else len(text)
            body = _body(text[head.end() : end])
            if any(mark in before for mark in _NEW_DUMP):
                broke = _BROKE.search(before) is not None
            before = body.rest
            if not broke:
                self._add(head, body)
            if number + 1 < len(heads):
                if any(mark in body.rest for mark in _NEW_DUMP):
                    self._gather.close()
                yield from self._gather.heed(body.rest)
        yield from self._gather.flush()

    def _add(self, head: re.Match[str], body: _Body) -> None:
        if body.torn:
            self.torn += 1
            self._gather.tear()
            return
        line = self._passage.line(head.start())
        thread = Thread(
            frames=body.frames,
            name=head["name"],
            tid=int(head["tid"], 16) if head["tid"] else None,
            line=line,
        )
        if head["stack"]:
            self._gather.close()
            self._gather.add(thread, line)
            self._gather.close(main_only=True)
        else:
            self._gather.add(thread, line)


@functools.lru_cache(maxsize=1 << 14)
def _body(text: str) -> _Body:
    frames: list[Frame] = []
    lines = text.split("\n")
    for number, line in enumerate(lines[1:], 1):
        found = _FRAME.match(line)
        if found is not None:
            known = found[2] != "???"
            frames.append(stack_text.frame(found[3], found[1], int(found[2]) if known else None))
        elif line.strip() not in _SKIPPED:
            rest = "\n".join(lines[number:])
            torn = _DEBRIS.search(line) is not None
            return _Body(frames=stack_text.shared(tuple(frames)), rest=rest, torn=torn)
    return _Body(frames=stack_text.shared(tuple(frames)), rest="")
