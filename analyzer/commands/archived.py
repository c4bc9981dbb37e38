"""Read what a job left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from whyhang.analyzer.cards.load import Known
    from whyhang.analyzer.commands.progress import Progress
    from whyhang.analyzer.model import Fact
    from whyhang.analyzer.reading import Document
    from whyhang.collectors.files.archive import Store
    from whyhang.collectors.logs.scan import LogReader


SHARED_FROM, SHARED_TO = 512, 128 << 20
"""Bytes of a text that one of several processes reads; smaller ones are read as soon here."""

_NO_TEXT = (b"\x80", b"\x7fELF", b"{")


def facts(
    paths: list[str], known: Callable[[], Known], progress: Progress, store: Store
) -> list[Fact]:
    """Read files, folders and archives with all readers; the log reader gets the patterns.

    ``known`` loads the signatures, which takes a while: it is called beside the reading or, where
    there are logs, before the first of them. ``store`` stays open until the diagnosis is made.
    """
    from whyhang.collectors import READERS  # noqa: PLC0415 - not for `--help`
    from whyhang.collectors.files.folder import read  # noqa: PLC0415

    meter = progress.meter
    logs = Logs(known, told=meter.count)
    return list(
        read(
            paths,
            readers=(*READERS, logs),
            progress=progress.say,
            store=store,
            meter=meter,
        )
    )


class Logs:
    """The reader of logs, made when the first is met: a thousand recorder dumps need none."""

    name = "log"

    def __init__(
        self,
        known: Callable[[], Known],
        engine: str = "auto",
        told: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._engine = engine
        self._told = told
        self._known = known
        self._made: LogReader | None = None

    def sniff(self, document: Document) -> bool:
        """Take whatever looks like text."""
        return self._reader().sniff(document)

    def read(self, document: Document) -> Iterator[Fact]:
        """Scan one file."""
        return self._reader().read(document)

    def apart(self, start: bytes, size: int) -> bool:
        """Say that texts of some size can be read side by side; in one huge one, threads can."""
        return SHARED_FROM <= size <= SHARED_TO and not start.startswith(_NO_TEXT)

    def ready(self) -> None:
        """Load the patterns."""
        self._reader().ready()

    def _reader(self) -> LogReader:
        from whyhang.analyzer.match.log import patterns_of  # noqa: PLC0415 - see above
        from whyhang.collectors.logs.scan import LogReader  # noqa: PLC0415

        if self._made is None:
            known = self._known()
            patterns = {
                pattern
                for signature in known.signatures
                for matcher in (signature.when, signature.unless)
                for pattern in patterns_of(matcher)
            }
            self._made = LogReader(
                patterns, owners=known.owners(), told=self._told, engine=self._engine
            )
        return self._made
