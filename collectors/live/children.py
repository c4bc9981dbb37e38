"""Child processes that are asked one thing after another, and may hang over each of them."""

import contextlib
import json
import os
import select
import subprocess
from collections.abc import Sequence
from typing import Any


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
