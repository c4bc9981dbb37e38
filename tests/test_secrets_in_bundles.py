"""Secrets of twenty kinds, planted wherever a live job may hold one: none leaves the host.

Planted are the environment, the command line, the place where ranks are to meet, the output, the
source around and at the lines where frames stand, variables, paths (of the script, the folder, the
output and an open file), the names of keys in the store, a recorder's dump, a child's command line
and what nvidia-smi prints.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import fr_docs
import pytest
import zstandard
from planted import MARK, SECRETS
from store_server import FakeStore, listening

from whyhang.analyzer.redact import BLANK
from whyhang.analyzer.reports.faces import FACES

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc"),
]

TOKEN = f"hf_{MARK * 3}"
INIT = """
import time
def init_process_group(backend, init_method, rank, world_size):
    url = init_method
    while True:
        time.sleep(600)
"""
TAIL = """
def last(step):
    config = {{"password": "{mark}"}}
    opened = open({opened!r}, "w")
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", *sys.argv[1:]])
    print("up", flush=True)
    c10d.init_process_group("gloo", init_method={method!r}, rank={rank}, world_size=2)

f0(7)
"""
SMI = """\
#!/bin/sh
cat <<'END'
<?xml version="1.0" ?>
<nvidia_smi_log>
<attached_gpus>1</attached_gpus>
<gpu id="00000000:17:00.0"><product_name>{text}</product_name><uuid>GPU-1</uuid>
<minor_number>0</minor_number><utilization><gpu_util>7 %</gpu_util></utilization>
<processes><process_info><pid>77</pid><type>C</type>
<process_name>python t.py --hf-token {mark}</process_name><used_memory>100 MiB</used_memory>
</process_info></processes></gpu>
</nvidia_smi_log>
END
"""


def script(rank: int, method: str, opened: Path) -> str:
    """Write a program with a secret above, in, below and at each line where a frame stands."""
    parts = ["import subprocess, sys", "from torch.distributed import distributed_c10d as c10d"]
    for number, text in enumerate(SECRETS.values()):
        following = f"f{number + 1}(step)" if number + 1 < len(SECRETS) else "last(step)"
        parts += [
            f"def f{number}(step):",
            f"    # {text}",
            f"    above = {text!r}",
            f"    print({text!r}, flush=True)",
            f"    {following}  # {text}",
            f"    below = {text!r}; bare = 'correct{MARK}horse'",
        ]
    tail = TAIL.format(mark=MARK, method=method, rank=rank, opened=str(opened))
    return "\n".join(parts) + "\n" + tail


@contextlib.contextmanager
def job(folder: Path, port: int) -> Iterator[list[int]]:
    """Start two ranks that stand in init_process_group."""
    package = folder / "lib" / "torch" / "distributed"
    package.mkdir(parents=True)
    for name in ("../__init__.py", "__init__.py"):
        (package / name).write_text("")
    (package / "distributed_c10d.py").write_text(INIT)
    place = folder / TOKEN
    place.mkdir()
    processes = []
    for rank in (0, 1):
        path = place / f"train-{TOKEN}-{rank}.py"
        method = f"tcp://svc:{MARK}@127.0.0.1:{port}"
        path.write_text(script(rank, method, place / f"open-{TOKEN}-{rank}"))
        prefix = place / f"dump-{TOKEN}-"
        dump = fr_docs.pickled(
            {
                "version": "2.10",
                "pg_config": {"0": {"name": "0", "desc": TOKEN, "ranks": "[0, 1]"}},
            },
            [
                fr_docs.entry(
                    1,
                    profiling_name=f"nccl:{TOKEN}",
                    frames=[{"name": f"step_{TOKEN}", "filename": f"/srv/{TOKEN}/t.py", "line": 7}],
                )
            ],
        )
        planted = {f"TORCH_PLANTED_{n}": text for n, text in enumerate(SECRETS.values())}
        environment = {
            **os.environ, **planted, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WANDB_API_KEY": MARK,
            "NCCL_PLANTED": TOKEN, "TORCH_FR_DUMP_TEMP_FILE": str(prefix),
            "PYTHONPATH": str(folder / "lib"),
        }  # fmt: skip
        with (place / f"rank{rank}-{TOKEN}.log").open("w") as output:
            processes.append(
                subprocess.Popen(
                    [sys.executable, str(path), *SECRETS.values(), "--hf-token", MARK],
                    stdout=output, stderr=output, cwd=place, env=environment,
                    start_new_session=True,
                )
            )  # fmt: skip
        (place / f"dump-{TOKEN}-{rank}").write_bytes(dump)
    try:
        until = time.monotonic() + 30
        logs = [place / f"rank{rank}-{TOKEN}.log" for rank in (0, 1)]
        while not all("up\n" in log.read_text() for log in logs):
            assert time.monotonic() < until, [log.read_text()[-300:] for log in logs]
            time.sleep(0.05)
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Look at the job, keep a bundle, and give all that was written, by what it is."""
    folder = tmp_path_factory.mktemp("job")
    tools = folder / "bin"
    tools.mkdir()
    text = " ".join(SECRETS.values())
    (tools / "nvidia-smi").write_text(SMI.format(text=text, mark=MARK))
    (tools / "nvidia-smi").chmod(0o755)
    out = tmp_path_factory.mktemp("out")
    keys = {f"{text}/{n}": b"1" for n, text in enumerate(SECRETS.values())}
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    written: dict[str, bytes] = {}
    faces = [str(out / f"report{face.endings[0]}") for face in FACES.values()]
    taken = out / "taken.tar.zst"
    store = FakeStore(keys)
    with listening(store.serve) as port, job(folder, port) as pids:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "whyhang", str(pids[0]), "--save", str(out / "kept")),
                *("--full", "--interval", "0.2"),
                *(word for path in faces for word in ("-o", path)),
            ],
            capture_output=True, timeout=120, env=environment, check=True,
        )  # fmt: skip
        written |= {"terminal": done.stdout, "beside": done.stderr}
        packed = subprocess.run(
            [sys.executable, "-m", "whyhang", "collect", str(pids[1]), "-o", str(taken)],
            capture_output=True, timeout=120, env=environment, check=True,
        )  # fmt: skip
        written |= {"collect": packed.stdout + packed.stderr}
    assert store.asked
    plain = zstandard.ZstdDecompressor().stream_reader(taken.read_bytes()).read()
    with tarfile.open(fileobj=io.BytesIO(plain)) as members:
        for member in members:
            stream = members.extractfile(member)
            written[f"taken/{member.name}"] = stream.read() if stream else b""
    for path in sorted(out.rglob("*")):
        if path.is_file() and path.suffix != ".zst":
            name = str(path.relative_to(out))
            written[name] = path.read_bytes()
    return written


def test_what_was_planted_was_taken(files: dict[str, bytes]) -> None:
    """Each kind of file is there, and shows that something was blanked."""
    kinds = ("processes.look0", "pyspy", "excerpts", "claims", "stores", "gpu", "logs/", "report.")
    for kind in kinds:
        data = b"".join(data for name, data in files.items() if kind in name)
        assert BLANK.encode() in data, kind
    dumps = [data for name, data in files.items() if name.endswith("flight_recorder")]
    assert len(dumps) == 4
    assert all(fr_docs.tracks(data) and b"[redacted]**" in data for data in dumps)


def test_no_secret_leaves(files: dict[str, bytes]) -> None:
    """Not in a file of the bundle, not in a file's name, not in any face of the report."""
    leaks = {
        name: text[max(0, at - 80) : at + 40]
        for name, data in files.items()
        if (at := (text := name.encode() + b" " + data).lower().find(MARK.lower().encode())) >= 0
    }
    assert leaks == {}
