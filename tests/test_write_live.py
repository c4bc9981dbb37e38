"""What a look does to a process that is blocked in a write: nothing."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from whyhang.collectors.live.capture import Capture
from whyhang.collectors.live.probes.probe import Options

pytestmark = [pytest.mark.live, pytest.mark.skipif(sys.platform != "linux", reason="Linux only")]

SIZE = 1_000_000
PROGRAM = f"""
import os, socket, sys, threading
def say():
    if sys.argv[1] == "socket":
        sent = socket.socket(fileno=1).send(b"x" * {SIZE})
    else:
        sent = os.write(1, b"x" * {SIZE})
    sys.stderr.write(str(sent))
thread = threading.Thread(target=say)
thread.run() if sys.argv[1] != "thread" else thread.start()
"""


def asleep(pid: int) -> bool:
    """Tell whether all threads of a process sleep."""
    stats = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(text.rpartition(")")[2].split()[0] == "S" for text in stats)


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("how", ["pipe", "thread", "socket"])
def test_a_blocked_write_is_not_cut_short(how: str, *, native: bool) -> None:
    """The stacks are read, and what is written arrives whole; a pause would cut it short."""
    ours, theirs = socket.socketpair()
    into = theirs if how == "socket" else subprocess.PIPE
    job = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, how], stdout=into, stderr=subprocess.PIPE
    )
    theirs.close()
    try:
        ours.settimeout(20)
        until = time.monotonic() + 20
        while not asleep(job.pid):
            assert job.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)
        time.sleep(0.2)
        taken = Capture(job.pid, Options(interval=0.1, native=native), lambda _: None).take()
        if how == "socket":
            while ours.recv(SIZE):
                pass
        output = job.communicate(timeout=20)[1]
    finally:
        job.kill()
        ours.close()
    assert output == str(SIZE).encode()
    manifest = taken.bundle().manifest
    assert len([entry for entry in manifest.files if entry.kind.startswith("py-spy")]) == 2
    assert any("without pausing it" in text for text in manifest.touched)
