"""Many files, read by several processes.

Reading ten thousand recorder dumps or logs is work for every processor. Workers are forks of
this process, so that they need nothing sent to begin with. One that fails costs nothing but
time: what it has not read is then read here.
"""

import contextlib
import ctypes
import gc
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from typing import Any, TypeVar

CHUNK = 32  # files that are sent back together; what they share is sent once
CHUNK_BYTES = 12 << 20  # bytes of files from which on no more are put together
MOST = 8
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)
T = TypeVar("T")

_work: Callable[[int], Any]
"""What workers do: they have it from their parent, since a closure cannot be sent."""


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
    work: Callable[[int], T], chunks: Sequence[Sequence[int]], workers: int
) -> Generator[T, None, None]:
    """Yield ``work(number)`` for each number of each chunk, done in ``workers`` processes."""
    global _work  # noqa: PLW0603 - see there
    if not chunks:
        return
    _work = work
    results: list[Future[list[T]]] = []
    with contextlib.ExitStack() as stack:
        gc.freeze()  # else the workers' collector would copy every page of this process
        stack.callback(gc.unfreeze)
        # Where no more processes or semaphores are to be had, all is done here.
        with contextlib.suppress(OSError, ImportError, BrokenExecutor):
            pool = ProcessPoolExecutor(
                workers,
                multiprocessing.get_context("fork"),
                initializer=_begin,
                initargs=(os.getpid(),),
            )
            stack.callback(pool.shutdown, cancel_futures=True)
            results += (pool.submit(_work_off, chunk) for chunk in chunks)
        results.reverse()
        for chunk in chunks:
            try:
                values = results.pop().result()
            except Exception:  # noqa: BLE001 - a worker failed, or there was none
                values = list(map(work, chunk))
            yield from values


def _begin(parent: int) -> None:
    """Prepare a worker: a key that is pressed is for its parent, and without that it ends.

    Workers hold each other's pipes open, and would wait for ever for one that was killed.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _work_off(chunk: Sequence[int]) -> list[Any]:
    return list(map(_work, chunk))
