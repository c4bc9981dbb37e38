"""Look at a job that hangs now: collect, then read what was collected like any bundle."""

import argparse
from collections.abc import Iterable, Sequence

from whyhang.analyzer.commands import hosts, redaction
from whyhang.analyzer.commands.progress import Progress
from whyhang.analyzer.commands.questions import Named, questions
from whyhang.analyzer.commands.rounds import capture_options, save_bundle, settled
from whyhang.analyzer.errors import BundleError
from whyhang.analyzer.facts import Fact
from whyhang.analyzer.reading import Document, Reader
from whyhang.collectors.files.bundle_writer import check_name
from whyhang.collectors.live.capture import Capture
from whyhang.collectors.live.proc import Proc


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
    collected: list[Fact] = []
    unsaved: list[BundleError] = []
    for number, (pid, reach) in enumerate(hosts.to_reach(pids, options), 1):
        own = _numbered(save, number) if save else None
        if reach.hosts or reach.printed:
            some, errors = hosts.facts(
                reach, options, readers, progress, save=own, documents=documents
            )
        else:
            taken = Capture(pid, capture_options(options), progress.say, Proc())
            taken.note(reach.gaps)
            some, errors = _of_this_host(taken, options, readers, save=own, documents=documents)
        collected += some
        unsaved += errors
    return collected, unsaved


def _of_this_host(
    taken: Capture,
    options: argparse.Namespace,
    readers: Sequence[Reader],
    *,
    save: str | None,
    documents: dict[str, Document] | None,
) -> tuple[list[Fact], list[BundleError]]:
    names = redaction.pseudonyms(options)
    taken.take()
    open_questions = questions(several_snapshots=options.looks > 1, native=options.native == "auto")
    unsaved: list[BundleError] = []
    try:
        return settled(OnThisHost(taken), open_questions, readers, documents), unsaved
    finally:  # what was taken is kept, also where reading it fails or is interrupted
        if save:
            unsaved += save_bundle(taken.bundle(), save, names)


class OnThisHost:
    """A job of which all that is looked at runs here."""

    def __init__(self, taken: Capture) -> None:
        self.bundle = taken.bundle
        self.look_more = taken.look_more
        self._taken = taken

    def native_stacks(self, processes: Iterable[Named]) -> None:
        """Take native stacks."""
        self._taken.native_stacks(one.pid for one in processes)

    def peers(self, processes: Iterable[Named]) -> None:
        """Ask whom their calls name."""
        self._taken.peers(one.pid for one in processes)

    def counters(self, processes: Iterable[Named]) -> None:
        """Ask in which step they are."""
        self._taken.counters(one.pid for one in processes)


def _numbered(path: str, number: int) -> str:
    """Return a name for the bundle of a second job, beside the first."""
    stem, dot, rest = path.partition(".")
    return f"{stem}-{number}{dot}{rest}" if number > 1 else path
