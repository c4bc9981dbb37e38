"""Samples: jobs that truly hang, found in the installed package, started and ended.

A sample is a folder of ``whyhang.samples`` with a training script, a ``sample.toml`` (how to
start it and what a diagnosis must say) and a bundle captured from it. A started sample ends
with its ``Running``, with the program that started it, or after ``TIME_LIMIT`` seconds,
whichever comes first; see ``keeper.py`` for how.
"""

from __future__ import annotations

import importlib.resources
import importlib.util
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
import tomli

from whyhang.analyzer.errors import WhyhangError
from whyhang.analyzer.facts import Record
from whyhang.samples.harness import keeper, nethosts

TIME_LIMIT = 600
"""Seconds after which a started sample is ended, whatever happens."""

BUNDLE = "bundle.tar.zst"
_HOSTS = "{hosts}"
_TOOLS = ("ip", "mount", "hostname")

_REPLAY = "whyhang demo {} --recorded replays what was recorded of it"

_FOREIGN = (
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR",
    "MASTER_PORT",
)  # fmt: skip
_FOREIGN_PREFIXES = ("TORCHELASTIC_", "SLURM_", "OMPI_", "PMI_", "PMIX_", "WHYHANG_")
_QUIET_LAUNCH = {
    "OMP_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": "lo" if sys.platform == "linux" else "lo0",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}


class ScenarioError(WhyhangError):
    """A sample cannot be read, started, brought to its hang or ended."""


class Expectation(Record):
    """What a diagnosis of the sample must say; ``None`` and empty: nothing is demanded.

    ``also`` holds categories that would be right as well. ``location_line_contains`` is part
    of the source line on which the culprit stands. ``op`` is the collective that hangs, or
    either of the two that met. ``from_logs`` holds categories that may be named, with other
    ranks, where only what the job printed is at hand.
    """

    verdict: str
    category: str
    also: tuple[str, ...] = ()
    culprit_ranks: tuple[int, ...] | None = None
    location_function: str | None = None
    location_line_contains: str | None = None
    op: str | None = None
    from_logs: tuple[str, ...] = ()


class Sample(Record):
    """One sample, as its ``sample.toml`` describes it.

    ``start`` is an argument list in which ``{python}``, ``{torchrun}``, ``{here}`` and
    ``{port}`` are filled in, and ``{hosts}`` with the program that runs the rest on several hosts
    (``nethosts.py``); empty where the sample cannot be started but only replayed.
    ``ready`` is a text that each of the ``ranks`` logs once, on a line of its own, just
    before it hangs; ``settle`` the seconds from there to the hang. ``needs`` names programs
    and Python modules beyond torch; ``root``: only root can start it. ``like`` names the sample
    that this one varies, where it hangs for the same reason in another program.
    """

    name: str
    folder: str
    title: str
    expect: Expectation
    start: tuple[str, ...] = ()
    ranks: int = 0
    ready: str = ""
    settle: float = 1.0
    needs: tuple[str, ...] = ()
    root: bool = False
    like: str = ""

    @property
    def bundle(self) -> Path:
        """Where the bundle captured from this sample lies; it may not exist."""
        return Path(self.folder) / BUNDLE


def samples() -> dict[str, Sample]:
    """Find all samples of the installed package, by name.

    Raises ``ScenarioError`` when one is described wrongly.
    """
    root = importlib.resources.files("whyhang.samples")
    folders = sorted(Path(str(entry)).resolve() for entry in root.iterdir() if entry.is_dir())
    described = (read(folder) for folder in folders if (folder / "sample.toml").is_file())
    return {sample.name: sample for sample in described}


def read(folder: Path) -> Sample:
    """Read one sample's description; its name is the folder's."""
    path = folder / "sample.toml"
    try:
        described = tomli.loads(path.read_text(encoding="utf-8"))
        return msgspec.convert({**described, "name": folder.name, "folder": str(folder)}, Sample)
    except (OSError, UnicodeDecodeError, tomli.TOMLDecodeError, msgspec.ValidationError) as why:
        raise ScenarioError(f"{path}: {why}") from why


def missing(sample: Sample) -> ScenarioError | None:
    """Return what this machine lacks to start the sample, with the remedy; ``None`` if nothing."""
    replay = _REPLAY.format(sample.name)
    if not sample.start:
        return ScenarioError(f"{sample.name} cannot be started, only replayed", replay)
    if importlib.util.find_spec("torch") is None:
        return ScenarioError(
            "a live sample trains a small model and needs torch, which is not installed here",
            f"pip install 'whyhang[torch]'; or {replay}",
        )
    if _HOSTS in sample.start and (sys.platform != "linux" or os.geteuid() != 0):
        return ScenarioError(
            f"{sample.name} needs several hosts, which only root on Linux can make of one",
            f"run it as root, or {replay}",
        )
    absent = [
        name
        for name in (*sample.needs, *(_TOOLS if _HOSTS in sample.start else ()))
        if shutil.which(name) is None and importlib.util.find_spec(name) is None
    ]
    if absent:
        return ScenarioError(f"{sample.name} needs {' and '.join(absent)}", f"install, or {replay}")
    if sample.root and os.geteuid() != 0:
        return ScenarioError(f"{sample.name} can only be started by root", f"sudo, or {replay}")
    return None


