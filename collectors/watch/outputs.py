"""Looks at what a job writes: logs that grow, steps that are noted, dumps that come.

They lie in a folder, or are the output of a Slurm job, of whose state the controller tells.
"""

import functools
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePath

from whyhang._heartbeat import ENDING
from whyhang.analyzer.errors import TargetError
from whyhang.collectors.live.files import Files
from whyhang.collectors.live.probes.heartbeats import beat_at
from whyhang.collectors.live.proc import Proc
from whyhang.collectors.live.programs import run
from whyhang.collectors.watch.course import JOB, Look

MAX_FILES = 2048
DEPTH = 6
NEW_BYTES = 64 << 10
"""Of what a log has grown by, so much is searched for words that say that the job is stuck."""

ALARMS = (
    b"Watchdog caught collective operation timeout",
    b"] Timed out waiting ",
    b"Timeout at NCCL work",
)
_DUMPS = ("nccl_trace_rank_", "comm_lib_trace_rank_")

PATIENCE = 15.0
WAITS = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SUSPENDED", "STOPPED", "RESIZING"}
GOES_ON = {"RUNNING", "COMPLETING", "SIGNALING", "STAGE_OUT", *WAITS}
_FIELD = re.compile(r"(\w+)=(\S*)")


class Folder:
    """A job that is followed by what it writes. Raises ``TargetError`` if there is no folder."""

    def __init__(self, path: str, own: Iterable[str] = ()) -> None:
        """``own`` are files that whoever watches writes itself."""
        if not Path(path).is_dir():
            raise TargetError(f"{path} is no folder", "Give the folder that the job writes to.")
        self.paths = (path,)
        self.pids: tuple[int, ...] = ()
        self._files = Files(Proc())
        self._sizes: dict[str, int] = {}
        self._first = True
        self._own = {str(Path(each).absolute()) for each in own}

    def look(self) -> Look:
        """Look at all files now."""
        at = time.monotonic()
        logs = {
            path: (JOB, os.path.relpath(path, self.paths[0]))
            for path in _files(self.paths[0])
            if not self._is_own(path)
        }
        signs, alarms = growth(self._files, logs, self._sizes, first=self._first)
        self._first = False
        return Look(at=at, signs=signs, alarms=tuple(alarms))

    def _is_own(self, path: str) -> bool:
        """Return whether a file is written by whoever watches: reports, or standard output."""
        mine = [os.fstat(number) for number in (1, 2)]
        try:
            facts = Path(path).stat()
        except OSError:
            return True  # it is gone
        return any(map(functools.partial(os.path.samestat, facts), mine)) or (
            str(Path(path).absolute()) in self._own
        )


class SlurmJob:
    """A job of Slurm by its number. Raises ``TargetError`` where the controller knows none."""

    def __init__(self, job: str) -> None:
        self.pids: tuple[int, ...] = ()
        self._job = job.partition(".")[0]
        shown = self._ask()
        if shown is None:
            raise TargetError(
                f"scontrol knows no job {self._job}, or is not here",
                "Run it where squeue shows the job; a job that is over is read from its output.",
            )
        self._shown = shown
        names = dict.fromkeys(shown.get(name, "") for name in ("StdOut", "StdErr"))
        self.paths = tuple(name for name in names if name.startswith("/") and name != "/dev/null")
        self._files = Files(Proc())
        self._sizes: dict[str, int] = {}
        self._first = True

    def look(self) -> Look:
        """Look now; a controller that does not answer says nothing."""
        at = time.monotonic()
        self._shown = shown = self._ask() or self._shown
        state = shown.get("JobState", "")
        if state not in GOES_ON:
            code = shown.get("ExitCode", "")
            return Look(
                at=at, over=f"Slurm job {self._job} is {state or 'gone'} (exit code {code})"
            )
        logs = {path: (JOB, path) for path in self.paths}
        signs, alarms = growth(self._files, logs, self._sizes, first=self._first)
        self._first = False
        if state in WAITS:
            signs[JOB, state] = int(at)  # it may take days, and is no hang
        return Look(
            at=at, signs=signs, alarms=tuple(alarms), start=f"start {shown.get('Restarts', '0')}"
        )

    def ends_in(self) -> float | None:
        """Return in how many seconds its time limit ends it."""
        try:
            end = time.mktime(time.strptime(self._shown.get("EndTime", ""), "%Y-%m-%dT%H:%M:%S"))
        except (ValueError, OverflowError):
            return None
        return end - time.time()

    def _ask(self) -> Mapping[str, str] | None:
        asked = run("scontrol", "show", "job", "-o", self._job, limit=PATIENCE)
        text = asked.output.decode("utf-8", "replace")
        return dict(_FIELD.findall(text)) if asked.code == 0 else None


def growth(
    files: Files, logs: Mapping[str, tuple[str, str]], sizes: dict[str, int], *, first: bool = False
) -> tuple[dict[tuple[str, str], int], list[str]]:
    """Return the signs that files give, and what in them says that the job is stuck.

    ``logs`` says of each path whose it is and what it is called. ``sizes`` are those of the look
    before, and are brought up to date; at the ``first`` look at a file nothing counts as new.
    """
    signs: dict[tuple[str, str], int] = {}
    alarms: list[str] = []
    contents = files.read_all(list(logs), most=0)
    for path, (whose, name) in logs.items():
        size = contents[path].length
        if size is None:
            continue
        before = sizes.get(path, size if first else 0)
        sizes[path] = size
        if path.endswith(ENDING):
            if (beat := beat_at(files, path)) is not None:
                signs[f"rank {beat.rank}", "beats"] = beat.beats
        elif PurePath(path).name.startswith(_DUMPS):
            if size > before:
                alarms.append(f"{name} was written: the recorder's dump of a hang")
        else:
            signs[whose, name] = size
            start = max(before, size - NEW_BYTES)
            new = files.read(path, most=NEW_BYTES, start=start).data if size > before else b""
            if any(words in new for words in ALARMS):
                alarms.append(f"a watchdog gave up waiting, by {name}")
    return signs, alarms


def _files(folder: str) -> Iterator[str]:
    count, depth = 0, folder.rstrip(os.sep).count(os.sep) + DEPTH
    for place, folders, names in os.walk(folder):
        if place.count(os.sep) >= depth:
            folders.clear()
        for name in names:
            count += 1
            yield str(Path(place, name))
        if count >= MAX_FILES:
            return
