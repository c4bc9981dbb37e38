"""Look at a job that hangs now: collect, then read what was collected like any bundle."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whyhang.analyzer.case import Case
    from whyhang.analyzer.commands.progress import Progress
    from whyhang.analyzer.model import Fact
    from whyhang.collectors.bundle import Bundle
    from whyhang.collectors.capture import Capture

NATIVE = ("auto", "always", "never")
MORE_LOOKS = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare how to look at processes."""
    group = parser.add_argument_group("looking at processes")
    group.add_argument(
        "--looks",
        type=_count,
        default=2,
        metavar="N",
        help="take the stacks N times, to tell moving ranks from stuck ones (default 2)",
    )
    group.add_argument(
        "--interval",
        type=_seconds,
        default=1.0,
        metavar="S",
        help="seconds between two looks (default 1.0)",
    )
    group.add_argument(
        "--native",
        choices=NATIVE,
        default="auto",
        help="C and C++ frames too, which takes about a second a process; "
        "auto: where the Python stack leaves the wait open (default)",
    )
    group.add_argument(
        "--timeout",
        type=_seconds,
        default=15.0,
        metavar="S",
        help="limit of each single grab in seconds (default 15)",
    )


def _count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 100:
        raise argparse.ArgumentTypeError("must be between 1 and 100")
    return number


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 <= number <= 3600:
        raise argparse.ArgumentTypeError("must be between 0 and 3600 seconds")
    return number


def facts(pids: list[int], options: argparse.Namespace, progress: Progress) -> list[Fact]:
    """Collect the jobs of these processes, keep the bundle if asked to, and read it.

    What is read is what the bundle holds, so a saved bundle gives the same diagnosis. Several
    PIDs of one job are one capture; each further job is a capture of its own.
    """
    found: list[Fact] = []
    seen: set[int] = set()
    for pid in pids:
        if pid in seen:
            continue
        taken = _capture(pid, options, progress)
        seen |= {member.pid for member in taken.job.members}
        save = getattr(options, "save", None)
        if save:
            _save(taken.bundle(), save, number=0 if not found else len(seen))
        found += _read(taken.bundle())
    return found


def _capture(pid: int, options: argparse.Namespace, progress: Progress) -> Capture:
    from whyhang.collectors.capture import Options, capture  # noqa: PLC0415 - not for `--help`

    look = Options(
        looks=options.looks,
        interval=options.interval,
        limit=options.timeout,
        native=options.native == "always",
    )
    taken = capture(pid, look, progress.say)
    case = _aligned(taken)
    if options.looks > 1 and case.picture.progress and case.picture.roots:
        taken.look_more(MORE_LOOKS)  # slow, or only caught so: is it always the same rank?
        case = _aligned(taken)
    if options.native == "auto":
        open_questions = _undecided(case)
        if open_questions:
            taken.native_stacks(open_questions)
    return taken


def _aligned(taken: Capture) -> Case:
    from whyhang.analyzer.align import align  # noqa: PLC0415 - not for `--help`
    from whyhang.analyzer.identify import identify  # noqa: PLC0415
    from whyhang.signatures.frames import TABLE  # noqa: PLC0415

    return align(identify(_read(taken.bundle())), TABLE)


def _undecided(case: Case) -> list[int]:
    """List the pids whose Python stack leaves open what they wait for."""
    from whyhang.analyzer.waits import undecided  # noqa: PLC0415 - not for `--help`

    pids = []
    for stand in case.stands:
        member = case.member(stand.member)
        if stand.place is not None and member.pid is not None and undecided(stand.place):
            pids.append(member.pid)
    return pids


def _read(bundle: Bundle) -> list[Fact]:
    from whyhang.collectors import READERS  # noqa: PLC0415 - not for `--help`
    from whyhang.collectors.bundle import documents_of  # noqa: PLC0415
    from whyhang.collectors.folder import read_documents  # noqa: PLC0415

    return list(read_documents(documents_of(bundle), readers=READERS))


def _save(bundle: Bundle, path: str, *, number: int) -> None:
    """Write the bundle; a second job gets a name of its own beside the first."""
    from whyhang.collectors.bundle import write_bundle  # noqa: PLC0415 - not for `--help`

    if number:
        stem, dot, rest = path.partition(".")
        path = f"{stem}-{number}{dot}{rest}"
    write_bundle(bundle, path)
