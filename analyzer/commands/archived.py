"""Read what a job left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from whyhang.analyzer.commands.progress import Progress
    from whyhang.analyzer.model import Fact
    from whyhang.analyzer.signature import Signature


def facts(paths: list[str], signatures: Iterable[Signature], progress: Progress) -> list[Fact]:
    """Read files, folders and archives with all readers; the log reader gets the patterns."""
    from whyhang.collectors import READERS  # noqa: PLC0415 - not for `--help`
    from whyhang.collectors.folder import read  # noqa: PLC0415

    del signatures
    return list(read(paths, readers=READERS, progress=progress.say))
