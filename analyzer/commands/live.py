"""Look at a job that hangs now: collect, then read what was collected like any bundle."""

from __future__ import annotations

import argparse
import functools
from typing import TYPE_CHECKING

from whyhang.analyzer.commands.aligned import aligned
from whyhang.analyzer.errors import BundleError

if TYPE_CHECKING:
    from whyhang.analyzer.commands.progress import Progress
    from whyhang.analyzer.model import Fact
    from whyhang.collectors.files.bundle import Bundle
    from whyhang.collectors.live.capture import Capture

NATIVE = ("auto", "always", "never")
MORE_LOOKS = 3
SURE_LOOKS = 5  # more, before a rank of a job that moves is called slow, or all asleep


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
        "--ask-recorders",
        action="store_true",
        help="write to the job: ask each rank for its flight recorder's dump, through the pipe "
        "that TORCH_NCCL_DEBUG_INFO_PIPE_FILE names",
    )
    group.add_argument(
        "--debug-server",
        metavar="HOST:PORT",
        help="ask torch's debug server for the flight recorders of all ranks",
    )
    group.add_argument(
        "--no-store",
        action="store_true",
        help="do not connect to the job's store (MASTER_ADDR:MASTER_PORT). Otherwise its keys are "
        "listed, as one more client that only asks: which ranks have joined. Nothing is set",
    )
    group.add_argument(
        "--probe",
        action="store_true",
        help="try, from this host only, the place where the ranks are to meet: resolve its name, "
        "connect to its port, and send pings, a small one and up to two as large as the network "
        "says it carries (large ones that vanish hang a job at its first large message)",
    )
    group.add_argument(
        "--timeout",
        type=_seconds,
        default=15.0,
        metavar="S",
        help="limit of each single grab in seconds (default 15)",
    )


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 100:
        raise argparse.ArgumentTypeError(f"must be a number between 1 and 100, not {text}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 3600:
        raise argparse.ArgumentTypeError(f"must be between 0 and 3600 seconds, not {text}")
    return number


def facts(pids: list[int], options: argparse.Namespace, progress: Progress) -> list[Fact]:
    """Collect the jobs of these processes, keep the bundle if asked to, and read it.

    What is read is what the bundle holds, so a saved bundle gives the same diagnosis. Several
    PIDs of one job are one capture; each further job is a capture of its own. Bundles that could
    not be written are left as errors in ``options.unsaved``.
    """
    found: list[Fact] = []
    seen: set[int] = set()
    save = getattr(options, "save", None)
    if save:
        _check(save)
    for pid in pids:
        if pid in seen:
            continue
        taken = _looked(pid, options, progress)
        seen |= {member.pid for member in taken.job.members}
        number = 0 if not found else len(seen)
        try:
            found += _deepened(taken, options)
        finally:  # what was taken is kept, also where reading it fails or is interrupted
            if save:
                try:
                    _save(taken.bundle(), save, number=number)
                except BundleError as error:  # the diagnosis goes first: the job may end meanwhile
                    options.unsaved = [*getattr(options, "unsaved", ()), error]
    return found


def _looked(pid: int, options: argparse.Namespace, progress: Progress) -> Capture:
    """Look at one job as often as asked to."""
    from whyhang.collectors.live.capture import Options, capture  # noqa: PLC0415 - not for `--help`

    look = Options(
        looks=options.looks,
        interval=options.interval,
        limit=options.timeout,
        native=options.native == "always",
        ask=options.ask_recorders,
        debug_server=options.debug_server,
        store=not options.no_store,
        probe=options.probe,
    )
    return capture(pid, look, progress.say)


def _deepened(taken: Capture, options: argparse.Namespace) -> list[Fact]:
    """Read what was taken, and look further as often and as deep as it takes."""
    from whyhang.analyzer.commands import unclear  # noqa: PLC0415 - not for `--help`

    cards = tuple(getattr(options, "cards", ()))
    read = _read(taken.bundle(), cards)
    case = aligned(read)
    may_come = case.picture.progress or unclear.late_one_may_come(case)
    late = may_come and bool(case.picture.roots)
    if options.looks > 1 and (late or unclear.all_run(case) or unclear.all_nap(case)):
        taken.look_more(MORE_LOOKS)  # slow, or only caught so: is it always the same rank?
        read = _read(taken.bundle(), cards)
        case = aligned(read)
        if unclear.all_nap(case):
            taken.look_more(SURE_LOOKS)
            read = _read(taken.bundle(), cards)
            case = aligned(read)
    speaking = unclear.with_a_peer(case)
    if speaking:
        taken.peers(speaking)
        read = _read(taken.bundle(), cards)
    if together := unclear.all_in_collectives(case):
        taken.counters(together)
        read = _read(taken.bundle(), cards)
    if options.native == "auto":
        open_questions = unclear.undecided_pids(case)
        if open_questions:
            taken.native_stacks(open_questions)
            read = _read(taken.bundle(), cards)
    if options.looks > 1 and unclear.one_seems_slow(aligned(read)):
        taken.look_more(SURE_LOOKS)
        read = _read(taken.bundle(), cards)
    return read


def _read(bundle: Bundle, cards: tuple[str, ...] = ()) -> list[Fact]:
    from whyhang.collectors import LIVE_READERS  # noqa: PLC0415 - not for `--help`
    from whyhang.collectors.files.bundle import documents_of  # noqa: PLC0415
    from whyhang.collectors.files.folder import read_documents  # noqa: PLC0415

    readers = LIVE_READERS
    if any(entry.kind == "flight-recorder" for entry in bundle.manifest.files):
        from whyhang.collectors.flight_recorder.reader import FlightRecorder  # noqa: PLC0415

        readers = (FlightRecorder(), *readers)
    if any(entry.kind == "ras" for entry in bundle.manifest.files):
        from whyhang.collectors.ras.reader import RasReader  # noqa: PLC0415

        readers = (RasReader(), *readers)
    if any(entry.kind.startswith("gpu") for entry in bundle.manifest.files):
        from whyhang.collectors.gpu.nvml import NvmlReader  # noqa: PLC0415
        from whyhang.collectors.gpu.query_csv import CsvReader  # noqa: PLC0415
        from whyhang.collectors.gpu.text import TextReader  # noqa: PLC0415
        from whyhang.collectors.gpu.xml import XmlReader  # noqa: PLC0415

        readers = (*readers, NvmlReader(), XmlReader(), CsvReader(), TextReader())
    if any(entry.kind in {"kernel-log", "gpu-failed"} for entry in bundle.manifest.files):
        from whyhang.analyzer.cards.load import known  # noqa: PLC0415
        from whyhang.analyzer.commands.archived import Logs  # noqa: PLC0415

        readers = (*readers, Logs(functools.partial(known, cards), engine="words"))
    return list(read_documents(documents_of(bundle), readers=readers))


def _check(path: str) -> None:
    """Refuse a name that no bundle can have before any work is done. Raises ``BundleError``."""
    from whyhang.collectors.files.bundle import check_name  # noqa: PLC0415 - not for `--help`

    check_name(path)


def _save(bundle: Bundle, path: str, *, number: int) -> None:
    """Write the bundle; a second job gets a name of its own beside the first."""
    from whyhang.collectors.files.bundle import write_bundle  # noqa: PLC0415 - not for `--help`

    if number:
        stem, dot, rest = path.partition(".")
        path = f"{stem}-{number}{dot}{rest}"
    write_bundle(bundle, path)
