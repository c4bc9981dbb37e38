"""The first words of a far side: find whyhang there or take it from standard input; start it.

Sent as text and run by whichever Python (3.10 or newer) the host has: standard library only, no
import of whyhang until it is found. ``CONFIG`` is put in front of it. What came over the channel is
unpacked into a folder that only this user may enter, and vanishes with the process that was
started from it, however that ends: a parent waits for it that does nothing else.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import glob
import hashlib
import importlib.util
import io
import json
import os
import platform
import re
import shutil
import signal
import socket
import sys
import tempfile
import time
import zipfile

CONFIG: dict[str, object] = globals().get("CONFIG", {})
"""``version`` of whyhang on the near side, ``roots``: where it is installed there, ``name``."""

NEEDED = ("msgspec", "regex", "zstandard")
PLACES = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - a private folder is made in one of them
NOEXEC = 8  # ST_NOEXEC of statvfs(3)


def say(kind: str, **fields: object) -> None:
    """Send a message: see ``wire.py``."""
    data = json.dumps({"say": kind, **fields}).encode() + b"\n"
    piece = base64.b64encode(data).decode()
    sys.stdout.write(f"@whyhang1 {CONFIG['name']} . {piece}\n")
    sys.stdout.flush()


def installed() -> bool:
    """Find the same version of whyhang here, with what it needs, and make it importable."""
    here = list(sys.path)
    for root in dict.fromkeys((*map(str, CONFIG["roots"]), *here)):  # type: ignore[call-overload]
        try:
            with open(f"{root}/whyhang/__init__.py", encoding="utf-8") as file:  # noqa: PTH123
                text = file.read()
        except OSError:
            continue
        version = re.search(r'__version__ = "(.*?)"', text)
        sys.path[:] = [root, *here]
        with contextlib.suppress(ImportError, ValueError):
            if (
                version is not None
                and version[1] == CONFIG["version"]
                and os.path.isdir(f"{root}/whyhang/collectors/hosts")  # noqa: PTH112
                and all(importlib.util.find_spec(name) for name in NEEDED)
            ):
                return True
    sys.path[:] = here
    return False


def pythons() -> dict[str, str]:
    """Find the Pythons of this host by name: those on PATH, and those that jobs run in.

    That of a container has a path there, and may have none here.
    """
    paths = [
        path
        for folder in os.environ.get("PATH", "").split(":")
        for path in glob.glob(f"{folder}/python3.[0-9]*")  # noqa: PTH207
    ]
    for link in glob.glob("/proc/[0-9]*/exe"):  # noqa: PTH207
        with contextlib.suppress(OSError):
            paths.append(os.readlink(link))  # noqa: PTH115
    named = {
        match[1]: path
        for path in paths
        if (match := re.search(r"/python(3\.\d+)$", path)) and os.access(path, os.X_OK)
    }
    return named | {f"{sys.version_info[0]}.{sys.version_info[1]}": sys.executable}


def folder(size: int) -> str:
    """Make a private folder (0700) where programs may run and there is room. Raises OSError."""
    for place in (tempfile.gettempdir(), *PLACES, os.path.expanduser("~")):  # noqa: PTH111
        with contextlib.suppress(OSError):
            facts = os.statvfs(place)
            if not facts.f_flag & NOEXEC and facts.f_bavail * facts.f_frsize > 4 * size:
                return tempfile.mkdtemp(prefix="whyhang-", dir=place)
    raise OSError("no folder has room for it and lets programs run")


def unpack(data: bytes, into: str) -> None:
    """Unpack the self-contained file; what is a program there becomes one here."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for member in archive.infolist():
            path = archive.extract(member, into)
            if (member.external_attr >> 16) & 0o111 and not member.is_dir():
                os.chmod(path, 0o700)  # noqa: PTH101


def main() -> None:
    """Say hello, and become the far side of whyhang."""
    has = installed()
    say(
        "hello",
        node=socket.gethostname(),
        python=f"{sys.version_info[0]}.{sys.version_info[1]}",
        pythons=pythons() if not has else {},
        machine=platform.machine(),
        system=platform.system(),
        libc=platform.libc_ver()[0],
        has=has,
        uid=os.getuid(),
        now=time.time(),
    )
    if has:
        from whyhang.collectors.hosts import far_side  # noqa: PLC0415

        far_side.main(str(CONFIG["name"]))
        return
    while line := sys.stdin.buffer.readline():
        order = json.loads(line)
        data = sys.stdin.buffer.read(int(str(order["size"])))
        if order["do"] != "payload" or CONFIG["name"] not in (order["to"] or [CONFIG["name"]]):
            continue
        if hashlib.sha256(data).hexdigest() == order["sha256"]:
            run(data, str(order.get("python") or ""))
        else:
            say("trouble", why="the program that was sent came damaged", remedy="Try again")
        return


def run(data: bytes, python: str) -> None:
    """Run what was sent in a child; remove every trace of it when the child has ended."""
    try:
        place = folder(len(data))
    except OSError as error:
        say("trouble", why=f"there is no place for the program that was sent: {error}", remedy="")
        return
    parent, child = os.getpid(), 0

    def end(*_: object) -> None:
        if child:
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGTERM)
        else:
            raise KeyboardInterrupt

    try:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, end)
        unpack(data, place)
        child = os.fork()
        if child:
            os.close(0)
            os.close(1)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)  # through signals
            return
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG: not outlive the parent
        if os.getppid() == parent:
            start(place, python)
    finally:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGALRM):
            signal.signal(number, signal.SIG_IGN)  # nothing keeps this from being done
        shutil.rmtree(place, ignore_errors=True)


def start(place: str, python: str) -> None:
    """Become the far side, in another Python if need be."""
    if python and python != sys.executable:
        code = (
            "import sys;sys.path[:1]=[sys.argv[1]];from whyhang.collectors.hosts import far_side;"
            "far_side.main(sys.argv[2])"
        )
        words = [python, "-uc", code, place, str(CONFIG["name"])]
        os.execv(python, words)  # noqa: S606
    sys.path.insert(0, place)
    from whyhang.collectors.hosts import far_side  # noqa: PLC0415

    far_side.main(str(CONFIG["name"]))
    sys.stdout.flush()
    os._exit(0)


if CONFIG:
    main()
