"""Say why a job hangs: from its processes, or from what it left behind.

TARGET is a PID or a path, freely mixed. A PID may be the launcher, any rank or any
DataLoader worker: all ranks of that job on this host are found and looked at. A path may
be a folder, a file or an archive (.tar, .tar.gz, .tar.zst, .zip, .gz, .zst, .xz), with
stacks (py-spy, faulthandler, gdb, pystack), logs, flight-recorder dumps and bundles in any
mix and under any names; "-" is standard input. Without a TARGET, the flight-recorder dumps
are read that torch wrote last where it writes them: ~/.cache/torch, /tmp, or what
TORCH_FR_DUMP_TEMP_FILE and TORCH_NCCL_DEBUG_INFO_TEMP_FILE name. A path may also lie elsewhere:
s3://, gs://, hdfs://, https:// and whatever fsspec knows (pip install 'whyhang[remote]');
a web server's folder is named with a / at its end.
"""

import argparse
import contextlib
import difflib
import os
import shlex
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

from whyhang.analyzer.align import align
from whyhang.analyzer.cards.load import known
from whyhang.analyzer.commands import COMMANDS, live_options, output
from whyhang.analyzer.commands.cards import add_card_folders
from whyhang.analyzer.commands.progress_display import Progress
from whyhang.analyzer.commands.readers import readers_for, team_on
from whyhang.analyzer.errors import BundleError, TargetError, WhyhangError
from whyhang.analyzer.facts import Fact, counted
from whyhang.analyzer.findings.diagnose import diagnose
from whyhang.analyzer.job.identify import identify
from whyhang.analyzer.reading import Document
from whyhang.analyzer.report import Report
from whyhang.analyzer.reports.lines_around import with_lines_around
from whyhang.analyzer.reports.saved import is_saved_report
from whyhang.collectors.files import remote
from whyhang.collectors.files.archive import Store
from whyhang.collectors.files.folder import read
from whyhang.collectors.files.own_output import is_report_file
from whyhang.collectors.flight_recorder import places
from whyhang.signatures.frames import TABLE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare targets and options."""
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="a PID or a path")
    output.add_arguments(parser)
    add_card_folders(parser)
    live_options.add_arguments(parser)
    parser.add_argument(
        "--on",
        metavar="CLUSTER",
        help="have the files read by the nodes of a cluster: slurm[:JOB] (this shell's allocation, "
        "or a job of yours that runs) or ray[:ADDRESS]; the report is the same",
    )
    parser.add_argument(
        "--save", metavar="BUNDLE", help="keep what was collected: a folder or a .tar.zst"
    )


def run(options: argparse.Namespace) -> int:
    """Collect, read, analyze, report."""
    output.check(options)
    named = bool(options.targets) or live_options.given_hosts(options) is not None
    pids, paths = split(options.targets) if named else ([], dumps_left_behind())
    if paths and not pids and all(map(is_report_file, paths)):
        raise TargetError(
            f"{paths[0]} is a report of whyhang, and no evidence",
            f"`whyhang show {shlex.quote(paths[0])}` shows it."
            if is_saved_report(paths[0])
            else "Give what the job left: logs, stacks, dumps, a bundle.",
        )
    if options.dry_run:
        from whyhang.analyzer.commands import hosts  # noqa: PLC0415 - as late as a command

        sys.stdout.write(hosts.dry_run(pids, options))
        return 0
    if options.on and not paths:
        raise TargetError(
            "--on reads files, and none is named",
            "whyhang DIR --on slurm; a PID is looked at here.",
        )
    report, unsaved = report_on(
        pids, paths, options, cards=options.cards, save=options.save, on=options.on
    )
    return output.emit(report, options, unsaved)


def report_on(
    pids: Sequence[int],
    paths: Sequence[str],
    options: argparse.Namespace,
    *,
    cards: Sequence[str] = (),
    save: str | None = None,
    on: str | None = None,
    quiet: bool = False,
) -> tuple[Report, Sequence[WhyhangError]]:
    """Collect from processes, read files, and diagnose all of it as one job.

    ``options`` are those of ``live_options``, needed for processes only. What was taken of them is
    kept in the bundle ``save``; ``on`` is the cluster that reads the files. The errors are those
    of bundles that could not be. ``quiet``: no progress is shown.
    """
    knowledge = known(cards)
    facts: list[Fact] = []
    looks = bool(pids) or live_options.given_hosts(options) is not None
    unsaved: Sequence[WhyhangError] = []
    if save and not looks:
        why = "--save keeps what is taken of processes; no PID was named"
        remedy = "The files that were read are still where they are."
        unsaved = [BundleError(f"nothing was kept in {save}: {why}", remedy)]
    documents: dict[str, Document] = {}
    with contextlib.ExitStack() as stack:
        progress, store = stack.enter_context(Progress(quiet=quiet)), stack.enter_context(Store())
        readers = readers_for(knowledge, progress.meter)
        if looks:
            from whyhang.analyzer.commands import live  # noqa: PLC0415 - as late as a command

            facts, unsaved = live.facts(
                pids, options, readers, progress, save=save, documents=documents
            )
        if paths:
            team = stack.enter_context(team_on(on, knowledge)) if on is not None else None
            facts += read(
                paths,
                readers=readers,
                progress=progress.say,
                store=store,
                meter=progress.meter,
                team=team,
            )
        progress.say("lining the ranks up")
        case = align(identify([*facts, *knowledge.gaps]), TABLE)
        report = diagnose(case, knowledge.signatures)

        def opened(path: str) -> BinaryIO | None:
            """Open a file again that was read; the records of whyhang itself have no context."""
            file = documents.get(path) or store.files.get(path)
            return None if file is None or path.endswith(".json") else file.open()

        return with_lines_around(report, opened), unsaved


def dumps_left_behind() -> list[str]:
    """Find the recorder dumps where torch writes them, and say so. Raises ``TargetError``."""
    dumps = places.left_behind(os.environ)
    if dumps is None:
        named = ", ".join(f"{output.with_tilde(prefix)}*" for prefix in places.prefixes(os.environ))
        raise TargetError(
            f"nothing to look at: no TARGET was named, and no recorder dumps are at {named}",
            "whyhang PID looks at a job that hangs now, whyhang PATH... at what it left; "
            "whyhang --help says more.",
        )
    older = f"; {dumps.older} beside them are older, and left out" if dumps.older else ""
    place, age = output.with_tilde(dumps.prefix), _ago(time.time() - dumps.written_at)
    sys.stderr.write(
        f"whyhang: no TARGET was named; reading {counted(len(dumps.files), 'recorder dump')} at "
        f"{place}*, written {age}{older}\n"
    )
    return list(dumps.files)


def _ago(seconds: float) -> str:
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= size:
            return f"{counted(int(seconds // size), unit)} ago"
    return "less than a minute ago"


def split(targets: Iterable[str]) -> tuple[list[int], list[str]]:
    """Split targets into PIDs and paths; a number that is also a file here is the file.

    Raises ``TargetError`` for a target that is neither.
    """
    pids: list[int] = []
    paths: list[str] = []
    for target in targets:
        if target == "-" or (target and Path(target).exists()):
            paths.append(target)
        elif remote.is_remote(target):
            remote.check(target)
            paths.append(target)
        elif target.isdecimal() and target.isascii():
            pids.append(int(target))
        else:
            near = difflib.get_close_matches(target, COMMANDS, n=1, cutoff=0.7)
            hint = f"Did you mean `whyhang {near[0]}`? " if near else ""
            raise TargetError(
                f"{target or 'an empty TARGET'} is neither a process nor a file or folder",
                f"{hint}Give the PID of any process of the job, or the path of what it left.",
            )
    return pids, paths
