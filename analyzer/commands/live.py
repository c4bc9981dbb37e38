"""Look at a job that hangs now: collect, then read what was collected like any bundle."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from whyhang.analyzer.align import align
from whyhang.analyzer.commands import redaction
from whyhang.analyzer.commands.progress import Progress
from whyhang.analyzer.commands.questions import Question, questions
from whyhang.analyzer.errors import BundleError
from whyhang.analyzer.facts import Fact
from whyhang.analyzer.job.identify import identify
from whyhang.analyzer.pseudonyms import Pseudonyms
from whyhang.analyzer.reading import Document, Reader
from whyhang.collectors.files.bundle import check_name, documents_of, write_bundle
from whyhang.collectors.files.folder import read_documents
from whyhang.collectors.files.hidden import with_pseudonyms
from whyhang.collectors.live.capture import Capture, Options, capture
from whyhang.signatures.frames import TABLE


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
    collected: list[Fact] = []
    unsaved: list[BundleError] = []
    seen: set[int] = set()
    for pid in pids:
        if pid in seen:
            continue
        taken = capture(pid, _capture_options(options), progress.say)
        seen |= {member.pid for member in taken.job.members}
        number = len(seen) if collected else 0
        open_questions = questions(
            several_snapshots=options.looks > 1, native=options.native == "auto"
        )
        try:
            collected += settled(taken, open_questions, readers)
            if documents is not None:
                documents.update((each.path, each) for each in documents_of(taken.bundle()))
        finally:  # what was taken is kept, also where reading it fails or is interrupted
            if save:
                unsaved += _save(taken, _numbered(save, number), names)
    return collected, unsaved


def settled(
    taken: Capture, open_questions: Sequence[Question], readers: Sequence[Reader]
) -> list[Fact]:
    """Read what was taken of a job, and take more as long as a question is open.

    After each answer everything is read and aligned anew. A question is asked at most once.
    """
    unasked = list(open_questions)
    while True:
        collected = list(read_documents(documents_of(taken.bundle()), readers=readers))
        case = align(identify(collected), TABLE)
        question = next((each for each in unasked if each.open_for(case)), None)
        if question is None:
            return collected
        unasked.remove(question)
        pids = [case.member(number).pid for number in question.open_for(case)]
        question.take(taken, [pid for pid in pids if pid is not None])


def _save(taken: Capture, path: str, names: Pseudonyms | None) -> list[BundleError]:
    bundle = taken.bundle()
    try:
        write_bundle(bundle if names is None else with_pseudonyms(bundle, names), path)
    except BundleError as error:
        return [error]
    return []


def _capture_options(options: argparse.Namespace) -> Options:
    return Options(
        looks=options.looks,
        interval=options.interval,
        limit=options.timeout,
        native=options.native == "always",
        ask=options.ask_recorders,
        debug_server=options.debug_server,
        store=not options.no_store,
        probe=options.probe,
    )


def _numbered(path: str, number: int) -> str:
    """Return a name for the bundle of a second job, beside the first."""
    stem, dot, rest = path.partition(".")
    return f"{stem}-{number}{dot}{rest}" if number else path
