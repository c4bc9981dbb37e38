"""Watch a job, and diagnose it when it does not go on any more.

TARGET is the PID of any process of the job, best of its launcher, or a folder that the job writes
to. Now and then it is looked at cheaply: steps that its ranks note (whyhang.heartbeat), growth of
logs, what /proc counts. When nothing has moved for long enough it is diagnosed, which decides: of a
job that moves, or whose late rank is at work, nothing is said. A hang is reported once, and again
after the job has moved on. It ends with the job, or with SIGTERM.

  whyhang watch PID -o report.md --on-hang 'notify-oncall {report}'
  whyhang watch DIR --stalled-for 600
  whyhang watch --slurm 4711                 from the login node: its output and its state

What --on-hang names is run without a shell; {report} is the first file of -o, {verdict} and
{headline} are the diagnosis in a word and in a sentence. The same is in its environment as
WHYHANG_REPORT, WHYHANG_VERDICT and WHYHANG_HEADLINE.
"""

import argparse
import contextlib
import itertools
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

from whyhang.analyzer.commands import live_options, output, redaction
from whyhang.analyzer.commands.cards import add_card_folders
from whyhang.analyzer.commands.diagnose import report_on, split
from whyhang.analyzer.commands.following import Event, follow
from whyhang.analyzer.errors import BundleError, TargetError, WhyhangError
from whyhang.analyzer.report import Report
from whyhang.analyzer.reports.outgoing import plain
from whyhang.collectors.files.bundle import numbered
from whyhang.collectors.watch.course import Looks, SilenceLimits
from whyhang.collectors.watch.outputs import Folder, SlurmJob
from whyhang.collectors.watch.processes import Processes

EVERY, STALLED_FOR = 30.0, 120.0
HOOK_LIMIT = 60.0  # seconds that a command of --on-hang is waited for; then it is left running
DEFAULT_REPORT = "whyhang-report.md"
HANG_SEEN = 3  # exit code of --once after a hang, as of --exit-code


class _Ended(BaseException):
    """SIGTERM came."""

    signal = signal.SIGTERM


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the job, when it counts as hanging, and what to do then."""
    parser.add_argument("target", nargs="?", metavar="TARGET", help="a PID or a folder")
    parser.add_argument(
        "--every",
        type=live_options.seconds(1, 86400),
        default=EVERY,
        metavar="S",
        help="seconds between two looks (default 30; at most a quarter of --stalled-for)",
    )
    parser.add_argument(
        "--stalled-for",
        type=live_options.seconds(1, 86400),
        default=STALLED_FOR,
        metavar="S",
        help="seconds without a sign of progress after which it is diagnosed (default 120; never "
        "less than three times the longest pause so far)",
    )
    parser.add_argument(
        "--on-hang", metavar="COMMAND", help="run COMMAND once a hang, as 'command {report}'"
    )
    parser.add_argument(
        "--once", action="store_true", help="end after the first hang, with exit code 3"
    )
    parser.add_argument(
        "--save",
        metavar="BUNDLE",
        help="keep what a diagnosis takes of a hang: a folder or .tar.zst",
    )
    output.add_arguments(parser)
    add_card_folders(parser)
    live_options.add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Follow the job and act on what happens."""
    if options.on_hang and not options.output:
        options.output = [DEFAULT_REPORT]
    output.check(options)
    hook = shlex.split(options.on_hang) if options.on_hang else []
    with _until_terminated():
        looks = _looks(options)
        limits = limits_of(looks, options.stalled_for)
        _say(began(looks, limits, options.target or f"Slurm job {options.slurm}"))
        return _run(looks, limits, options, hook)
    _say("told to end")
    return 0


def _run(
    looks: Looks, limits: SilenceLimits, options: argparse.Namespace, hook: Sequence[str]
) -> int:
    hangs = 0
    asking = Asking(options)
    for event in follow(looks, asking, limits, every=options.every):
        _say(in_words(event))
        if event.kind == "asked":
            asking.forget()
        if event.kind == "hang" and event.report is not None:
            hangs += 1
            report_hang(event.report, options, hook, number=hangs)
            if options.once:
                return HANG_SEEN
        if event.kind == "over" and event.report is not None and options.exit_code:
            return output.EXIT_CODES[event.report.verdict]
    return HANG_SEEN if hangs and options.exit_code else 0


def _looks(options: argparse.Namespace) -> Looks:
    if options.target is not None:
        return looks_at(options.target, own=options.output)
    if options.slurm is not None:
        return SlurmJob(options.slurm)
    raise TargetError(
        "there is nothing that can be looked at cheaply",
        "Give a PID, or a folder that all ranks write to; --hosts, --k8s and --ray say where to "
        "look once it has fallen silent. --slurm JOB alone watches the job's output.",
    )


