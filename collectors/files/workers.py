"""Many files, read by several processes.

Reading ten thousand recorder dumps or logs is work for every processor. Workers are forks of
this process: they need nothing sent to begin with, and what they have read comes back through
a pipe. A worker that fails costs nothing but time: its share is then done here.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import pickle
import struct
import sys
from collections.abc import Callable, Generator, Sequence
from typing import BinaryIO, Generic, NoReturn, TypeVar

CHUNK = 32
"""Files that are sent back together; what they share is sent once."""

CHUNK_BYTES = 12 << 20
"""Bytes of files from which on no more are put together."""

MOST = 8
T = TypeVar("T")
_SIZE = struct.Struct("<q")
_FAILED = -1


def worth_it(chunks: int) -> int:
    """Say how many workers so many chunks are worth; 1 means none beside this process."""
    if not sys.platform.startswith("linux"):
        return 1  # elsewhere a fork is not safe once libraries of the system were used
    return max(1, min(len(os.sched_getaffinity(0)), MOST, chunks))


def chunked(numbers: Sequence[int], size: Callable[[int], int]) -> list[list[int]]:
    """Put neighbours together, as many as are sent back at once; ``size`` is in bytes."""
    chunks: list[list[int]] = []
    room = 0
    for number in numbers:
        if room <= 0 or len(chunks[-1]) >= CHUNK:
            chunks.append([])
            room = CHUNK_BYTES
        chunks[-1].append(number)
        room -= size(number)
    return chunks


def in_order(
    work: Callable[[int], T],
    chunks: Sequence[Sequence[int]],
    workers: int,
    keep: Sequence[object] = (),
    meanwhile: Callable[[], object] = lambda: None,
) -> Generator[T, None, None]:
    """Yield ``work(number)`` for each number of each chunk, done in ``workers`` processes.

    ``keep`` are objects that results may refer to and that stay in this process.
    ``meanwhile`` is called once, while they work.
    """
    if not chunks:
        return
    team = _Team(workers, work, chunks, keep)
    try:
        meanwhile()
        for place, chunk in enumerate(chunks):
            results = team.result(place)
            yield from results if results is not None else map(work, chunk)
    finally:
        team.dismiss()


class _Team(Generic[T]):
    """The workers; number n of m does every m-th chunk, beginning with the n-th."""

    def __init__(
        self,
        workers: int,
        work: Callable[[int], T],
        chunks: Sequence[Sequence[int]],
        keep: Sequence[object],
    ) -> None:
        self._keep = keep
        self._pipes: list[BinaryIO | None] = []
        self._pids: list[int] = []
        gc.freeze()  # else the workers' collector would copy every page of this process
        for number in range(workers):
            source, sink = os.pipe()
            try:
                pid = os.fork()
            except OSError:  # no more processes are allowed: its share is done here
                os.close(source)
                os.close(sink)
                self._pipes.append(None)
                continue
            if pid == 0:
                os.close(source)
                for earlier in self._pipes:  # held open here, their writers would never end
                    if earlier is not None:
                        os.close(earlier.fileno())
                _work_off(work, chunks[number::workers], sink, keep)
            os.close(sink)
            self._pids.append(pid)
            self._pipes.append(os.fdopen(source, "rb", buffering=1 << 16))

    def result(self, place: int) -> list[T] | None:
        """Give the results of one chunk, or None if its worker has failed."""
        pipe = self._pipes[place % len(self._pipes)]
        if pipe is None:
            return None
        size = pipe.read(_SIZE.size)
        told = _SIZE.unpack(size)[0] if len(size) == _SIZE.size else None
        if told == _FAILED:
            return None
        data = pipe.read(told) if told is not None else b""
        if told is None or len(data) < told:  # it was killed
            pipe.close()
            self._pipes[place % len(self._pipes)] = None
            return None
        results: list[T] = _Receiver(data, self._keep).load()
        return results

    def dismiss(self) -> None:
        """Close the pipes, on which workers that are not done end, and see them off."""
        for pipe in self._pipes:
            if pipe is not None:
                pipe.close()
        for pid in self._pids:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
        gc.unfreeze()


class _Sender(pickle.Pickler):
    """Pickles results; for what stays in the first process it writes a number."""

    def __init__(self, sink: io.BytesIO, keep: Sequence[object]) -> None:
        super().__init__(sink, protocol=5)
        self._keep = {id(kept): place for place, kept in enumerate(keep)}

    def persistent_id(self, obj: object) -> int | None:
        """Give the number of what is kept, None for all else."""
        return self._keep.get(id(obj))


class _Receiver(pickle.Unpickler):
    """Reads what a worker of our own has sent."""

    def __init__(self, data: bytes, keep: Sequence[object]) -> None:
        super().__init__(io.BytesIO(data))
        self._keep = keep

    def persistent_load(self, pid: int) -> object:
        """Put in what was kept."""
        return self._keep[pid]


def _work_off(
    work: Callable[[int], T],
    chunks: Sequence[Sequence[int]],
    sink: int,
    keep: Sequence[object],
) -> NoReturn:
    """Be a worker: send the results of each chunk, and end without any of what exits do."""
    try:
        for chunk in chunks:
            try:
                buffer = io.BytesIO()
                _Sender(buffer, keep).dump([work(number) for number in chunk])
                data = buffer.getvalue()
                message = _SIZE.pack(len(data)) + data
            except Exception:  # noqa: BLE001 - the first process does this chunk itself
                message = _SIZE.pack(_FAILED)
            _send(sink, message)
    except BaseException:  # noqa: BLE001 - the pipe was closed, or a key was pressed
        os._exit(1)
    os._exit(0)


def _send(sink: int, message: bytes) -> None:
    rest = memoryview(message)
    while rest:
        rest = rest[os.write(sink, rest) :]
