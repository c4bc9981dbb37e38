"""Commands that run beside each other with standard input and output connected, by ClusterShell.

ClusterShell's event loop runs in a thread of its own; the main thread hands it words to send and
takes what comes from a queue, so that Ctrl-C always finds somebody at home.
"""

import contextlib
import logging
import queue
import resource
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ClusterShell.Event import EventHandler
from ClusterShell.Task import Task
from ClusterShell.Worker.Popen import WorkerPopen

from whyhang.collectors.hosts.wire import Answer, Assembler, WireError

CHUNK = 1 << 18
"""Bytes that ClusterShell is handed at once for one host: it copies what is left at each write."""

MOST_ERRORS = 4096


class Came(NamedTuple):
    """A message came over a channel."""

    channel: str
    answer: Answer


class Closed(NamedTuple):
    """A channel has ended: with an exit code, or a word on what was wrong with what it sent."""

    channel: str
    code: int | None
    errors: str


class Channels:
    """Channels by name. ``events`` gives what came of them, in order."""

    def __init__(self) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != hard:  # a channel needs three open files
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        logging.getLogger("ClusterShell").setLevel(logging.CRITICAL)  # a host that ends is a gap
        self.events: queue.SimpleQueue[Came | Closed] = queue.SimpleQueue()
        self._task = Task()
        self._task.set_default("stdout_msgtree", 0)  # what comes is not kept
        self._task.set_default("stderr_msgtree", 0)
        self._task.set_info("fanout", 1 << 16)  # who is started when, the caller says
        self._loop = _Loop(self._task, self.events)
        self._port = self._task.port(handler=self._loop, autoclose=False)
        self._task.resume()

    def start(self, commands: Mapping[str, Sequence[str]]) -> None:
        """Start a command for each new channel."""
        self._post("start", {name: shlex.join(words) for name, words in commands.items()})

    def send(self, names: Sequence[str], data: bytes) -> None:
        """Write to the standard input of the commands, if they still run."""
        self._post("send", tuple(names), data)

    def close(self, names: Sequence[str]) -> None:
        """End the standard input of the commands: a far side then clears up and goes."""
        self._post("close", tuple(names))

    def kill(self, names: Sequence[str]) -> None:
        """End the commands at once."""
        self._post("kill", tuple(names))

    def stop(self) -> None:
        """End all that still runs, and the event loop."""
        with contextlib.suppress(Exception):
            self._task.abort(kill=True)

    def _post(self, do: str, *what: object) -> None:
        self._port.msg_send((do, what))


class _Loop(EventHandler):  # type: ignore[misc]
    """What happens in ClusterShell's thread."""

    def __init__(self, task: Task, events: queue.SimpleQueue[Came | Closed]) -> None:
        self._task = task
        self._events = events
        self._workers: dict[str, WorkerPopen] = {}
        self._unsent: dict[str, list[memoryview]] = {}
        self._under_way: dict[str, int] = {}
        self._assemblers: dict[str, Assembler] = {}
        self._errors: dict[str, str] = {}
        self._ending: set[str] = set()

    def ev_msg(self, port: object, message: Any) -> None:
        del port
        do, what = message
        for name in what[0]:
            if do == "start":
                self._assemblers[name] = Assembler()
                command = f"exec {what[0][name]}"
                worker = WorkerPopen(command, key=name, handler=self, stderr=True)
                self._workers[name] = worker
                self._task.schedule(worker)
            elif do == "send":
                self._unsent.setdefault(name, []).append(memoryview(what[1]))
                self._push(name)
            elif do == "close":
                self._ending.add(name)
                self._push(name)
            elif name in self._workers:
                self._workers[name].abort()

    def _push(self, name: str) -> None:
        """Hand over a next piece once the one before has been written."""
        worker, waiting = self._workers.get(name), self._unsent.get(name)
        if worker is None or self._under_way.get(name):
            return
        if waiting:
            piece, rest = waiting[0][:CHUNK], waiting[0][CHUNK:]
            waiting[:1] = [rest] if rest else []
            self._under_way[name] = len(piece)
            worker.write(bytes(piece))
        elif name in self._ending:
            worker.set_write_eof()

    def ev_written(self, worker: WorkerPopen, node: str, sname: str, size: int) -> None:
        del worker, sname
        self._under_way[node] = max(0, self._under_way.get(node, 0) - size)
        self._push(node)

    def ev_read(self, worker: WorkerPopen, node: str, sname: str, msg: bytes) -> None:
        if sname == "stderr":
            before = self._errors.get(node, "")
            self._errors[node] = (before + msg.decode(errors="replace") + "\n")[:MOST_ERRORS]
            return
        try:
            message = self._assemblers[node].line(msg)
        except WireError as error:
            self._errors[node] = str(error)
            worker.abort()
            return
        if message is not None:
            self._events.put(Came(channel=node, answer=message))

    def ev_hup(self, worker: WorkerPopen, node: str, rc: int | None) -> None:
        del worker
        self._gone(node, rc)

    def ev_close(self, worker: WorkerPopen, timedout: bool) -> None:  # noqa: FBT001
        del timedout
        self._gone(worker.key, None)

    def _gone(self, name: str, code: int | None) -> None:
        if self._workers.pop(name, None) is not None:
            self._events.put(Closed(channel=name, code=code, errors=self._errors.pop(name, "")))
