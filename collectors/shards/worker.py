"""What runs on another machine: opens its share of the files, reads them, sends the facts back.

Started by ``clusters.py``: as a program that talks over its standard input and output, or as an
actor. It keeps what it unpacked until it is told to end, since facts may be asked for more.
"""

import os
import pickle
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import TypeAlias

from whyhang import __version__
from whyhang.analyzer.facts import Fact, Gap, replace
from whyhang.analyzer.reading import Reader
from whyhang.collectors import READERS
from whyhang.collectors.files import spool
from whyhang.collectors.files.archive import Store
from whyhang.collectors.files.folder import Task, facts_of
from whyhang.collectors.files.listing import Item, Unopened
from whyhang.collectors.files.spool import Extent
from whyhang.collectors.logs.reader import LogReader

Opened: TypeAlias = "bytes | list[Item | Gap] | None"
"""What a file is: itself, told by its first bytes; not to be opened here; or what is in it."""


class Worker:
    """Answers one question after the other: takes pickles, and returns them."""

    def __init__(self) -> None:
        self._store = Store()
        self._number = -1
        self._readers: tuple[Reader, ...] = ()

    def answer(self, question: bytes) -> bytes:
        """Return whether a question could be answered, and the answer or why not.

        It names a method, and what that is given.
        """
        operation, arguments = pickle.loads(question)  # noqa: S301 - from who started this
        try:
            return pickle.dumps((True, getattr(self, operation)(*arguments)), 5)
        except Exception as error:  # noqa: BLE001 - the other side reads those files itself
            return pickle.dumps((False, f"{type(error).__name__}: {error}"[:300]), 5)

    def begin(self, number: int, patterns: Iterable[str], owners: Mapping[str, str]) -> str:
        """Get ready; return the version of whyhang. ``number`` tells it from other workers."""
        spool.here = self._number = number
        logs = LogReader(patterns, owners=owners)
        logs.ready()  # not in the time that the first file may take
        self._readers = (*READERS, logs)
        return __version__

    def close(self) -> None:
        """Remove what was unpacked."""
        self._store.close()

    def expand(self, files: Sequence[Unopened]) -> list[Opened]:
        """Open files: say how each begins, or list what is in it."""
        return [self._opened(file) for file in files]

    def _opened(self, file: Unopened) -> Opened:
        try:
            with file.item.extent.open():
                pass
        except (OSError, ValueError):
            return None  # it may be readable where it was listed
        inside = list(self._store.expand(file))
        match inside:
            case [Item() as only] if only.extent is file.item.extent:
                return only.start
        return [
            replace(item, extent=replace(item.extent, holder=self._number))
            if isinstance(item, Item)
            else item
            for item in inside
        ]

    def read(self, tasks: Sequence[Task]) -> list[list[Fact]]:
        """Read files: the facts in each."""
        return [facts_of(self._store, self._readers, task) for task in tasks]

    def part(self, extent: Extent, at: int, size: int) -> bytes:
        """Give some bytes of a file that was unpacked here."""
        with extent.open() as stream:
            stream.seek(at)
            return stream.read(size)


def main() -> None:
    """Answer questions on standard input until it ends."""
    questions = Connection(os.dup(0), writable=False)
    answers = Connection(os.dup(1), readable=False)
    os.dup2(2, 1)  # what a library prints is no answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the key is for the program that started this
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    worker = Worker()
    try:
        while True:
            answers.send_bytes(worker.answer(questions.recv_bytes()))
    except (EOFError, OSError):
        pass
    finally:
        worker.close()


if __name__ == "__main__":
    main()
