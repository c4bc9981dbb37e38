"""What runs on another machine: opens its share of the files, reads them, sends the facts back.

Started by ``slurm.py`` as a program that talks over its standard input and output, by ``ray.py`` as
an actor. It keeps what it unpacked until it is told to end, since facts may be asked for more.
"""

import os
import pickle
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from whyhang import __version__
from whyhang.analyzer.facts import Fact, Gap, replace
from whyhang.collectors import READERS
from whyhang.collectors.files import spool
from whyhang.collectors.files.archive import Item, Store, Unopened
from whyhang.collectors.files.folder import Task, facts_of
from whyhang.collectors.files.spool import Extent
from whyhang.collectors.logs.scan import LogReader
from whyhang.collectors.shards import wire

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


def answer(worker: Worker, question: tuple[str, tuple[Any, ...]]) -> tuple[bool, object]:
    """Return whether a question could be answered, and the answer or why not."""
    operation, arguments = question
    try:
        return True, getattr(worker, operation)(*arguments)
    except Exception as error:  # noqa: BLE001 - the other side reads those files itself
        return False, f"{type(error).__name__}: {error}"[:300]


def main() -> None:
    """Answer questions on standard input until it ends."""
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the key is for the program that started this
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    worker = Worker(*pickle.loads(wire.receive(questions)))  # noqa: S301 - from who started this
    try:
        wire.send(answers, (True, __version__))
        while True:
            question = pickle.loads(wire.receive(questions))  # noqa: S301 - as above
            wire.send(answers, answer(worker, question))
    except (wire.WireError, BrokenPipeError):
        pass
    finally:
        worker.close()


if __name__ == "__main__":
    main()