def command_line(sample: Sample, folder: Path | None = None) -> list[str]:
    """Fill in the placeholders of ``start``, with a port that is free at the moment.

    ``folder`` holds a copy of the sample to start in place of the sample itself.
    """
    here = sample.folder if folder is None else str(folder)
    words = {"{here}": here, "{python}": sys.executable, "{port}": str(_free_port())}
    argv: list[str] = []
    for word in sample.start:
        if word == "{torchrun}":
            argv += [sys.executable, "-m", "torch.distributed.run"]
            continue
        if word == _HOSTS:
            argv += [sys.executable, "-I", "-S", nethosts.__file__]
            continue
        filled = word
        for placeholder, value in words.items():
            filled = filled.replace(placeholder, value)
        argv.append(filled)
    return argv


def start(sample: Sample, command: list[str] | None = None) -> Running:
    """Start the sample's job in a session of its own; use the result as a context manager.

    ``command`` is what ``command_line`` gave, for callers that have shown it before.
    Raises ``ScenarioError`` when this machine lacks something or the launcher cannot start.
    """
    lack = missing(sample)
    if lack is not None:
        raise lack
    return Running(sample, command or command_line(sample))


class Running(AbstractContextManager["Running"]):
    """A started sample. Leaving the ``with`` block ends every process of it."""

    def __init__(self, sample: Sample, command: list[str]) -> None:
        self.sample = sample
        self.command = command
        self._scratch = Path(tempfile.mkdtemp(prefix="whyhang-sample-"))
        self._keeper = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", keeper.__file__),
                *("--seconds", str(TIME_LIMIT), "--scratch", str(self._scratch), "--"),
                *command,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(self._scratch),
            cwd=self._scratch,
            start_new_session=True,
            text=True,
        )
        self.pid = self._launcher_pid()

    def __exit__(self, *_: object) -> None:
        self.end()

    def wait_ready(self, timeout: float = 60.0) -> None:
        """Wait until every rank has printed that it is about to hang, and for it to settle.

        Raises ``ScenarioError`` with the end of the output when the job ends before, or is
        not there within ``timeout`` seconds.
        """
        deadline = time.monotonic() + timeout
        while not self._all_ready():
            if self._ended():
                raise ScenarioError(f"{self.sample.name} ended early", self._tail())
            if time.monotonic() > deadline:
                raise ScenarioError(
                    f"{self.sample.name} did not come to its hang in {timeout:g} s", self._tail()
                )
            time.sleep(0.05)
        time.sleep(self.sample.settle)

    def output(self) -> str:
        """Return what the job has printed so far."""
        try:
            return (self._scratch / keeper.OUTPUT).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def processes(self) -> list[int]:
        """List the job's living processes: launcher, ranks and all below them."""
        return keeper.descendants(self._keeper.pid)

    def end(self) -> None:
        """End every process of the job; returns when they are gone. May be called twice.

        Raises ``ScenarioError`` when a process did not go.
        """
        if self._keeper.stdin is not None and not self._keeper.stdin.closed:
            self._keeper.stdin.close()
        code = self._keeper.wait()
        if self._keeper.stdout is not None:
            self._keeper.stdout.close()
        if code != 0:
            raise ScenarioError(f"not every process of {self.sample.name} could be ended")

    def _launcher_pid(self) -> int:
        line = "" if self._keeper.stdout is None else self._keeper.stdout.readline()
        if not line.startswith("pid "):
            raise ScenarioError(f"cannot start {self.command[0]}")
        return int(line.split()[1])

    def _all_ready(self) -> bool:
        return self.output().count(self.sample.ready) >= self.sample.ranks

    def _ended(self) -> bool:
        pipe = self._keeper.stdout
        return pipe is None or bool(select.select([pipe], [], [], 0)[0])

    def _tail(self) -> str:
        return "\n".join(self.output().splitlines()[-15:])


def _environment(scratch: Path) -> dict[str, str]:
    """Make the job's environment: the caller's, without traces of another job around us."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in _FOREIGN and not name.startswith(_FOREIGN_PREFIXES)
    }
    return {**kept, **_QUIET_LAUNCH, "TMPDIR": str(scratch)}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
