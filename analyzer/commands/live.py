"""Look at a job that hangs now: collect, then read what was collected like any bundle."""

import argparse
import contextlib
from collections.abc import Iterator, Sequence

from whyhang.analyzer.align import align
from whyhang.analyzer.cards.load import known
from whyhang.analyzer.commands import hosts, redaction
from whyhang.analyzer.commands.progress_display import Progress
from whyhang.analyzer.commands.questions import Observed, Question, questions
from whyhang.analyzer.commands.readers import readers_for
from whyhang.analyzer.errors import BundleError
from whyhang.analyzer.facts import Fact
from whyhang.analyzer.job.identify import identify
from whyhang.analyzer.reading import Document, Reader
from whyhang.collectors.files.bundle import check_name, documents_of, numbered, write_bundle
from whyhang.collectors.files.folder import read_documents
from whyhang.collectors.files.hidden import with_pseudonyms
from whyhang.collectors.hosts.reach import Reach
from whyhang.collectors.live.capture import Capture
from whyhang.collectors.logs.reader import LogReader
from whyhang.signatures.frames import TABLE


def collect(
    pids: Sequence[int], options: argparse.Namespace, save: str, *, quiet: bool = False
) -> None:
    """Only collect, into a bundle. Raises ``BundleError`` where that cannot be written."""
    with Progress(quiet=quiet) as progress:
        readers = readers_for(known(), progress.meter)
        _, unsaved = facts(pids, options, readers, progress, save=save)
    for error in unsaved:
        raise error


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
                    bundle = job.bundle() if names is None else with_pseudonyms(job.bundle(), names)
                    try:
                        write_bundle(bundle, numbered(save, number))
                    except BundleError as error:
                        unsaved.append(error)
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
    taken = Capture(pid, hosts.capture_options(options), progress.say)
    taken.note(reach.gaps)
    yield taken.take(), False


def settled(
    taken: Observed,
    open_questions: Sequence[Question],
    readers: Sequence[Reader],
    documents: dict[str, Document] | None = None,
) -> list[Fact]:
    """Read what was taken of a job, and take more as long as a question is open.

    After each answer everything is read and aligned anew. A question is asked at most once.
    ``documents`` takes what was read, by path.
    """
    unasked = list(open_questions)
    while True:
        files = list(documents_of(taken.bundle()))
        collected = list(read_documents(files, readers=readers))
        case = align(identify(collected), TABLE)
        question = next((each for each in unasked if each.open_for(case)), None)
        if question is None:
            if documents is not None:
                documents.update((each.path, each) for each in files)
            return collected
        unasked.remove(question)
        question.take(taken, question.whom(case, question.open_for(case)))
