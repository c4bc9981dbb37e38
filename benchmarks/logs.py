"""How fast whyhang reads a big log to its diagnosis, beside ripgrep with the same patterns.

    python benchmarks/logs.py [--size 1e9] [--coll] [--files N] [--rounds 3] [--keep FILE]

Writes a log of NCCL INFO lines and training output of eight ranks that ends in a watchdog
timeout; with ``--coll`` every second line is one of NCCL's lines per collective. Then times, in
turn and with the page cache warm, one process each: ``rg -f PATTERNS FILE`` with the log patterns
of all signatures, and ``python -m whyhang FILE --format json``. Patterns that ripgrep's syntax
lacks (look-around) are left out for it. Prints GB/s, peak memory and the ratio of the best times;
the bars are 0.5, and 2.0 with ``--coll``. ``--files N`` cuts the log into as many files, as of so
many ranks, of which both programs read several at a time; there is no bar for that. The times are
wall time: other work on the machine shows.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from whyhang import signatures
from whyhang.analyzer.match.log import patterns_of

RANKS = 8
BARS = {False: 0.5, True: 2.0}
PERIOD = 4096  # iterations whose text is made once and then repeated with other numbers


def main() -> int:
    """Write the log, time both programs, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=float, default=1e9, help="bytes of the log (1e9)")
    parser.add_argument("--coll", action="store_true", help="NCCL COLL in every second line")
    parser.add_argument("--files", type=int, default=1, help="cut the log into so many (1)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="where to keep the log, or where it is kept")
    args = parser.parse_args()
    if shutil.which("rg") is None:
        print("ripgrep (rg) is not installed")
        return 2
    with tempfile.TemporaryDirectory(prefix="whyhang-bench-") as scratch:
        log = args.keep or Path(scratch) / "job.log"
        if not log.exists():
            write_log(log, int(args.size), coll=args.coll)
        patterns = Path(scratch) / "patterns"
        written, dropped = write_patterns(patterns)
        size = log.stat().st_size
        print(f"{size / 1e9:.2f} GB, {written} patterns for rg ({dropped} left out)")
        if args.files > 1:
            log = cut(log, Path(scratch) / "ranks", args.files)
        commands = {
            "rg": ["rg", "--no-config", "-f", str(patterns), str(log)],
            "whyhang": [sys.executable, "-m", "whyhang", str(log), "--format", "json"],
        }
        # As installed: with its byte code at hand, whatever this shell says.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(scratch) / "bytecode")
        best = measure(commands, log, size, args.rounds)
    ratio = best["whyhang"] / best["rg"]
    bar = BARS[args.coll]
    told = f", bar {bar} {'met' if ratio <= bar else 'MISSED'}" if args.files == 1 else ""
    print(f"ratio {ratio:.2f}{told}")
    return 0


def cut(log: Path, folder: Path, count: int) -> Path:
    """Write the lines of a log into so many files, as of so many ranks; give their folder."""
    folder.mkdir()
    size = log.stat().st_size // count
    with log.open("rb") as stream:
        for rank in range(count):
            rest = stream.read(size) + stream.readline() if rank < count - 1 else stream.read()
            (folder / f"rank{rank}.log").write_bytes(rest)
    return folder


def measure(commands: dict[str, list[str]], log: Path, size: int, rounds: int) -> dict[str, float]:
    """Run the commands in turn, several times; print and give the best wall time of each."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    files = [str(path) for path in sorted(log.iterdir())] if log.is_dir() else [str(log)]
    for _ in range(rounds):
        for name, command in commands.items():
            subprocess.run(["cat", *files], stdout=subprocess.DEVNULL, check=True)  # warm the cache
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            begun = time.perf_counter()
            done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
            took = time.perf_counter() - begun
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            if done.returncode not in (0, 1):
                sys.exit(f"{name} failed with {done.returncode}")
            times[name].append((took, cpu))
    for name, command in commands.items():
        took, cpu = min(times[name])
        rate = size / took / 1e9
        print(
            f"{name:8} {took:6.2f} s  {rate:5.2f} GB/s  {cpu:6.2f} s of CPU  {memory(command)} MB"
        )
    return {name: min(found)[0] for name, found in times.items()}


def memory(command: list[str]) -> str:
    """Give the peak memory of a command, as GNU time tells it."""
    timer = shutil.which("time", path="/usr/bin:/bin")
    if timer is None:
        return "?"
    done = subprocess.run(
        [timer, "-f", "%M", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    return str(int(done.stderr.split()[-1]) // 1024)


def write_patterns(path: Path) -> tuple[int, int]:
    """Write the log patterns of all signatures for ripgrep; give how many, and how many not."""
    found = {
        pattern
        for signature in signatures.load()
        for matcher in (signature.when, signature.unless)
        for pattern in patterns_of(matcher)
    }
    translated = [for_ripgrep(pattern) for pattern in sorted(found)]
    kept = [pattern for pattern in translated if pattern is not None and takes(pattern)]
    path.write_text("\n".join(kept) + "\n")
    return len(kept), len(found) - len(kept)


def for_ripgrep(pattern: str) -> str | None:
    """Write a pattern in the syntax of Rust's regex crate; None if it needs look-around."""
    if re.search(r"\(\?(?:[=!]|<[=!])|\\Z", pattern):
        return None
    pattern = re.sub(r"\(\?P<\w+>", "(?:", pattern)
    return re.sub(r"\\([^A-Za-z0-9_.^$*+?()\[\]{}|\\-])", r"\1", pattern)


def takes(pattern: str) -> bool:
    """Tell whether ripgrep takes a pattern."""
    return subprocess.run(["rg", "-e", pattern, os.devnull], capture_output=True).returncode != 2


def write_log(path: Path, size: int, *, coll: bool) -> None:
    """Write a log of about ``size`` bytes."""
    written = 0
    with path.open("wb", buffering=1 << 20) as file:
        for text in pieces(coll=coll):
            file.write(text)
            written += len(text)
            if written >= size:
                break
        file.write(ending().encode())


def pieces(*, coll: bool) -> Iterator[bytes]:
    """Give the log piece by piece, without end; deterministic."""
    rng = random.Random(7)
    yield "".join(setup()).encode()
    templates = ["".join(iteration(rng, number, coll=coll)) for number in range(PERIOD)]
    step = 0
    while True:
        for template in templates:
            step += 1
            yield template.replace("@STEP@", f"{step:8d}").replace("@COUNT@", f"{step:x}").encode()


def setup() -> Iterator[str]:
    """Give what NCCL says when it starts."""
    for rank in range(RANKS):
        head = f"node1:{4711 + rank}:{4711 + rank} [{rank}] NCCL INFO "
        comm = (
            f"ncclCommInitRank comm 0x55d0c8a3b2{rank:02x} rank {rank} nranks {RANKS} cudaDev "
            f"{rank} nvmlDev {rank} busId {rank}b000 commId 0x7c5d1b0e6a2f9034 - Init "
        )
        yield f"{head}Bootstrap: Using eth0:10.0.0.{rank}<0>\n"
        yield f"{head}{comm}START\n{head}{comm}COMPLETE\n"


def iteration(rng: random.Random, number: int, *, coll: bool) -> Iterator[str]:
    """Give what the ranks write in one iteration."""
    for rank in range(RANKS):
        head = f"node1:{4711 + rank}:{4800 + rank} [{rank}] NCCL INFO "
        if coll:
            numel = 1048576 if number % 3 else 524288
            yield (
                f"{head}AllReduce: opCount @COUNT@ sendbuff 0x7f{rng.getrandbits(40):010x} "
                f"recvbuff 0x7f{rng.getrandbits(40):010x} count {numel} datatype 7 op 0 root 0 "
                f"comm 0x55d0c8a3b2{rank:02x} [nranks={RANKS}] stream 0x55d0c8a1a2c0\n"
            )
        kind = 0.0 if coll else rng.random()
        if kind < 0.6:
            yield (
                f"[default{rank}]: iteration @STEP@/  999999 | elapsed time per iteration (s): "
                f"{rng.random() * 99:.2f} | learning rate: 4.298E-05 | global batch size:  2048 | "
                f"lm loss: {rng.random() * 5:.6E} | grad norm: {rng.random():.3f} | tokens/s: "
                f"{rng.random() * 1e5:.0f} |\n"
            )
        elif kind < 0.9:
            other = (rank + 1) % RANKS
            channel = f"Channel {number % 16:02d}/1 : {rank}[{rank}] -> {other}[{other}]"
            yield f"{head}{channel} via P2P/CUMEM/read\n"
        else:
            yield (
                f"2025-07-04 11:02:{number % 60:02d},123 - INFO - train - step @STEP@ took "
                f"{rng.random() * 1e3:.1f} ms, data 0.3 ms\n"
            )


def ending() -> str:
    """Give the lines of a watchdog timeout on all ranks but one."""
    return "".join(
        f"[rank{rank}]:[E1206 18:44:16.997991020 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog "
        "caught collective operation timeout: WorkNCCL(SeqNum=20585, OpType=ALLREDUCE, NumelIn=64, "
        "NumelOut=64, Timeout(ms)=600000) ran for 600000 milliseconds before timing out.\n"
        f"[rank{rank}]:[E1206 18:44:17.0 ProcessGroupNCCL.cpp:2271] [PG ID 0 PG GUID 0(default_pg) "
        f"Rank {rank}]  failure detected by watchdog at work sequence id: 20585 PG status: last "
        "enqueued work: 20585, last completed work: 20584\n"
        for rank in range(RANKS)
        if rank != 3
    )


if __name__ == "__main__":
    sys.exit(main())
