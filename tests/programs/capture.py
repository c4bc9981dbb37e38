"""Takes the stacks in ``tests/data/frames``: ``capture.py OUT PROGRAM [--native] [NAME...]``.

Starts each function of ``wait_torch.py`` or ``wait_python.py``, waits until it stands still,
and appends what py-spy prints of it and of its children to OUT, each under a line
``== name | state wchan``. Paths and pids are cut down to what the tests need.
"""

from __future__ import annotations

import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
PYTHON = os.environ.get("WAIT_PYTHON", sys.executable)
PY_SPY = shutil.which("py-spy") or str(Path(sys.executable).with_name("py-spy"))


def names_in(program: Path) -> list[str]:
    text = program.read_text()
    functions = re.findall(r"^def ([a-z]\w+)\(\):", text, re.MULTILINE)
    table = re.findall(r'^    "(\w+)": lambda t', text, re.MULTILINE)
    return [name for name in table + functions if name not in {"ready", "init", "net", "batch"}]


def dump(pid: int, *options: str) -> str:
    command = [PY_SPY, "dump", "--pid", str(pid), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout


def kernel(pid: int) -> str:
    """Give the state and the kernel function; a process that has ended is a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return f"{stat} {Path(f'/proc/{pid}/wchan').read_text() or '-'}"
    except FileNotFoundError:
        return "Z -"


def settle(process: subprocess.Popen[bytes], ready: Path) -> None:
    """Wait until the program is at its wait: it said so, sleeps, and its stack stays the same."""
    end = time.monotonic() + 120
    while not ready.exists() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.1)
    before, equal = "", 0
    for _ in range(60):
        time.sleep(0.4)
        if process.poll() is not None:
            return
        sleeps = not kernel(process.pid).startswith("R")
        stack = dump(process.pid).partition("Thread ")[2].partition("Thread ")[0]
        stands = stack == before and "(" in stack.partition("\n")[2]
        equal = equal + 1 if stands and sleeps else 0
        if equal == 3:
            return
        before = stack


def cleaned(text: str) -> str:
    text = re.sub(r"^Process (\d+): .*", r"Process \1: python train.py", text, flags=re.MULTILINE)
    text = re.sub(r"^(Python v\S+) \(.*\)", r"\1 (python)", text, flags=re.MULTILINE)
    return re.sub(r"^(    .{160}).* (\([^()]*\))$", r"\1 \2", text, flags=re.MULTILINE)


def run(program: Path, name: str, port: int, *, native: bool) -> str:
    """Start one program, take its stacks and those of its children, and end it."""
    folder = Path(tempfile.mkdtemp(prefix="wait"))
    ranks = 1 if program.stem == "wait_python" or name.startswith(SINGLE) else 2
    terminal, stdin = pty.openpty() if name.endswith("_terminal") else (None, subprocess.PIPE)
    command = [PYTHON, program.name, name, str(folder)]
    processes = [
        subprocess.Popen(
            command + [str(rank), str(port)][: 2 * (program.stem == "wait_torch")],
            cwd=HERE,
            stdin=stdin,
            stdout=(folder / f"out{rank}").open("w"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=dict(os.environ, OMP_NUM_THREADS="1"),
        )
        for rank in range(ranks)
    ]
    rank = 1 if name.startswith("pipeline") else 0
    watched = processes[rank]
    text = ""
    try:
        settle(watched, folder / f"ready{rank}")
        children = subprocess.run(["pgrep", "-P", str(watched.pid)], capture_output=True, text=True)
        pids = [watched.pid, *map(int, children.stdout.split())]
        for number, pid in enumerate(pids):
            state = kernel(pid)  # before py-spy pauses the process
            stack = dump(pid, *["--native"] * native)
            if "Thread" in stack:
                child = f" child{number}" if number else ""
                text += f"== {name}{child} | {state}\n{cleaned(stack)}\n"
        if watched.poll() is not None or not text:
            print(name, "failed:", (folder / f"out{rank}").read_text()[-300:], file=sys.stderr)
            text = ""
    finally:
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if terminal is not None:
            os.close(terminal)
            os.close(stdin)
        shutil.rmtree(folder, ignore_errors=True)
    return text


SINGLE = ("loader", "torch_", "torchrun", "lock_file", "spawn", "build", "compile")


def main() -> None:
    arguments = [a for a in sys.argv[1:] if a != "--native"]
    out, program = Path(arguments[0]), HERE / arguments[1]
    for number, name in enumerate(arguments[2:] or names_in(program)):
        text = run(program, name, 29800 + number, native="--native" in sys.argv)
        with out.open("a") as file:
            file.write(text)
        print(name, "ok" if text else "-", flush=True)


if __name__ == "__main__":
    main()
