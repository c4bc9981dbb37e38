"""Hangs of real NCCL jobs on one GPU, each looked at with whyhang: truth against its verdict.

    python benchmarks/gpu_scenarios.py [NAME...] [--out FOLDER] [--ranks 4]
    python benchmarks/gpu_scenarios.py --backend gloo      # a dry run without a GPU

Several NCCL ranks share the GPU: each has a host id of its own (NCCL_HOSTID), and they talk over
sockets on loopback with one channel, so that what they wait in is what ranks of several hosts
wait in. For each scenario a folder keeps what whyhang collected (stacks, RAS, kernel log), the
recorders' dumps, NCCL's logs, RAS as text and JSON, and nvidia-smi's XML; ``versions.json`` says
with what. Ends with 1 if a diagnosis is wrong, with 0 where there is no GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

JOB = Path(__file__).with_name("gpu_job.py")
START = 180.0  # seconds that ranks get to come to their hang
DUMPS = 12.0  # seconds in which ranks write their dumps, on a loaded machine too
RECIPE = {
    "NCCL_NET": "Socket",
    "NCCL_IB_DISABLE": "1",
    "NCCL_SOCKET_IFNAME": "lo",
    "NCCL_P2P_DISABLE": "1",
    "NCCL_SHM_DISABLE": "1",
    "NCCL_NVLS_ENABLE": "0",
    "NCCL_MNNVL_ENABLE": "0",
    "NCCL_CUMEM_HOST_ENABLE": "0",
    "NCCL_ALGO": "Ring",
    "NCCL_PROTO": "Simple",
    "NCCL_MAX_NCHANNELS": "1",
    "NCCL_RAS_ENABLE": "1",
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_SUBSYS": "INIT,ENV,BOOTSTRAP,NET,COLL",
    "TORCH_FR_BUFFER_SIZE": "2000",
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
    "CUDA_VISIBLE_DEVICES": "0",
    "GLOO_SOCKET_IFNAME": "lo",
    "OMP_NUM_THREADS": "1",
    "PYTHONUNBUFFERED": "1",
}


@dataclass(frozen=True)
class Scenario:
    """A way to hang, and what a diagnosis must say. ``culprits`` None: nobody is to blame."""

    name: str
    categories: tuple[str, ...]
    culprits: tuple[int, ...] | None
    backends: tuple[str, ...] = ("nccl", "gloo")

    def right(self, categories: list[str], culprits: list[int] | None) -> bool:
        """Return whether the first finding is what happened."""
        named = None if culprits is None else tuple(culprits)
        return bool(categories) and categories[0] in self.categories and named == self.culprits


SCENARIOS = (
    Scenario("missing", ("missing-rank-in-collective",), (2,)),
    Scenario("first", ("missing-rank-in-collective", "init-missing-rank"), (3,)),
    Scenario(
        "skipped",
        ("collective-mismatch", "missing-rank-in-collective", "uneven-inputs"),
        (1,),
    ),
    Scenario("size", ("collective-mismatch",), (3,), ("nccl",)),
    Scenario("opposite", ("cross-group-deadlock",), None),
    Scenario("stopped", ("rank-stopped",), (1,)),
    Scenario("killed", ("rank-died",), (2,)),
    Scenario("init", ("init-missing-rank", "missing-rank-in-collective"), (3,)),
)


def free_port() -> int:
    """Find a port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Job:
    """The ranks of one scenario."""

    def __init__(self, scenario: Scenario, backend: str, ranks: int, folder: Path) -> None:
        self.folder = folder
        self.ranks = ranks
        self.ras = free_port()
        self.processes: list[subprocess.Popen[bytes]] = []
        port = free_port()
        for rank in range(ranks):
            environ = {
                **{k: v for k, v in os.environ.items() if not k.startswith("NCCL_")},
                **RECIPE,
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(ranks),
                "LOCAL_WORLD_SIZE": str(ranks),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "NCCL_HOSTID": f"rank{rank}",
                "NCCL_RAS_ADDR": f"127.0.0.1:{self.ras}",
                "NCCL_DEBUG_FILE": str(folder / "nccl.%h.%p.log"),
                "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": str(folder / "comm_lib_trace_rank_"),
                "TORCH_FR_DUMP_TEMP_FILE": str(folder / "comm_lib_trace_rank_"),
            }
            with (folder / f"rank{rank}.log").open("wb") as log:
                command = [sys.executable, str(JOB), scenario.name, backend, str(folder)]
                self.processes.append(
                    subprocess.Popen(command, env=environ, stdout=log, stderr=log)
                )

    def wait(self) -> str | None:
        """Wait until all ranks are about to hang; return why if they do not get there."""
        until = time.monotonic() + START
        while time.monotonic() < until:
            if len(list(self.folder.glob("ready.*"))) == self.ranks:
                return None
            if all(process.poll() is not None for process in self.processes):
                return "all ranks ended before their hang; see their logs"
            time.sleep(0.2)
        return f"the ranks did not come to their hang within {START:g} s"

    def wait_for_dumps(self) -> None:
        """Wait until each living rank has written its dump; one that is stopped never does."""
        until = time.monotonic() + DUMPS
        while time.monotonic() < until:
            dumps = self.folder.glob("comm_lib_trace_rank_*")
            if sum(dump.stat().st_size > 0 for dump in dumps) >= len(self.alive()):
                break
            time.sleep(0.2)
        time.sleep(1.0)  # the last one is written to its end

    def alive(self) -> list[int]:
        """List the ranks' processes that still run; the dead ones are collected."""
        return [process.pid for process in self.processes if process.poll() is None]

    def end(self) -> None:
        """End all ranks, stopped ones too."""
        for process in self.processes:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def job(scenario: Scenario, backend: str, ranks: int, folder: Path) -> Iterator[Job]:
    """Start a job, and end it whatever happens."""
    started = Job(scenario, backend, ranks, folder)
    try:
        yield started
    finally:
        started.end()


