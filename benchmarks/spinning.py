"""Is an endless loop told from a slow rank? Twenty runs of each, under gloo and under MPI.

Starts small jobs whose last rank, after some quick steps, runs in a loop of 2 to 30 distinct lines
that never ends, in functions of its own; and jobs whose last rank takes 1 to 20 s for each
step, in code of the same kind. Points whyhang at each, at a moment drawn by chance, and prints
what it said. Needs torch; for MPI mpi4py and mpirun.

    python benchmarks/spinning.py [--backend gloo mpi] [--runs 20] [--seed 1] [--only endless|slow]
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from whyhang.samples.harness.scenario import Expectation, Running, Sample

TORCH = """
import logging, random, sys, time
import torch
import torch.distributed as dist

{work}

def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = torch.zeros(1000)
    for step in range(100000):
        model += 1
        if rank == dist.get_world_size() - 1 and step >= {first}:
            {call}
        dist.all_reduce(model)
        {say}
    dist.destroy_process_group()

main()
"""

MPI = """
import logging, random, sys, time
from mpi4py import MPI

{work}

def main():
    comm = MPI.COMM_WORLD
    rank = comm.Get_rank()
    total = 0
    for step in range(100000):
        if rank == comm.Get_size() - 1 and step >= {first}:
            {call}
        total = comm.allreduce(step)
        {say}

main()
"""

SAYS = (
    'print("step", step, flush=True)',
    "print(f\"[{rank}] {time.strftime('%H:%M:%S')} step {step} done\", flush=True)",
    "pass",
)


def work_of(chance: random.Random, lines: int, end: str) -> str:
    """Write a loop of so many distinct lines, spread over up to four functions, until ``end``."""
    shapes = (
        "total += sum(i * i for i in range({n}))",
        "table = {{i: i % 7 for i in range({n})}}",
        "words = ' '.join(str(i) for i in range({n})).split()",
        "row = sorted(range({n}), key=lambda i: -i)",
        "total -= len([i for i in range({n}) if i % 3])",
        "time.sleep({n} / 1e6)",
    )
    functions = chance.randint(0, min(3, lines // 4))
    shares = [lines // (functions + 1)] * (functions + 1)
    shares[0] += lines - sum(shares)
    text, calls = "", []
    for number, share in enumerate(shares):
        size = chance.randint(300, 3000)
        body = [chance.choice(shapes).format(n=size) for _ in range(max(1, share))]
        if number:
            text += f"def part_{number}(total):\n    " + "\n    ".join(body)
            text += "\n    return total\n\n\n"
            calls.append(f"total = part_{number}(total)")
        else:
            own = body
    rest = [*own, *calls]
    chance.shuffle(rest)
    return (
        text
        + f"def settle(limit):\n    total = 0\n    while {end}:\n        "
        + ("\n        ".join(rest) + "\n    return total\n")
    )


def run(backend: str, kind: str, chance: random.Random, folder: Path) -> dict[str, object]:
    """Start one job, look at it once and end it."""
    lines, seconds = chance.randint(2, 30), round(chance.uniform(1, 20), 1)
    end = "limit != 0.1 + limit - 0.1 or True" if kind == "endless" else "time.monotonic() < limit"
    first = chance.randint(3, 30) if kind == "endless" else 0
    text = (TORCH if backend == "gloo" else MPI).format(
        work=work_of(chance, lines, end),
        first=first,
        call=f"settle(time.monotonic() + {seconds})",
        say=chance.choice(SAYS),
    )
    script = folder / "train.py"
    script.write_text(text)
    ranks = chance.choice((2, 3, 4))
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks)]
    command += ["--master-port", str(20000 + os.getpid() % 20000), str(script)]
    if backend == "mpi":
        command = ["mpirun", "--oversubscribe", "-n", str(ranks), sys.executable, str(script)]
    expect = Expectation(verdict="", category="")
    sample = Sample(name="spinning", folder=str(folder), title="", expect=expect)
    with Running(sample, command) as job:
        wait = 12 + (chance.uniform(3, 30) if kind == "endless" else seconds * chance.uniform(2, 4))
        time.sleep(wait)
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "whyhang", str(job.pid), "--format", "json"],
            capture_output=True,
            check=False,
        )
        took = time.monotonic() - began
    report = json.loads(done.stdout or b'{"verdict": "?", "findings": []}')
    first_finding = (report["findings"] or [{}])[0]
    wanted = ("hung", "rank-spinning") if kind == "endless" else ("slow", "slow-not-hung")
    named = first_finding.get("culprit_ranks")
    right = (report["verdict"], first_finding.get("category")) == wanted
    right = right and (named == [ranks - 1] or (kind == "slow" and ranks == 2 and not named))
    return {
        "backend": backend,
        "job": kind,
        "shape": f"{lines} lines" if kind == "endless" else f"{seconds:4.1f} s a step",
        "ranks": ranks,
        "after": round(wait),
        "verdict": report["verdict"],
        "category": first_finding.get("category"),
        "culprit": named,
        "line": (first_finding.get("location") or {}).get("line"),
        "took": round(took, 1),
        "right": right,
    }


def main() -> int:
    """Run all, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", nargs="+", default=["gloo", "mpi"])
    parser.add_argument("--only", choices=("endless", "slow"))
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    kinds = [options.only] if options.only else ["endless", "slow"]
    right: dict[tuple[str, str], int] = {}
    for backend, kind, number in itertools.product(options.backend, kinds, range(options.runs)):
        chance = random.Random(f"{options.seed} {backend} {kind} {number}")
        with tempfile.TemporaryDirectory() as folder:
            row = run(backend, kind, chance, Path(folder))
            if options.keep and not row["right"]:
                name = f"{backend}-{kind}-{number}"
                (options.keep / f"{name}.py").write_text((Path(folder) / "train.py").read_text())
        if number == 0:
            print("  ".join(f"{name:>13}" for name in row))
        print("  ".join(f"{value!s:>13}" for value in row.values()), flush=True)
        right[backend, kind] = right.get((backend, kind), 0) + bool(row["right"])
    for (backend, kind), count in right.items():
        print(f"{backend} {kind}: {count} of {options.runs} right")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
