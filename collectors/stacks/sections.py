"""Put threads into processes, and processes into sections: what stands under one heading.

py-spy and gdb name the processes. faulthandler, pystack and tracebacks print threads only: where
one process ends and the next begins is concluded, from a thread that was already there, and from
the main thread, which comes last because interpreters list the newest thread first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from whyhang.analyzer.facts import MAX_RANKS, NOBODY, Record, Thread, Who, replace
from whyhang.collectors import limits
from whyhang.collectors.stacks import heading
from whyhang.collectors.stacks.frames import name_main, outermost
from whyhang.collectors.stacks.heading import Heading
from whyhang.collectors.stacks.passages import Passage
from whyhang.collectors.stacks.peers import PeerCall

if TYPE_CHECKING:
    import regex


Head: TypeAlias = "re.Match[str] | regex.Match[str]"


class ProcessStacks(Record):
    """One process at one moment as a text shows it; ``who`` is what the dump itself says.

    ``ranks``: "ranks 0-6:" stood above it. ``calls`` are those that name another rank.
    """

    threads: tuple[Thread, ...]
    line: int
    who: Who = NOBODY
    parent: int | None = None
    command: str | None = None
    main_only: bool = False
    copies: int = 1
    ranks: tuple[int, ...] = ()
    calls: tuple[PeerCall, ...] = ()


class HeadedStacks(Record):
    """The processes under one heading; ``who`` is what the heading says of them.

    ``garbled`` counts the threads that could not be read.
    """

    processes: Sequence[ProcessStacks]
    who: Who = NOBODY
    garbled: int = 0


class Sections:
    """Takes the threads of a passage in their order; a subclass for each way to print them.

    ``head`` matches the lines that stand above stacks. ``main_is_last``: the tool lists the main
    thread last. ``tid_is_pid``: a thread's id is the kernel's, so that of the main thread is the
    pid. ``ranks_only``: a heading that names neither ranks nor a host is none.
    """

    head: ClassVar[limits.Pattern[str] | re.Pattern[str]]
    main_is_last = False
    tid_is_pid = False
    ranks_only = False

    def __init__(self) -> None:
        self.ranks_left = MAX_RANKS  # that headings of this document may still name
        self.threads: list[Thread] = []  # of the process that is open
        self.processes: list[ProcessStacks] = []  # of the section that is open
        self._ended: list[HeadedStacks] = []
        self._heading = Heading()
        self.heading_is_used = False
        self._threads_seen: set[tuple[int | None, str | None]] = set()
        self._garbled = 0
        self._lacks_thread = False

    def read(self, passage: Passage) -> None:
        """Take the threads out of a passage."""
        rest = ""
        for head, below in _by_head(self.head, passage.text):
            if head is None:
                rest = self.begin(below, passage)
            else:
                self.between(rest)
                rest = self.take(head, below, passage.line(head.start()))

    def begin(self, above: str, passage: Passage) -> str:
        """Take in what stands above the first head; return what may head the stack below."""
        del passage
        return above

    def take(self, head: Head, below: str, line: int) -> str:
        """Take the stack below a head, which stands on this line; return what comes after it."""
        raise NotImplementedError

    def between(self, text: str) -> None:
        """Take in the lines between two stacks: a heading ends the process and the section.

        Raises ``TooSlowError`` where headings name more ranks than any job has.
        """
        if not text or text.isspace():
            return
        for below in heading.above(text):
            if not self.ranks_only or below.names_ranks():
                self.end_section()
                self._heading = self._heading.then(below, same=not self.heading_is_used)
                self.heading_is_used = False
                self.ranks_left -= len(below.ranks)
                if self.ranks_left < 0:
                    raise limits.TooSlowError(text)

    def add(self, thread: Thread, *, alone: bool = False) -> None:
        """Add a thread; ``alone``: it is all that is printed of its process."""
        key = (thread.tid, thread.name)
        if alone or key in self._threads_seen:
            self.end_process()
        self._threads_seen.add(key)
        self.threads.append(thread)
        if alone or (self.main_is_last and outermost(thread.frames) == "<module>"):
            self.end_process(main_only=alone)

    def add_garbled(self) -> None:
        """Note that a thread stands here which cannot be read."""
        self._garbled += 1
        self._lacks_thread = self.heading_is_used = True

    def end_process(self, *, main_only: bool = False) -> None:
        """End the process that is open, if one is."""
        threads, self.threads = self.threads, []
        lacks_thread, self._lacks_thread = self._lacks_thread, False
        self._threads_seen.clear()
        main = next((t for t in threads if outermost(t.frames) == "<module>"), None)
        if not threads or (lacks_thread and main is not threads[-1]):
            return  # what is garbled is its main thread
        who = Who(pid=main.tid) if self.tid_is_pid and main is not None else NOBODY
        line = threads[0].line or 1
        named = name_main(threads)
        self.keep(ProcessStacks(threads=named, line=line, who=who, main_only=main_only))

    def keep(self, process: ProcessStacks) -> None:
        """Add a process to the section. How many stand there, a heading says of the first only."""
        copies, ranks = self._heading.copies, self._heading.ranks
        if copies > 1 or ranks:
            process = replace(process, copies=copies, ranks=ranks)
            self._heading = Heading(who=self._heading.who)
        self.processes.append(process)
        self.heading_is_used = True

    def end_section(self) -> None:
        """End the process and the section that are open."""
        self.end_process()
        if self.processes or self._garbled:
            section = HeadedStacks(
                who=self._heading.who, processes=self.processes, garbled=self._garbled
            )
            self._ended.append(section)
        self.processes, self._garbled = [], 0

    def finish(self) -> list[HeadedStacks]:
        """Give the sections, in their order."""
        self.end_section()
        return self._ended


def _by_head(
    pattern: limits.Pattern[str] | re.Pattern[str], text: str
) -> Iterator[tuple[Head | None, str]]:
    """Yield each head with the text below it, up to the next; first what is above them all."""
    head, end = None, 0
    for following in pattern.finditer(text):
        yield head, text[end : following.start()]
        head, end = following, following.end()
    yield head, text[end:]
