"""Looks at a Slurm job from its login node: its output, and what the controller says of it."""

import re
import time
from collections.abc import Mapping

from whyhang.analyzer.errors import TargetError
from whyhang.collectors.live.files import Files
from whyhang.collectors.live.proc import Proc
from whyhang.collectors.live.programs import run
from whyhang.collectors.watch.course import JOB, Look
from whyhang.collectors.watch.log_folder import growth

PATIENCE = 15.0
WAITS = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SUSPENDED", "STOPPED", "RESIZING"}
GOES_ON = {"RUNNING", "COMPLETING", "SIGNALING", "STAGE_OUT", *WAITS}
_FIELD = re.compile(r"(\w+)=(\S*)")


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
