"""Hosts that are namespaces of this machine: what a probe sees of the way between them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from live_sites import site_of

from whyhang.analyzer.facts import StoreView
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.probes.probe import Collected, Options
from whyhang.collectors.live.probes.store import ask
from whyhang.collectors.live.probes.store_places import MeetingPlace
from whyhang.collectors.live.proc import Proc
from whyhang.samples.harness import keeper, nethosts

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="needs root on Linux"),
    pytest.mark.skipif(shutil.which("ip") is None, reason="ip of iproute2 is not installed"),
]


@pytest.mark.parametrize(("mtu", "passes"), [(1500, True), (9000, False)])
def test_packets_that_are_too_large_for_the_switch_are_noticed(
    tmp_path: Path, mtu: int, *, passes: bool
) -> None:
    """The switch carries 1,500 bytes; hosts that believe in more lose what is larger."""
    own = f"ip link set eth0 mtu {mtu}; : >{tmp_path}/$HOST_NUMBER; exec sleep 60"
    command = [sys.executable, "-I", "-S", nethosts.__file__, "2", "sh", "-c", own]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as hosts:
        try:
            until = time.monotonic() + 30
            while not ((tmp_path / "0").exists() and (tmp_path / "1").exists()):
                assert time.monotonic() < until
                time.sleep(0.1)
            time.sleep(0.5)
            first, second = sorted(keeper.descendants(hosts.pid))[:2]
            place = MeetingPlace(host="node0", port=29500, pids=(second,))
            options = Options(store=False, probe=True)
            evidence = Collected()
            ask(site_of(Host(Proc()), options=options), [place], evidence, 2.0)
            (view,) = (fact for fact in evidence.facts if isinstance(fact, StoreView))
        finally:
            for pid in (*keeper.descendants(hosts.pid), hosts.pid):
                os.kill(pid, 9)

    assert first != second
    assert (view.mtu, view.echo_small, view.echo_large) == (mtu, True, passes)
    assert view.outcome == "refused"
    assert view.resolved == ("10.77.0.1",)
    assert any("echo requests" in text for text in evidence.touched)
    assert not any("asked for the names" in text for text in evidence.touched)
