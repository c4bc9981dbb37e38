"""Logs of real torchrun jobs on gloo say who failed, how and where."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from log_docs import of, read_log

from whyhang.analyzer.facts import CallState, Exit, Fact, LogLine, RootCause, Track

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]

PROGRAM = """
import datetime, os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=20))
rank, mode, ones = dist.get_rank(), sys.argv[1], torch.ones(4)
for _ in range(3):
    dist.all_reduce(ones)

def step():
    if mode == "raise" and rank == 1:
        raise ValueError("bad batch 17")
    if mode == "kill" and rank == 1:
        os.kill(os.getpid(), 9)
    if mode == "mismatch" and rank == 1:
        dist.broadcast(ones, 0)
    dist.all_reduce(ones)

step()
dist.destroy_process_group()
"""


def run(folder: Path, mode: str, *options: str, detail: bool = False) -> str:
    """Run three ranks of the program and give what they and the launcher print."""
    program = folder / "train.py"
    program.write_text(PROGRAM)
    environ = dict(os.environ, OMP_NUM_THREADS="1")
    if detail:
        environ |= {"TORCH_CPP_LOG_LEVEL": "INFO", "TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=3"]
    done = subprocess.run(
        [*command, *options, str(program), mode],
        capture_output=True,
        text=True,
        timeout=150,
        env=environ,
        cwd=folder,
        check=False,
    )
    return done.stderr + done.stdout


def exceptions(facts: list[Fact]) -> dict[int | None, LogLine]:
    chosen_lines = [line for line in of(facts, LogLine) if line.raised is not None]
    return {line.who.rank: line for line in chosen_lines if not line.raised.of_launcher}


@pytest.mark.parametrize("options", [(), ("--tee", "3")])
def test_an_exception_on_one_rank(tmp_path: Path, options: tuple[str, ...]) -> None:
    """The rank that raised, its line, and the peers that lost it inside a collective."""
    facts = read_log(run(tmp_path, "raise", *options))
    raised = exceptions(facts)

    assert raised[1].raised.type == "ValueError"
    assert raised[1].raised.frame.function == "step"
    assert raised[0].raised.op == "all_reduce"
    ends = {fact.who.rank: (fact.exitcode, fact.signal) for fact in of(facts, Exit)}
    # torch sometimes aborts while it tears down after the exception; the launcher says which.
    assert ends[1] in {(1, None), (None, 6)}
    assert 1 in {fact.who.rank for fact in of(facts, RootCause)}


def test_a_killed_rank(tmp_path: Path) -> None:
    """The launcher's report of the signal, for the right rank and pid."""
    facts = read_log(run(tmp_path, "kill"))
    (killed,) = [fact for fact in of(facts, Exit) if fact.signal == 9]

    assert killed.who.rank == 1
    assert killed.who.pid is not None
    assert 1 not in exceptions(facts)


def test_a_mismatch_under_detail(tmp_path: Path) -> None:
    """Every rank's own call is told, and where all stood before."""
    facts = read_log(run(tmp_path, "mismatch", detail=True))
    last = {
        track.who.rank: (call.op, call.seq)
        for track in of(facts, Track)
        for call in track.calls
        if call.state is CallState.SCHEDULED
    }

    assert last == {0: ("all_reduce", 3), 1: ("broadcast", 3), 2: ("all_reduce", 3)}


def test_torchruns_log_folder(tmp_path: Path) -> None:
    """Files of torchrun's log folder carry the local rank in their path."""
    run(tmp_path, "raise", "--redirects", "3", "--log-dir", str(tmp_path / "logs"))
    (path,) = (tmp_path / "logs").glob("*/attempt_0/1/stderr.log")
    facts = read_log(path.read_bytes(), name=str(path.relative_to(tmp_path)))
    (raised,) = [line for line in of(facts, LogLine) if line.raised is not None]

    assert (raised.who.rank, raised.who.local_rank) == (1, 1)
    assert raised.raised.type == "ValueError"


PACED = """
import time, torch, torch.distributed as dist
dist.init_process_group("gloo")
for step in range(100):
    time.sleep(3)
    dist.all_reduce(torch.ones(4))
    print("step", step, flush=True)
"""


def test_a_script_that_is_asleep_at_every_look_counts_its_steps(tmp_path: Path) -> None:
    """It has no functions, so no variables that could be compared; its log goes on."""
    program, log = tmp_path / "paced.py", tmp_path / "train.log"
    program.write_text(PACED)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    with log.open("wb") as output:
        job = subprocess.Popen(
            [*command, str(program)], stdout=output, stderr=output, start_new_session=True
        )
    try:
        until = time.monotonic() + 60
        while b"step 1" not in log.read_bytes() and time.monotonic() < until:
            time.sleep(0.5)
        whyhang = [sys.executable, "-m", "whyhang", str(job.pid), "--format", "json"]
        done = subprocess.run(whyhang, capture_output=True, timeout=120, check=False)
    finally:
        job.terminate()
        job.wait(30)

    assert json.loads(done.stdout)["verdict"] == "healthy"
