"""Touches files for whyhang, in a process of its own that can be left behind when one hangs.

Run by path (standard library only, no import of whyhang). Each line of standard input is a
JSON object that says what to do with which paths; for each path, standard output gets a JSON
object on one line, and behind it as many bytes as its ``size`` says. The first one is empty: the
process has started. It ends with its standard input.
"""

import errno
import json
import os
import stat
import sys

MAX_NAMES = 100_000


def read(path: str, task: dict[str, int]) -> tuple[dict[str, object], bytes]:
    """Read a part of a plain file. What is none is not even opened: a pipe would notice."""
    facts = os.stat(path)  # noqa: PTH116 - the names of /proc are no paths to normalise
    data = b""
    if stat.S_ISREG(facts.st_mode):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            facts = os.fstat(descriptor)
            if stat.S_ISREG(facts.st_mode):
                data = _part(descriptor, task["start"], task["most"])
        finally:
            os.close(descriptor)
    return {
        "is_file": stat.S_ISREG(facts.st_mode),
        "device": facts.st_dev,
        "inode": facts.st_ino,
        "length": facts.st_size,
        "modified_at": facts.st_mtime,
    }, data


def _part(descriptor: int, start: int, most: int) -> bytes:
    """Read to the end or to ``most`` bytes; files of /proc are handed out a page at a time."""
    if start:
        os.lseek(descriptor, start, os.SEEK_SET)
    parts = []
    while most > 0 and (data := os.read(descriptor, min(most, 1 << 20))):
        parts.append(data)
        most -= len(data)
    return b"".join(parts)


def names(path: str, _task: dict[str, int]) -> tuple[dict[str, object], bytes]:
    """List a folder."""
    return {"names": os.listdir(path)[:MAX_NAMES]}, b""  # noqa: PTH208


def knock(path: str, _task: dict[str, int]) -> tuple[dict[str, object], bytes]:
    """Write a word into a pipe that somebody reads; never wait for a reader."""
    try:
        if not stat.S_ISFIFO(os.stat(path).st_mode):  # noqa: PTH116
            return {"trouble": f"{path} is no pipe"}, b""
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(descriptor, b"whyhang\n")
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return {"trouble": "nobody reads its pipe"}, b""
        return {"trouble": f"its pipe cannot be written to ({error.strerror})"}, b""
    return {}, b""


def answer(fields: dict[str, object], data: bytes) -> None:
    """Print what was found and what was read."""
    head = json.dumps({**fields, "size": len(data)}).encode()
    sys.stdout.buffer.write(head + b"\n" + data)
    sys.stdout.buffer.flush()


def main() -> None:
    """Do what each line says, until there are no more."""
    answer({}, b"")
    for line in sys.stdin.buffer:
        task = json.loads(line)
        do = {"read": read, "names": names, "knock": knock}[task["do"]]
        for path in task["paths"]:
            try:
                fields, data = do(path, task)
            except OSError as error:
                fields, data = {"trouble": error.strerror or str(error), "errno": error.errno}, b""
            except (ValueError, OverflowError) as error:  # a NUL byte in the path, an odd start
                fields, data = {"trouble": str(error)}, b""
            answer(fields, data)


if __name__ == "__main__":
    main()
