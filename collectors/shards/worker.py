"""What runs on another machine: opens its share of the files, reads them, sends the facts back.

Started by ``slurm.py`` as a program that talks over its standard input and output, by ``ray.py`` as
an actor. It keeps what it unpacked until it is told to end, since facts may be asked for more.
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
    """Answers one question after the other. ``number`` tells it from the other workers."""

    def __init__(self, number: int, patterns: Iterable[str], owners: Mapping[str, str]) -> None:
        spool.here = number
        self._number = number
        self._store = Store()
        logs = LogReader(patterns, owners=owners)
        logs.ready()  # not in the time that the first file may take
        self._readers = (*READERS, logs)

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
        return [self._held(item) if isinstance(item, Item) else item for item in inside]

    def _held(self, item: Item) -> Item:
        return replace(item, extent=replace(item.extent, holder=self._number))

    def read(self, tasks: Sequence[Task]) -> list[tuple[list[Fact], list[Gap]]]:
        """Read files: the facts in each, and the troubles."""
        return [facts_of(self._store, self._readers, task) for task in tasks]

    def part(self, extent: Extent, at: int, size: int) -> bytes:
        """Give some bytes of a file that was unpacked here."""
        with extent.open() as stream:
            stream.seek(at)
            return stream.read(size)


class Session:
    """What is asked of a worker, and what it answers: pickles both."""

    def __init__(self) -> None:
        self._worker: Worker | None = None

    def answer(self, question: bytes) -> bytes:
        """Return whether a question could be answered, and the answer or why not.

        The first one is "begin"; its answer is the version of whyhang.
        """
        operation, arguments = pickle.loads(question)  # noqa: S301 - from who started this
        try:
            if operation == "begin":
                self._worker = Worker(*arguments)
                return pickle.dumps((True, __version__), 5)
            return pickle.dumps((True, getattr(self._worker, operation)(*arguments)), 5)
        except Exception as error:  # noqa: BLE001 - the other side reads those files itself
            return pickle.dumps((False, f"{type(error).__name__}: {error}"[:300]), 5)

    def close(self) -> None:
        """Remove what was unpacked."""
        if self._worker is not None:
            self._worker.close()


def main() -> None:
    """Answer questions on standard input until it ends."""
    questions = Connection(os.dup(0), writable=False)
    answers = Connection(os.dup(1), readable=False)
    os.dup2(2, 1)  # what a library prints is no answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the key is for the program that started this
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    session = Session()
    try:
        while True:
            answers.send_bytes(session.answer(questions.recv_bytes()))
    except (EOFError, OSError):
        pass
    finally:
        session.close()


if __name__ == "__main__":
    main()