def ask_ras(port: int, form: str) -> bytes:
    """Ask RAS the plain way, apart from whyhang's own question."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.settimeout(20)
            words = ["CLIENT PROTOCOL 2", "TIMEOUT 5"]
            words += ["SET FORMAT json"] if form == "json" else []
            connection.sendall("".join(f"{word}\n" for word in (*words, "VERBOSE STATUS")).encode())
            parts = []
            while data := connection.recv(1 << 16):
                parts.append(data)
            return b"".join(parts)
    except OSError:
        return b""


def diagnose(started: Job, folder: Path) -> dict[str, object]:
    """Let whyhang look at the ranks that live, and at the logs."""
    pids = started.alive()
    targets = [str(pids[0])] if pids else []
    logs = folder / "logs"
    logs.mkdir()
    for path in [*folder.glob("rank*.log"), *folder.glob("nccl.*.log")]:
        shutil.copy(path, logs)
    command = [sys.executable, "-m", "whyhang", *targets, *([] if targets else [str(logs)])]
    command += ["--format", "json", "-o", str(folder / "report.md")]
    command += ["--save", str(folder / "bundle")] if targets else []
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    (folder / "report.json").write_text(done.stdout)
    (folder / "whyhang.stderr").write_text(done.stderr)
    report: dict[str, object] = json.loads(done.stdout) if done.stdout else {"findings": []}
    report["seconds"] = time.monotonic() - began
    return report


def run(scenario: Scenario, backend: str, ranks: int, out: Path) -> bool:
    """Run one scenario, keep its evidence, print a row of the table."""
    folder = out / scenario.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with job(scenario, backend, ranks, folder) as started:
        trouble = started.wait()
        if trouble is None:
            time.sleep(4.0)
            (folder / "dump").touch()  # each rank that can then writes its recorder's dump
            started.wait_for_dumps()
            if backend == "nccl":
                (folder / "ras.txt").write_bytes(ask_ras(started.ras, "text"))
                (folder / "ras.json").write_bytes(ask_ras(started.ras, "json"))
                keep(folder / "nvidia-smi.xml", "nvidia-smi", "-q", "-x")
            report = diagnose(started, folder)
    if trouble is not None:
        print(f"{scenario.name:<10} {trouble}")
        return False
    findings = report["findings"]
    assert isinstance(findings, list)
    causes = [finding for finding in findings if finding.get("caused_by") is None]
    first = causes[0] if causes else {}
    category, culprits = first.get("category", "nothing"), first.get("culprit_ranks")
    right = scenario.right([category], culprits)
    truth = f"{'/'.join(scenario.categories)} {named(scenario.culprits)}"
    seconds = report["seconds"]
    print(f"{scenario.name:<10} {'right' if right else 'WRONG':<6} {seconds:5.1f} s")
    print(f"{'':<10} truth {truth}")
    print(f"{'':<10} said  {category} {named(culprits)}: {report.get('headline', '')}")
    sys.stdout.flush()
    return right


def named(ranks: object) -> str:
    """Name culprits in a row of the table."""
    return "nobody" if ranks is None else f"ranks {ranks}"


def keep(path: Path, *command: str) -> None:
    """Keep what a program prints, if it is there and answers."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(command, capture_output=True, timeout=20, check=False)
        path.write_bytes(done.stdout)


def versions(backend: str) -> dict[str, object]:
    """Return the versions that the scenarios ran with."""
    import torch

    used: dict[str, object] = {"torch": torch.__version__, "python": platform.python_version()}
    if backend == "nccl":
        used |= {
            "nccl": ".".join(map(str, torch.cuda.nccl.version())),
            "cuda": torch.version.cuda,
            "gpu": torch.cuda.get_device_name(0),
        }
    driver = Path("/proc/driver/nvidia/version")
    if driver.exists():
        used["driver"] = driver.read_text().splitlines()[0]
    return used


def why_not(backend: str) -> str | None:
    """Return why the scenarios cannot run here."""
    try:
        import torch
        import torch.distributed as dist
    except ImportError:
        return "torch is not installed here; pip install 'whyhang[torch]'"
    if backend == "gloo":
        return None
    if not torch.cuda.is_available():
        return "there is no GPU here that torch can use; --backend gloo is a dry run without one"
    return None if dist.is_nccl_available() else "this torch has no NCCL"


def main() -> int:
    """Run the scenarios."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="scenarios (all)")
    parser.add_argument("--backend", choices=("nccl", "gloo"), default="nccl")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--out", type=Path, help="where the evidence is kept")
    options = parser.parse_args()
    trouble = why_not(options.backend)
    if trouble is not None:
        print(f"The scenarios did not run: {trouble}.")
        return 0
    unknown = set(options.names) - {scenario.name for scenario in SCENARIOS}
    if unknown or options.ranks < 4:
        parser.error(f"no such scenario: {', '.join(unknown)}" if unknown else "4 ranks or more")
    out = options.out or Path(tempfile.mkdtemp(prefix="whyhang-gpu-"))
    out.mkdir(parents=True, exist_ok=True)
    used = versions(options.backend)
    (out / "versions.json").write_text(json.dumps(used, indent=2) + "\n")
    print(", ".join(f"{name} {value}" for name, value in used.items()))
    chosen = [
        scenario
        for scenario in SCENARIOS
        if options.backend in scenario.backends
        and (not options.names or scenario.name in options.names)
    ]
    results = [run(scenario, options.backend, options.ranks, out) for scenario in chosen]
    print(f"{sum(results)} of {len(results)} right; the evidence is in {out}")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
