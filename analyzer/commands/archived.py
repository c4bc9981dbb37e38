"""Read what a job left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whyhang.analyzer.cards.load import Known
    from whyhang.analyzer.commands.progress import Progress
    from whyhang.analyzer.model import Fact


def facts(paths: list[str], known: Known, progress: Progress) -> list[Fact]:
    """Read files, folders and archives with all readers; the log reader gets the patterns."""
    from whyhang.analyzer.match.log import patterns_of  # noqa: PLC0415 - not for `--help`
    from whyhang.collectors import READERS  # noqa: PLC0415
    from whyhang.collectors.files.folder import read  # noqa: PLC0415
    from whyhang.collectors.logs.scan import LogReader  # noqa: PLC0415

    patterns = {
        pattern
        for signature in known.signatures
        for matcher in (signature.when, signature.unless)
        for pattern in patterns_of(matcher)
    }
    readers = (*READERS, LogReader(patterns, owners=known.owners()))
    return list(read(paths, readers=readers, progress=progress.say))
