"""NCCL's RAS of a live job: who listens, one question at the first look and one at the last.

It is asked beside the stacks, by a child process (``collectors/ras/client.py``) that is ended
after ``EXTRA`` seconds beyond the looks, whatever it is doing. Asking pauses nothing: a thread
of NCCL's own answers.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

from whyhang.analyzer.model import Gap, Record, Role
from whyhang.collectors.live.descriptors import Sockets
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import Job, Member

PORT = 28028  # NCCL_RAS_CLIENT_PORT of src/ras/ras_internal.h, NCCL 2.24 and newer
EXTRA = 2.0
"""Seconds that an answer may still take when all else is done."""

HURRY = 0.3
"""Seconds more for a part of a report that is under way."""

_CLIENT = Path(__file__).parents[2] / "ras" / "client.py"
_COST = "how many collectives each rank launched, and who is silent, is not known from NCCL"


class Answer(Record):
    """One report as RAS sent it."""

    data: bytes
    form: str  # "json" or "text"
    look: int
    taken_at: float
    pid: int | None = None  # of the process that answered, where that could be seen


class Endpoint(Record):
    """Where a process of the job listens. ``netns`` is a process in another network namespace."""

    host: str
    port: int
    netns: int | None
    name: str


def endpoint(environ: Mapping[str, str]) -> tuple[str, int]:
    """Say where a process with this environment would listen."""
    told = environ.get("NCCL_RAS_ADDR", "")
    host, colon, port = told.rpartition(":")
    if not colon or not port.isdecimal() or not 0 < int(port) < 65536:
        return "localhost", PORT
    return host.strip("[]") or "localhost", int(port)


class RasQuestion:
    """A question under way."""

    def __init__(self, host: Host, job: Job, looks: int, interval: float, sockets: Sockets) -> None:
        self.gaps: list[Gap] = []
        self.touched: list[str] = []
        self._host = host
        self._ranks = [m for m in job.members if m.role is Role.RANK]
        self._child: subprocess.Popen[bytes] | None = None
        self._reader = threading.Thread()
        self._output: list[bytes] = []
        self._place = _listening(host, self._ranks, sockets)
        if self._place is not None:
            self._start(self._place, looks, interval)

    def _start(self, place: Endpoint, looks: int, interval: float) -> None:
        last = max(0, looks - 1) * interval
        told = {
            "host": place.host,
            "port": place.port,
            "netns": place.netns,
            "pids": [member.pid for member in self._ranks],
            "at": [0.0, last] if last else [0.0],
            "limit": last + 60.0,  # it is ended long before; this is for when we are killed
        }
        with contextlib.suppress(OSError):
            self._child = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_CLIENT), json.dumps(told)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            self.touched.append(f"asked NCCL RAS at {place.name} for its report")
            self._reader = threading.Thread(target=self._drain, args=(self._child,), daemon=True)
            self._reader.start()

    def _drain(self, child: subprocess.Popen[bytes]) -> None:
        """Take what the child prints, so that a huge report does not wait for room."""
        if child.stdout is not None:
            while data := os.read(child.stdout.fileno(), 1 << 16):
                self._output.append(data)

    def finish(self, extra: float = EXTRA) -> tuple[Answer, ...]:
        """Give the reports that came, waiting a little for those under way."""
        if self._child is None or self._place is None:
            return ()
        late = not self._ended(extra)
        if late:
            self._child.terminate()  # it then prints what it has
            if not self._ended(HURRY):
                self._child.kill()
                self._ended(1.0)
        self._reader.join(0.5)
        if self._child.stdout is not None and not self._reader.is_alive():
            self._child.stdout.close()
        answers, trouble = _take_apart(b"".join(self._output))
        self._child = None
        if late and not answers:
            text = f"no report came within {extra:g} s beyond the looks; a process may be silent"
            self._gap(self._place, text)
        elif trouble and not answers:
            self._gap(self._place, trouble)
        ours = tuple(answer for answer in answers if self._is_ours(answer))
        if len(ours) < len(answers):
            self._gap(self._place, "it cannot be seen whether what answers is of this job")
        return ours

    def _ended(self, seconds: float) -> bool:
        if self._child is None:
            return True
        try:
            self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _is_ours(self, answer: Answer) -> bool:
        """Tell whether an answer is of this job, where it was not seen who gave it."""
        if answer.pid is not None:
            return True
        told = {int(pid) for pid in re.findall(rb'"pid": (\d+)', answer.data)}
        own = {member.pid for member in self._ranks}
        return bool(told) and 2 * len(own & told) >= len(own)

    def _gap(self, place: Endpoint, why: str) -> None:
        self.gaps.append(
            Gap(
                what=f"NCCL RAS at {place.name}",
                why=why,
                cost=_COST,
                remedy="Ask by hand and give whyhang the answer: ncclras -v -t 20 >ras.txt",
            )
        )


def _listening(host: Host, ranks: Iterable[Member], sockets: Sockets) -> Endpoint | None:
    """Find where a process of the job listens, by the sockets of its network namespace."""
    own = host.proc.namespace(os.getpid(), "net")
    asked: set[tuple[str | None, str, int]] = set()
    for member in ranks:
        environ = host.environ(member.pid)
        name, port = endpoint(environ)
        space = host.proc.namespace(member.pid, "net")
        if environ.get("NCCL_RAS_ENABLE") == "0" or (space, name, port) in asked:
            continue
        asked.add((space, name, port))
        if sockets.listening(member.pid, port):
            netns = member.pid if None not in {own, space} and own != space else None
            return Endpoint(host=name, port=port, netns=netns, name=f"{name}:{port}")
    return None


def _take_apart(output: bytes) -> tuple[tuple[Answer, ...], str]:
    """Read what the child printed; a report that it could not finish is taken as far as it is."""
    answers, trouble, at = [], "", 0
    while (end := output.find(b"\n", at)) >= 0:
        try:
            header = json.loads(output[at:end])
        except ValueError:
            break
        at = end + 1 + int(header["size"])
        if header["kind"] == "report":
            answers.append(
                Answer(
                    data=output[end + 1 : at],
                    form=header["form"],
                    look=header["look"],
                    taken_at=header["at"],
                    pid=header["pid"],
                )
            )
        elif header["why"] == "namespace":
            trouble = (
                f"the job has a network of its own, which cannot be entered ({header['text']})"
            )
        else:
            trouble = header["text"]
    return tuple(answers), trouble
