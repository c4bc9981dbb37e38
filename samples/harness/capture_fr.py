"""Records the flight-recorder samples anew.

    python -m whyhang.samples.harness.capture_fr [NAME...]

Each job is started from a copy in a plain folder and writes its recorders' dumps itself. Where
it sends and receives, which gloo does not record, the ranks' stacks are taken as well. The
dumps become the sample's bundle, an archive like any other.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import zstandard

SAMPLES = Path(__file__).resolve().parents[1]
RANKS = {"fr-mesh-chain": 8, "fr-pipeline-order": 2}
PATIENCE = 120.0


def capture(name: str, workplace: Path) -> int:
    """Start the job, wait for all its dumps, end it, and keep them; return the bundle's size."""
    copy = workplace / name
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir(parents=True)
    shutil.copy(SAMPLES / name / "train.py", copy)
    dumps = copy / "dumps"
    dumps.mkdir()
    ranks = RANKS.get(name, 4)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks)]
    job = subprocess.Popen(
        [*launcher, "--master-port", str(port), str(copy / "train.py")],
        cwd=copy,
        env={**os.environ, "DUMPS": str(dumps), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_for(dumps, ranks, job)
        take_stacks(dumps)
    finally:
        end(job)
    return pack(dumps, SAMPLES / name / "bundle.tar.zst")


def wait_for(dumps: Path, ranks: int, job: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while len([f for f in dumps.glob("comm_lib_trace_rank_*") if f.stat().st_size]) < ranks:
        if time.monotonic() > deadline or job.poll() is not None:
            raise SystemExit(f"{dumps}: {len(list(dumps.iterdir()))} of {ranks} dumps came")
        time.sleep(0.2)
    time.sleep(0.5)


def take_stacks(dumps: Path) -> None:
    for file in dumps.glob("pid_*"):
        rank, pid = file.name.removeprefix("pid_"), file.read_text()
        command = ["py-spy", "dump", "--json", "--locals", "--pid", pid]
        stack = subprocess.run(command, capture_output=True, check=True).stdout
        (dumps / f"rank{rank}.pyspy.json").write_bytes(stack)
        file.unlink()


def end(job: subprocess.Popen[bytes]) -> None:
    """End every process of the job: the ranks have sessions of their own under torchrun."""
    with contextlib.suppress(OSError):
        children = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
        for pid in [*map(int, children), job.pid]:
            os.kill(pid, signal.SIGKILL)
    job.wait()


def pack(dumps: Path, bundle: Path) -> int:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for file in sorted(dumps.iterdir()):
            entry = tarfile.TarInfo(file.name)
            entry.size = file.stat().st_size
            tar.addfile(entry, io.BytesIO(file.read_bytes()))
    bundle.write_bytes(zstandard.ZstdCompressor(level=19).compress(archive.getvalue()))
    return bundle.stat().st_size


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="samples to record; all when none is named")
    parser.add_argument("--workplace", type=Path, default=Path("/tmp/training"))
    options = parser.parse_args()
    names = options.names or sorted(folder.name for folder in SAMPLES.glob("fr-*"))
    for name in names:
        print(f"{name}: {capture(name, options.workplace)} bytes", flush=True)
    shutil.rmtree(options.workplace, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