def looks_at(target: str, own: Sequence[str] = ()) -> Looks:
    """Return how to look at what a person named. Raises ``TargetError`` where it is nothing."""
    pids, paths = split([target])
    if pids:
        return Processes(pids[0])
    if not paths or not Path(paths[0]).is_dir():
        raise TargetError(f"{target} is no folder", "Give a PID, or the folder that it writes to.")
    return Folder(paths[0], own)


def limits_of(looks: Looks, stalled_for: float) -> SilenceLimits:
    """Return how long the job may be silent, as far as it shows when others end it."""
    left = looks.ends_in() if isinstance(looks, Processes | SlurmJob) else None
    return SilenceLimits(
        stalled_for=stalled_for,
        killed_after=looks.killed_after() if isinstance(looks, Processes) else None,
        ends_at=None if left is None else time.monotonic() + left,
    )


class Asking:
    """Diagnoses with the options of the command; keeps what was taken, until it is forgotten."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._kept = ""

    def __call__(self, pids: tuple[int, ...], paths: tuple[str, ...]) -> Report:
        """Diagnose; what cannot be kept does not keep it from that."""
        options, self._kept = self._options, ""
        hosts = live_options.given_hosts(options) is not None
        if options.save and (pids or hosts):
            names = (numbered(options.save, number) for number in itertools.count(1))
            self._kept = next(name for name in names if not Path(name).exists())
            try:
                report, unsaved = report_on(
                    pids, paths, options, cards=options.cards, save=self._kept, quiet=True
                )
            except BundleError as error:
                _say(f"nothing is kept: {error.message}")
            else:
                for trouble in unsaved:
                    _say(f"nothing is kept: {trouble.message}")
                return report
        return report_on(pids, paths, options, cards=options.cards, quiet=True)[0]

    def forget(self) -> None:
        """Remove what was taken last: it was no hang."""
        with contextlib.suppress(OSError):
            if self._kept and Path(self._kept).is_dir():
                shutil.rmtree(self._kept)
            elif self._kept:
                Path(self._kept).unlink(missing_ok=True)


def report_hang(
    report: Report, options: argparse.Namespace, hook: Sequence[str], *, number: int
) -> None:
    """Write the report of a hang, and run the command; what fails is said, and ends nothing."""
    names = [numbered(name, number) for name in options.output]  # of an earlier watch: overwritten
    chosen = argparse.Namespace(**{**vars(options), "output": names, "exit_code": False})
    try:
        output.emit(report, chosen)
    except WhyhangError as error:
        _say(str(error))
    if hook:
        run_hook(hook, redaction.leaving(report, options), names[0] if names else "")


def run_hook(hook: Sequence[str], report: Report, path: str) -> None:
    """Run the command of --on-hang, no shell between; one that takes long is left running."""
    words = {"report": path, "verdict": report.verdict, "headline": report.headline}
    command = list(hook)
    for name, text in words.items():
        command = [part.replace(f"{{{name}}}", text) for part in command]
    environ = {**os.environ, **{f"WHYHANG_{name.upper()}": text for name, text in words.items()}}
    try:
        process = subprocess.Popen(command, env=environ, start_new_session=True)
        code = process.wait(HOOK_LIMIT)
    except OSError as error:
        _say(f"--on-hang: {command[0]} cannot be run ({error.strerror})")
    except subprocess.TimeoutExpired:
        _say(f"--on-hang: {command[0]} takes longer than {HOOK_LIMIT:g} s and is left running")
    else:
        if code:
            _say(f"--on-hang: {command[0]} ended with exit code {code}")


def began(looks: Looks, limits: SilenceLimits, target: str) -> str:
    """Say what is watched, and when it counts as hanging."""
    words = f"watching {target}; it is diagnosed after {limits.stalled_for:g} s without progress"
    if isinstance(looks, Processes) and (seen := looks.in_words()):
        words += f" ({seen})"
    if limits.killed_after is not None:
        words += f"; a watchdog ends it after {limits.killed_after:g} s"
    return words


def in_words(event: Event) -> str:
    """Say what happened."""
    verdict = f": {event.report.verdict}: {event.report.headline}" if event.report else ""
    if event.kind == "hang" and event.report:
        word = "NO PROGRESS" if event.report.verdict in {"inconclusive", "healthy"} else "HANG"
        return f"{word}: {event.report.headline} ({event.report.verdict}; {event.says})"
    if event.kind == "over":
        return f"the job is over: {event.says}" + (f"; its logs{verdict}" if verdict else "")
    return f"{event.says}{verdict}"


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        print(f"whyhang {time.strftime('%H:%M:%S')} {plain(text)}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _until_terminated() -> Iterator[None]:
    """Leave the block when SIGTERM comes, whatever is under way in it."""

    def end(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise _Ended

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except _Ended:
        return
    finally:
        signal.signal(signal.SIGTERM, before)
