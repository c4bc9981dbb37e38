"""Asks NCCL's RAS for a report, in a process of its own that can be killed at any moment.

Run by path (standard library only, no import of whyhang), with one JSON object as argument; it
prints a line of JSON, and behind it the report. Everything has a limit.

The protocol is one of lines over TCP (``src/ras/client_support.cc`` of NCCL 2.24 to 2.30):
``CLIENT PROTOCOL 2``, ``TIMEOUT 1`` (seconds that silent processes are waited for), ``SET
FORMAT json`` where the version has it, ``VERBOSE STATUS``; then the report until the end of the
connection. Every process of a user listens at the same port, and the kernel chooses which one
answers: it may be stopped, or of another job. Whose socket is at the other end stands in
/proc/net/tcp and /proc/PID/fd, so a stranger is left again, and asked is the next one.
"""

import contextlib
import ctypes
import json
import os
import socket
import sys
import time
from collections import Counter

CLONE_NEWNET = 0x40000000
TRIES = 24
GREETING = 0.3  # seconds until a process that does not answer is taken for stopped
PATIENCE = 1  # seconds that RAS waits for silent processes, and once more for their peers
MAX_BYTES = 64 << 20


class TroubleError(Exception):
    """It did not answer as RAS does; the text says how."""


class NotRasError(TroubleError):
    """What listens there speaks another protocol."""


class StrangerError(Exception):
    """A process of another job answered."""


def enter_network(pid: int) -> None:
    """Go into the network namespace of a process; single-threaded as this program is."""
    with open(f"/proc/{pid}/ns/net", "rb") as place:  # noqa: PTH123
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(place.fileno(), CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def other_end(connection: socket.socket) -> str | None:
    """Return the inode of the socket at the other end; None until a process has accepted it."""
    own = f":{connection.getsockname()[1]:04X}"  # no other connection of this host has both ports
    its = f":{connection.getpeername()[1]:04X}"
    name = "tcp6" if connection.family == socket.AF_INET6 else "tcp"
    with (
        contextlib.suppress(OSError),
        open(f"/proc/self/net/{name}", encoding="ascii", errors="replace") as table,  # noqa: PTH123
    ):
        for line in table:
            field = line.split()
            if len(field) > 9 and field[1].endswith(its) and field[2].endswith(own):
                return field[9] if field[9] != "0" else None
    return None


def owner_of(inode: str | None, pids: list[int]) -> int | None:
    """Find which of the processes has this socket open; None where that cannot be seen.

    Raises ``StrangerError`` if it is none of them.
    """
    link, unseen = f"socket:[{inode}]", 0
    for pid in pids if inode is not None else ():
        try:
            entries = list(os.scandir(f"/proc/{pid}/fd"))
        except OSError:
            unseen += 1
            continue
        for entry in entries:
            with contextlib.suppress(OSError):  # closed in the meantime
                if os.readlink(entry.path) == link:  # noqa: PTH115
                    return pid
    if inode is not None and not unseen:
        raise StrangerError
    return None


class Dialogue:
    """One connection."""

    def __init__(self, address: tuple[str, int], until: float) -> None:
        self.until = until
        self.rest = b""
        self.connection = socket.create_connection(address, timeout=self.left(GREETING))

    def left(self, most: float) -> float:
        """Return the seconds that may still be spent."""
        return max(0.01, min(most, self.until - time.monotonic()))

    def send(self, line: str) -> None:
        """Send a line."""
        self.connection.settimeout(self.left(GREETING))
        self.connection.sendall(line.encode() + b"\n")

    def receive(self) -> str:
        """Read a line."""
        by = time.monotonic() + self.left(GREETING)
        while b"\n" not in self.rest:
            if time.monotonic() >= by or len(self.rest) > 4096:
                raise TimeoutError
            self.connection.settimeout(max(0.01, by - time.monotonic()))
            data = self.connection.recv(4096)
            if not data:
                raise TroubleError("it closed the connection without a report")
            self.rest += data
        line, _, self.rest = self.rest.partition(b"\n")
        return line.decode("utf-8", "replace").strip()

    def report(self) -> bytes:
        """Read the report to its end, or as far as it comes in time."""
        parts = [self.rest]
        size = len(self.rest)
        while time.monotonic() < self.until and size < MAX_BYTES:
            self.connection.settimeout(self.left(0.5))
            try:
                data = self.connection.recv(1 << 16)
            except TimeoutError:
                if os.getppid() == 1:  # whoever started us is gone
                    break
                continue
            except OSError:
                break
            if not data:
                break
            parts.append(data)
            size += len(data)
        return b"".join(parts)[:MAX_BYTES]


Answer = tuple[bytes, "int | None", str]
"""The report, which process answered and in which format."""


def ask(address: tuple[str, int], pids: list[int], until: float, form: str) -> Answer:
    """Ask once."""
    dialogue = Dialogue(address, until)
    with contextlib.closing(dialogue.connection):
        dialogue.send("CLIENT PROTOCOL 2")
        greeting = dialogue.receive()
        if not greeting.upper().startswith("SERVER PROTOCOL"):
            raise NotRasError(f"what listens there is not RAS (it said {greeting[:60]!r})")
        pid = owner_of(other_end(dialogue.connection), pids)
        dialogue.send(f"TIMEOUT {PATIENCE}")
        dialogue.receive()
        if form == "json":
            dialogue.send("SET FORMAT json")
            form = "json" if dialogue.receive().upper() == "OK" else "text"
        dialogue.send("VERBOSE STATUS")
        return dialogue.report(), pid, form


def ask_until_answered(address: tuple[str, int], pids: list[int], until: float) -> Answer:
    """Ask until a process of the job gives a report.

    Raises ``TroubleError`` if there is none; its text says what was in the way.
    """
    others: Counter[str] = Counter()
    trouble, form = "", "json"
    for _ in range(TRIES):
        if time.monotonic() >= until or os.getppid() == 1:
            break
        try:
            answer = ask(address, pids, until, form)
            if answer[0]:
                return answer
        except StrangerError:
            others["times a process of another job answered"] += 1
        except TimeoutError:
            others["times a process took the connection and said nothing"] += 1
        except (NotRasError, ConnectionRefusedError) as error:
            trouble = str(getattr(error, "strerror", error))
            break
        except TroubleError as error:
            trouble = str(error)
            form = "text"  # a version may end the dialogue over a word it does not know
        except OSError as error:
            trouble = error.strerror or str(error)
            time.sleep(0.05)
    troubles = [trouble] if trouble else []
    troubles += [f"{count} {what}" for what, count in others.items()]
    raise TroubleError("; ".join(troubles) or "it sent an empty report")


def main() -> None:
    """Ask as the argument says; print a header line and the report."""
    request = json.loads(sys.argv[1])
    until = time.monotonic() + request["limit"]
    header: dict[str, object] = {}
    data = b""
    try:
        if request["netns"]:
            enter_network(request["netns"])
        taken_at, address = time.time(), (request["host"], request["port"])
        data, pid, form = ask_until_answered(address, request["pids"], until)
        header = {"taken_at": taken_at, "pid": pid, "form": form}
    except TroubleError as error:
        header = {"trouble": str(error)}
    except OSError as error:
        why = "the job has a network of its own, which cannot be entered"
        header = {"trouble": f"{why} ({error.strerror or error})"}
    sys.stdout.buffer.write(json.dumps(header).encode() + b"\n" + data)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
