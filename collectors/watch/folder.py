"""Looks at a folder that a job writes to: logs that grow, steps that are noted, dumps that come."""

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from whyhang._heartbeat import ENDING
from whyhang.analyzer.errors import TargetError
from whyhang.collectors.heartbeat import parse
from whyhang.collectors.watch.look import JOB, Look
from whyhang.collectors.watch.processes import ALARMS, NEW_BYTES

MAX_FILES = 2048
DEPTH = 6
_DUMPS = ("nccl_trace_rank_", "comm_lib_trace_rank_")


class Folder:
    """A job that is followed by what it writes. Raises ``TargetError`` if there is no folder."""

    def __init__(self, path: str, own: Iterable[str] = ()) -> None:
        """``own`` are files that whoever watches writes itself."""
        if not Path(path).is_dir():
            raise TargetError(f"{path} is no folder", "Give the folder that the job writes to.")
        self.paths = (path,)
        self.pids: tuple[int, ...] = ()
        self._sizes: dict[str, int] | None = None
        self._own = {str(Path(each).absolute()) for each in own}

    def look(self) -> Look:
        """Look at all files now."""
        at = time.monotonic()
        first = self._sizes is None
        sizes = self._sizes or {}
        files = {
            os.path.relpath(entry.path, self.paths[0]): Path(entry.path)
            for entry in _files(self.paths[0], DEPTH)
            if not self._is_own(entry)
        }
        signs, alarms = growth(files, sizes, first=first)
        self._sizes = sizes
        return Look(at=at, signs=signs, alarms=tuple(alarms))

    def _is_own(self, entry: os.DirEntry[str]) -> bool:
        """Return whether a file is written by whoever watches: reports, or standard output."""
        mine = [os.fstat(number) for number in (1, 2)]
        try:
            facts = entry.stat()
        except OSError:
            return True  # it is gone
        same = any((each.st_dev, each.st_ino) == (facts.st_dev, facts.st_ino) for each in mine)
        return same or str(Path(entry.path).absolute()) in self._own


def growth(
    files: Mapping[str, Path], sizes: dict[str, int], *, first: bool = False
) -> tuple[dict[tuple[str, str], int], list[str]]:
    """Return the signs that files give, and what in them says that the job is stuck.

    ``sizes`` are those of the look before, and are brought up to date; at the ``first`` look
    nothing counts as new.
    """
    signs: dict[tuple[str, str], int] = {}
    alarms: list[str] = []
    for name, path in files.items():
        with contextlib.suppress(OSError):
            size = path.stat().st_size
            before = sizes.get(name, size if first else 0)
            if path.name.endswith(ENDING):
                beat = parse(_part(str(path), 0).decode("utf-8", "replace"))
                if beat is not None:
                    signs[f"rank {beat.rank}", "beats"] = beat.beats
            elif path.name.startswith(_DUMPS):
                if size > before:
                    alarms.append(f"{name} was written: the recorder's dump of a hang")
            else:
                signs[JOB, name] = size
                start = max(before, size - NEW_BYTES)
                if size > before and any(each in _part(str(path), start) for each in ALARMS):
                    alarms.append(f"a watchdog gave up waiting, by {name}")
            sizes[name] = size
    return signs, alarms


def _files(folder: str, depth: int) -> Iterator[os.DirEntry[str]]:
    count = 0
    folders = [(folder, depth)]
    while folders and count < MAX_FILES:
        place, left = folders.pop()
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        if left:
                            folders.append((entry.path, left - 1))
                    elif entry.is_file():
                        count += 1
                        yield entry
        except OSError:
            continue


def _part(path: str, start: int) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123
        file.seek(start)
        return file.read(NEW_BYTES)
