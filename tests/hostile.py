"""A campaign of hostile inputs: ``python tests/hostile.py --minutes 10 [--seed N] [KIND...]``.

Each case is a file, folder or archive made from a seed, and a run of whyhang over it as its own
process, with little memory. Whatever it is given, whyhang ends within ``LIMIT`` seconds, without a
traceback, says something, lets no control character out, and leaves nothing in its temporary
folder. What fails is kept, and becomes a test.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import pickle
import random
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zstandard

from whyhang import signatures

LIMIT = 30.0  # seconds for one run, beside those in which it waited for a processor
MEMORY = 3 << 30  # bytes of address space
LINES = [example for signature in signatures.load() for example in signature.matches]

Maker = Callable[[random.Random, Path], None]


def log(dice: random.Random) -> bytes:
    """Return lines that signatures know, in any order, some of them damaged."""
    lines = [dice.choice(LINES).encode() for _ in range(dice.randint(1, 60))]
    for _ in range(dice.randint(0, 6)):
        at = dice.randrange(len(lines))
        line = bytearray(lines[at])
        for _ in range(dice.randint(1, 12)):
            place = dice.randint(0, len(line))
            line[place:place] = dice.choice(PIECES) * dice.choice((1, 1, 1, 40, 3000))
        lines[at] = bytes(line)
    return dice.choice((b"\n", b"\n", b"\r\n", b"\r")).join(lines)


PIECES = (
    *(bytes([letter]) for letter in b"\t [(|:0-='\"\\\x00\xff\x85"),
    *(b"\x1b[2J", b"\x1b]0;x\x07", b"\xe2\x80\xae", b"%s", b"<b>", b"[red]", b"9" * 20, b"#0 0x"),
)


def text(dice: random.Random, place: Path) -> None:
    for number in range(dice.randint(1, 5)):
        name = dice.choice(("rank{}.log", "slurm-{}.out", "nvidia-smi{}.txt", "{}.json", "gdb{}"))
        (place / name.format(number)).write_bytes(log(dice))


def runs(dice: random.Random, place: Path) -> None:
    """Write what makes a pattern with two stars slow: long runs of what both of them match."""
    head = dice.choice(LINES).encode()
    run = dice.choice(PIECES) * dice.choice((1000, 30_000, 400_000))
    cut = dice.randint(0, len(head))
    (place / "rank0.log").write_bytes((head[:cut] + run + head[cut:] + b"\n") * dice.randint(1, 4))


def archives(dice: random.Random, place: Path) -> None:
    data = log(dice)
    for _ in range(dice.randint(1, 4)):
        inner, kind = io.BytesIO(), dice.choice(("zip", "tar", "tar.gz", "zst", "cut"))
        name = dice.choice(("a.log", "../../a.log", "/etc/a.log", "a\x1b[2J.log", "a/" * 90 + "b"))
        if kind == "zip":
            with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as made:
                for number in range(dice.choice((1, 3, 40))):
                    made.writestr(f"{number}{name}", data)
        elif kind.startswith("tar"):
            with tarfile.open(fileobj=inner, mode="w:gz" if kind == "tar.gz" else "w") as made:
                member = tarfile.TarInfo(name)
                member.size = len(data)
                made.addfile(member, io.BytesIO(data))
                link = tarfile.TarInfo("link")
                link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
                made.addfile(link)
        elif kind == "zst":
            inner.write(zstandard.compress(data * dice.choice((1, 100))))
        else:
            inner.write(data[: dice.randint(0, len(data))])
        data = inner.getvalue()
    (place / dice.choice(("x.zip", "x.tar", "x.tar.gz", "x.tar.zst", "x.zst"))).write_bytes(data)


class Asks:
    """A pickle that would run a command where it is loaded."""

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return (os.system, ("touch owned",))


def pickles(dice: random.Random, place: Path) -> None:
    calls: list[Any] = [{"record_id": 1, "pg_id": 0, "profiling_name": "nccl:all_reduce"}]
    for _ in range(dice.randint(0, 30)):
        calls.append(dice.choice((calls, [calls] * 9, None, 10**400, float("nan"), "x" * 4000, -1)))
    dump: Any = {"version": "2.4", "entries": calls, "pg_config": dice.choice(({}, calls, 7))}
    if dice.random() < 0.3:
        dump["entries"] = Asks()
    data = bytearray(pickle.dumps(dump, dice.randint(0, 5)))
    for _ in range(dice.choice((0, 1, 8))):
        data[dice.randrange(len(data))] = dice.randrange(256)
    (place / "nccl_trace_rank_0").write_bytes(bytes(data))


def documents(dice: random.Random, place: Path) -> None:
    deep = "[" * dice.choice((10, 2000, 200_000))
    value: Any = dice.choice((None, -1, 1e308, "9" * 5000, [], {}, {"version": {"version": []}}))
    dump = {"version": "2.4", "entries": value, "pg_config": {"0": value}, "pg_status": value}
    (place / "nccl_trace_rank_0.json").write_text(dice.choice((json.dumps(dump), deep, "{" + deep)))
    (place / "report.json").write_text(json.dumps({"schema_version": 1, "findings": value}))


def files(dice: random.Random, place: Path) -> None:
    text(dice, place)
    os.mkfifo(place / "rank7.log")
    (place / "loop").symlink_to(place)
    (place / "zero.log").symlink_to("/dev/zero")
    (place / "gone.log").symlink_to(place / "nowhere")
    (place / "a\nb\x1b]0;x\x07.log").write_bytes(log(dice))
    (place / os.fsdecode(b"\xff\xfe.log")).write_bytes(log(dice))
    sparse = place / "sparse.log"
    sparse.touch()
    os.truncate(sparse, dice.choice((0, 1 << 20, 1 << 28)))


MAKERS: dict[str, Maker] = {
    "text": text, "runs": runs, "archives": archives, "pickles": pickles, "documents": documents,
    "files": files,
}  # fmt: skip
KNOWN = {"\n", "�", "\u200b"}  # the last: what keeps Markdown's mentions from being ones
FACES = ("terminal", "markdown", "json")


def trouble(dice: random.Random, place: Path, scratch: Path) -> str:
    """Run whyhang over a case; return what is wrong with how it went, or nothing."""
    environment = {**os.environ, "TMPDIR": str(scratch), "COLUMNS": str(dice.choice((1, 40, 200)))}
    environment |= dice.choice(({}, {"LC_ALL": "C", "PYTHONUTF8": "0"}, {"TERM": "dumb"}))
    target = dice.choice((place, *sorted(path for path in place.iterdir() if path.exists())[:3]))
    command = [sys.executable, "-m", "whyhang", str(target), "--format", dice.choice(FACES)]
    end = dice.choice(("", "", "", "", "interrupt", "terminate", "no reader", "full"))
    if end == "full":
        command += ["-o", "/dev/full.json"]
    job = subprocess.Popen(
        command,
        cwd=scratch,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=Path("/dev/full").open("wb") if end == "full" else subprocess.PIPE,  # noqa: SIM115
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
    )
    if end in {"interrupt", "terminate"}:
        time.sleep(dice.uniform(0.2, 0.8))
        job.send_signal(signal.SIGINT if end == "interrupt" else signal.SIGTERM)
    if end == "no reader" and job.stdout is not None:
        job.stdout.close()
        job.stdout = None
    started = time.monotonic()
    while True:
        try:
            out, errors = job.communicate(timeout=LIMIT / 10)
        except subprocess.TimeoutExpired:
            if time.monotonic() - started - _waited(job.pid) < LIMIT:
                continue
            os.killpg(job.pid, signal.SIGKILL)
            job.communicate()
            return f"not ended after {LIMIT:.0f} s"
        with contextlib.suppress(ProcessLookupError):
            time.sleep(0.1)
            os.killpg(job.pid, signal.SIGKILL)
            return "processes left behind"
        return _wrong(end, job.returncode, out or b"", errors, scratch)


def _waited(pid: int) -> float:
    """Return for how many seconds a process could have run and had no processor: proc(5)."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def _wrong(end: str, code: int, out: bytes, errors: bytes, scratch: Path) -> str:
    output = (out + errors).decode("utf-8", "replace")
    starting = end in {"interrupt", "terminate"} and b"whyhang/__main__" not in errors
    at_start = starting and b"import" in errors
    if b"Traceback (most recent call last)" in errors and not at_start:
        return f"a traceback: {errors[-600:]!r}"
    if bad := {letter for letter in output if not letter.isprintable()} - KNOWN:
        return f"control characters: {bad!r}"
    if not end and (code != 0 or not out):
        return f"exit code {code}, {len(out)} bytes, {errors[-300:]!r}"
    if (scratch / "owned").exists():
        return "code of a pickle was run"
    if left := sorted(path.name for path in scratch.iterdir()) if end != "terminate" else []:
        return f"left behind: {left[:5]}"
    return ""


def main() -> int:
    """Run the campaign; return 1 if a case went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", choices=[*MAKERS, []], default=[])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    until, seed = time.monotonic() + 60 * options.minutes, options.seed
    counted: Counter[str] = Counter()
    failed = 0
    while time.monotonic() < until:
        kind = (options.kinds or list(MAKERS))[seed % len(options.kinds or MAKERS)]
        dice = random.Random(seed)
        folder = Path(tempfile.mkdtemp(prefix="whyhang-hostile-"))
        place, scratch = folder / "case", folder / "scratch"
        place.mkdir()
        scratch.mkdir()
        MAKERS[kind](dice, place)
        wrong = trouble(dice, place, scratch)
        counted[kind] += 1
        if wrong:
            failed += 1
            print(f"{kind}, --seed {seed}: {wrong}\n  kept in {folder}", flush=True)
        else:
            shutil.rmtree(folder)
        seed += 1
    print(f"{sum(counted.values())} cases ({dict(counted)}), {failed} went wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
