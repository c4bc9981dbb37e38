"""Gather threads into processes and processes under headings, for the dumps that name no process.

faulthandler and pystack print threads only. Where one process ends and the next begins must be
concluded: threads are listed newest first, so the main thread ends a process.
"""

from __future__ import annotations

from collections.abc import Iterator

from whyhang.analyzer.facts import NOBODY, Thread, Who
from whyhang.collectors.stacks import heading as stack_heading
from whyhang.collectors.stacks import owner as stack_owner
from whyhang.collectors.stacks.heading import Heading
from whyhang.collectors.stacks.owner import Found

Section = tuple[Who, list[Found]]


class Gather:
    """Takes threads in their order; gives sections, each a heading and the processes under it."""

    def __init__(self) -> None:
        self._heading = Heading()
        self._found: list[Found] = []
        self.threads: list[Thread] = []  # of the process that is open
        self._line = 1
        self._torn = False

    def heed(self, rest: str) -> Iterator[Section]:
        """Take in the lines above a thread: a heading ends the process and the section."""
        if not rest or rest.isspace():
            return
        for said in stack_heading.above(rest):
            same = not self._found and not self.threads
            yield from self.flush()
            self._heading = self._heading.then(said, same=same)

    def add(self, thread: Thread, line: int) -> None:
        """Add a thread; the main thread, and one that was already seen, are boundaries."""
        if thread.tid is not None and any(other.tid == thread.tid for other in self.threads):
            self.close()
        if not self.threads and not self._torn:
            self._line = line
        self.threads.append(thread)
        if stack_owner.outermost(thread.frames) == "<module>":
            self.close()

    def tear(self) -> None:
        """Say that a thread was there whose text is garbled."""
        self._torn = True

    def close(self, who: Who = NOBODY, *, main_only: bool = False) -> None:
        """End the process, if one is open."""
        threads, self.threads = self.threads, []
        torn, self._torn = self._torn, False
        if not threads:
            return
        if torn and stack_owner.outermost(threads[-1].frames) != "<module>":
            return  # its main thread is what was garbled
        self._found.append(
            Found(
                who=who,
                threads=stack_owner.name_main(threads),
                line=self._line,
                main_only=main_only,
                copies=self._heading.copies,
                ranks=self._heading.ranks,
            )
        )

    def flush(self) -> Iterator[Section]:
        """End the section."""
        self.close()
        if self._found:
            yield self._heading.who, self._found
            self._found = []
