"""Look at a job that hangs now: collect, then read what was collected like any bundle."""

import argparse
import contextlib
from collections.abc import Iterator, Sequence

from whyhang.analyzer.commands import hosts, redaction
from whyhang.analyzer.commands.progress_display import Progress
from whyhang.analyzer.commands.questions import Observed, questions
from whyhang.analyzer.commands.rounds import capture_options, save_bundle, settled
from whyhang.analyzer.errors import BundleError
from whyhang.analyzer.facts import Fact
from whyhang.analyzer.reading import Document, Reader
from whyhang.collectors.files.bundle_writer import check_name, numbered
from whyhang.collectors.hosts.reach import Reach
from whyhang.collectors.live.capture import Capture
from whyhang.collectors.logs.reader import LogReader


def facts(
    pids: Sequence[int],
    options: argparse.Namespace,
    readers: Sequence[Reader],
    progress: Progress,
    *,
    save: str | None = None,
    documents: dict[str, Document] | None = None,
) -> tuple[list[Fact], list[BundleError]]:
    """Collect the jobs of these processes, keep the bundle if asked to, and read it.

    What is read is what the bundle holds, so a saved bundle gives the same diagnosis. Several
    PIDs of one job are one capture; each further job is a capture of its own. Gives the errors
    of bundles that could not be written, too: the diagnosis goes first, the job may end meanwhile.
    ``documents`` takes what was read, by path.
    """
    if save:
        check_name(save)
    names = redaction.pseudonyms(options)
    open_questions = questions(several_snapshots=options.looks > 1, native=options.native == "auto")
    collected: list[Fact] = []
    unsaved: list[BundleError] = []
    for number, (pid, reach) in enumerate(hosts.to_reach(pids, options), 1):
        with _looked_at(pid, reach, options, readers, progress) as (job, interrupted):
            asked = [] if interrupted else open_questions
            try:
                collected += settled(job, asked, readers, documents)
            finally:  # what was taken is kept, also where reading it fails or is interrupted
                if save:
                    unsaved += save_bundle(job.bundle(), numbered(save, number), names)
    return collected, unsaved


@contextlib.contextmanager
def _looked_at(
    pid: int,
    reach: Reach,
    options: argparse.Namespace,
    readers: Sequence[Reader],
    progress: Progress,
) -> Iterator[tuple[Observed, bool]]:
    """Look at a job wherever it runs; give it, and whether Ctrl-C ended the looking."""
    if reach.hosts or reach.printed:
        patterns = {p for each in readers if isinstance(each, LogReader) for p in each.patterns}
        with hosts.looked_at(reach, options, patterns, progress) as looked:
            yield looked
        return
    taken = Capture(pid, capture_options(options), progress.say)
    taken.note(reach.gaps)
    yield taken.take(), False
