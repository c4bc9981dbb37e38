"""Files that the evidence names, and the memory of other processes: each touched with a deadline.

A source file may lie on a file server that is gone; ``stat`` and ``open`` of it then never come
back. Reading ``cmdline``, ``environ``, ``maps`` or ``syscall`` of a process needs locks of that
process, which a thread that sleeps on such a server may hold for ever (this is why ``ps`` hangs
on such hosts). So all of them are read by a child process (``file_child.py``). One that does not
answer in time is killed or, where it sleeps past any signal, left behind. What it hung at is
evidence, and what shares its fate is not touched again.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import subprocess
import sys
import weakref
from collections.abc import Sequence
from errno import ENOENT, ENOTDIR
from pathlib import Path
from typing import Any

from whyhang.analyzer.facts import Gap, Record, Who
from whyhang.analyzer.redact import redact
from whyhang.collectors.live.proc import Proc
from whyhang.collectors.live.words import gap

PATIENCE = 1.0
"""Seconds after which a file counts as hanging."""

START = 20.0
"""Seconds that the child has to start."""

MOST_HANGING = 3
"""Mounts and folders that may cost ``PATIENCE`` in one capture; then no file is touched."""

MAX_BYTES = 64 << 20
_CHILD = Path(__file__).with_name("file_child.py")
_MEMORY = re.compile(r"/(?P<pid>\d+)/[a-z]+")
_THROUGH = re.compile(r"/(?P<pid>\d+)/(?P<link>root|cwd)/*(?P<rest>.*)", re.DOTALL)


class AnsweringChild:
    """A process that answers questions, each a line of JSON.

    Of an answer the first line is JSON, too; as many bytes as its ``size`` says follow it. One
    without a question says that the process has started. Raises ``OSError`` or ``EOFError`` where
    it does not within ``start`` seconds.
    """

    def __init__(self, command: Sequence[str], start: float) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._read = bytearray()
        self._poll = select.poll()
        self._output = self.process.stdout.fileno() if self.process.stdout else -1
        self._poll.register(self._output, select.POLLIN)
        try:
            self.answer(start)
        except (OSError, EOFError):
            self.end()
            raise

    def end(self) -> None:
        """Kill it, and wait a moment; it may sleep past the signal."""
        self.process.kill()
        for stream in filter(None, (self.process.stdin, self.process.stdout)):
            with contextlib.suppress(OSError):
                stream.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(0.1)

    def send(self, task: dict[str, Any]) -> None:
        """Tell what to do; the child takes all of it before it begins."""
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):  # it has ended, which its answer will show
                self.process.stdin.write(json.dumps(task).encode() + b"\n")
                self.process.stdin.flush()

    def answer(self, patience: float) -> tuple[dict[str, Any], bytes]:
        """Take the next answer. Raises ``TimeoutError`` or, where it has ended, ``EOFError``."""
        while (end := self._read.find(b"\n")) < 0:
            self._wait(patience)
        fields = json.loads(self._read[:end])
        stop = end + 1 + fields.pop("size", 0)
        while len(self._read) < stop:
            self._wait(patience)
        data = bytes(self._read[end + 1 : stop])
        del self._read[:stop]
        return fields, data

    def _wait(self, patience: float) -> None:
        if not self._poll.poll(patience * 1000):
            raise TimeoutError
        data = os.read(self._output, 1 << 20)
        if not data:
            raise EOFError
        self._read += data


class Content(Record):
    """What was read of a file or folder, or in ``trouble`` why nothing was.

    ``missing``: there is nothing of that name. ``is_file``: it is a plain file; nothing else is
    read. ``length`` is in bytes, ``modified_at`` in seconds since the epoch.
    """

    data: bytes = b""
    trouble: str = ""
    missing: bool = False
    is_file: bool = False
    device: int | None = None
    inode: int | None = None
    length: int | None = None
    modified_at: float | None = None
    names: tuple[str, ...] = ()


class Files:
    """Reads files, each with a deadline; may be used by several threads at once.

    ``hanging`` has what did not answer, by what shares its fate: the memory of a process, a mount
    or a folder.
    """

    def __init__(self, proc: Proc, patience: float = PATIENCE) -> None:
        self.hanging: dict[str, Gap] = {}
        self._proc = proc
        self._patience = patience
        self._idle: list[AnsweringChild] = []
        self._broken = ""
        weakref.finalize(self, _end, self._idle)

    def read(self, path: str, *, most: int = MAX_BYTES, start: int = 0) -> Content:
        """Read up to ``most`` bytes of a plain file, from ``start`` on."""
        return self._ask("read", [path], most=most, start=start)[path]

    def read_all(self, paths: Sequence[str], *, most: int = MAX_BYTES) -> dict[str, Content]:
        """Read many plain files in one go, up to ``most`` bytes of each."""
        return self._ask("read", paths, most=most, start=0)

    def when_written(self, paths: Sequence[str]) -> dict[str, float | None]:
        """Return when something was last written to files, pipes and terminals."""
        contents = self._ask("read", paths, most=0, start=0)
        return {path: content.modified_at for path, content in contents.items()}

    def names(self, folder: str) -> Content:
        """List a folder."""
        return self._ask("names", [folder])[folder]

    def knock(self, path: str) -> Content:
        """Write a word into a pipe that somebody reads."""
        return self._ask("knock", [path])[path]

    def _ask(self, do: str, paths: Sequence[str], **task: int) -> dict[str, Content]:
        contents: dict[str, Content] = {}
        while True:
            for path in paths:
                if path not in contents and (why := self._kept_off(path)):
                    contents[path] = Content(trouble=why)
            rest = [path for path in paths if path not in contents]
            if not rest:
                return contents
            try:
                command = [sys.executable, "-I", "-S", str(_CHILD)]
                child = self._idle.pop() if self._idle else AnsweringChild(command, START)
            except (OSError, EOFError):
                self._broken = "no process could be started that reads files"
                continue
            child.send({"do": do, "paths": rest, **task})
            if self._all_answered(child, rest, contents):
                self._idle.append(child)

    def _all_answered(
        self, child: AnsweringChild, paths: Sequence[str], contents: dict[str, Content]
    ) -> bool:
        """Take the answers of a child, up to the first path at which it hangs or fails."""
        path = ""
        try:
            for path in paths:
                contents[path] = _content(*child.answer(self._patience))
        except TimeoutError:
            contents[path] = Content(trouble=self._give_up(path, child))
        except EOFError:
            contents[path] = Content(trouble="it cannot be read")
        else:
            return True
        return False

    def _give_up(self, path: str, child: AnsweringChild) -> str:
        thread = Proc().asleep_in_kernel(child.process.pid)
        child.end()
        where = f", asleep in {thread.wchan}" if thread is not None and thread.wchan else ""
        why = f"it did not answer within {self._patience:g} s{where}"
        place, pid = self._place(path)
        self.hanging[place] = gap(
            "file", Who(pid=pid), path=redact(path), place=redact(place), why=why
        )
        return why

    def _kept_off(self, path: str) -> str:
        """Return why a path is not touched, "" where it may be."""
        if not self.hanging:
            return self._broken
        place, pid = self._place(path)
        if place in self.hanging:
            return f"{place} did not answer before"
        others = sum(gap.who.pid is None for gap in self.hanging.values())
        if pid is None and others >= MOST_HANGING:
            return f"{others} other places did not answer"
        return self._broken

    def _place(self, path: str) -> tuple[str, int | None]:
        """Name what shares the fate of a path; with a pid, the memory of this process."""
        pid, below = "self", path
        if path.startswith(self._proc.root):
            inside = path[len(self._proc.root) :]
            if memory := _MEMORY.fullmatch(inside):
                return f"memory of process {memory['pid']}", int(memory["pid"])
            if through := _THROUGH.fullmatch(inside):
                start = self._proc.link_of(f"{through['pid']}/cwd") or ""
                start = start if through["link"] == "cwd" else ""
                pid, below = through["pid"], f"{start}/{through['rest']}"
        point, what = self._proc.mount_of(pid, below)
        if point in {"", "/"}:  # too much for one file
            return f"folder {below.rpartition('/')[0]}", None
        return f"{what} at {point}", None


def _content(fields: dict[str, Any], data: bytes) -> Content:
    names, missing = tuple(fields.pop("names", ())), fields.pop("errno", None) in {ENOENT, ENOTDIR}
    return Content(data=data, names=names, missing=missing, **fields)


def _end(children: list[AnsweringChild]) -> None:
    """Let children end that nobody will ask any more."""
    for child in children:
        child.end()
