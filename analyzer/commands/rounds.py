"""Rounds of questions: read what was taken of a job, and take more as long as one is open."""

import argparse
from collections.abc import Sequence

from whyhang.analyzer.align import align
from whyhang.analyzer.commands.questions import Observed, Question
from whyhang.analyzer.errors import BundleError
from whyhang.analyzer.facts import Fact
from whyhang.analyzer.job.identify import identify
from whyhang.analyzer.pseudonyms import Pseudonyms
from whyhang.analyzer.reading import Document, Reader
from whyhang.collectors.files.bundle import Bundle, documents_of
from whyhang.collectors.files.bundle_writer import write_bundle
from whyhang.collectors.files.folder import read_documents
from whyhang.collectors.files.hidden import with_pseudonyms
from whyhang.collectors.live.capture import Named
from whyhang.collectors.live.probes.probe import Options
from whyhang.signatures.frames import TABLE

GRAB = 15.0
"""Seconds for each single grab, where --timeout says nothing."""


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
        members = [case.member(number) for number in question.open_for(case)]
        question.take(taken, [Named(m.host, m.pid) for m in members if m.pid is not None])


def save_bundle(bundle: Bundle, path: str, names: Pseudonyms | None) -> list[BundleError]:
    """Write a bundle, with ``names`` replaced if there are any.

    Returns the error where that fails, for the diagnosis goes first.
    """
    try:
        write_bundle(bundle if names is None else with_pseudonyms(bundle, names), path)
    except BundleError as error:
        return [error]
    return []


def capture_options(options: argparse.Namespace) -> Options:
    """Return how to look, as the options say."""
    return Options(
        looks=options.looks,
        interval=options.interval,
        limit=GRAB if options.timeout is None else options.timeout,
        native=options.native == "always",
        ask=options.ask_recorders,
        debug_server=options.debug_server,
        store=not options.no_store,
        probe=options.probe,
    )
