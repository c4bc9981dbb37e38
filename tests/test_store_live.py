"""The store of a real job is read while it starts, and the job does not notice."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_sites import site_of
from test_capture_live import free_port

from whyhang.analyzer.facts import StoreView
from whyhang.analyzer.job import store_keys
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.probes.probe import Collected
from whyhang.collectors.live.probes.store import ask
from whyhang.collectors.live.probes.store_places import MeetingPlace
from whyhang.collectors.live.proc import Proc

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc"),
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]

JOIN = """
import sys, torch.distributed as dist
rank, port, libuv = sys.argv[1:]
url = f"tcp://127.0.0.1:{port}?use_libuv={libuv}"
dist.init_process_group("gloo", init_method=url, rank=int(rank), world_size=3)
dist.barrier()
store = dist.distributed_c10d._get_default_store()
dist.barrier()
if rank == "0":
    plain = dist.TCPStore("127.0.0.1", int(port), is_master=False, wait_for_workers=False)
    print("keys", *sorted(plain.list_keys()), flush=True)
dist.barrier()
print("joined", flush=True)
"""


def read(port: int, limit: float = 3.0) -> tuple[StoreView, float]:
    began = time.monotonic()
    place = MeetingPlace(host="127.0.0.1", port=port, pids=(os.getpid(),), world_size=3)
    evidence = Collected()
    ask(site_of(Host(Proc())), [place], evidence, limit)
    (view,) = (fact for fact in evidence.facts if isinstance(fact, StoreView))
    return view, time.monotonic() - began


@contextlib.contextmanager
def rank(number: int, port: int, libuv: str) -> Iterator[subprocess.Popen[str]]:
    environ = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", JOIN, str(number), str(port), libuv],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environ,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("libuv", ["1", "0"], ids=["libuv", "older server"])
def test_a_job_that_is_read_while_it_starts_and_while_its_master_is_stopped_starts_normally(
    libuv: str,
) -> None:
    """Nothing is added, nobody is counted, and no look takes longer than its limit."""
    port = free_port()
    with rank(0, port, libuv) as master, rank(1, port, libuv) as second:
        until = time.monotonic() + 60
        while True:
            view, _ = read(port)
            if store_keys.clients(view) == 2 and view.num_keys and view.num_keys > 1:
                break
            assert time.monotonic() < until, view
            time.sleep(0.2)
        assert view.keys == ("default_pg/0//cpu//0/1", "init/")

        again, _ = read(port)
        assert (again.keys, again.values) == (view.keys, view.values)

        master.send_signal(signal.SIGSTOP)
        stopped, seconds = read(port, limit=1.0)
        master.send_signal(signal.SIGCONT)
        assert stopped.outcome == "silent"
        assert seconds < 3.0

        with rank(2, port, libuv) as third:
            output = [one.communicate(timeout=60)[0] for one in (master, second, third)]

    assert all("joined" in text for text in output)
    (keys,) = (line for line in output[0].splitlines() if line.startswith("keys"))
    assert keys.split()[1:] == [f"default_pg/0//cpu//0/{number}" for number in range(3)]
