"""All readers, with the one of logs told which lines to look for; and workers that have them."""

import contextlib
import sys
from collections.abc import Iterator

from whyhang.analyzer.cards.load import KnownSignatures
from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.reading import Reader
from whyhang.analyzer.reports.outgoing import plain
from whyhang.collectors import READERS
from whyhang.collectors.files.meter import Meter
from whyhang.collectors.logs.reader import LogReader
from whyhang.collectors.shards.channel import Search, begun
from whyhang.collectors.shards.clusters import workers
from whyhang.collectors.shards.team import WorkerTeam


def readers_for(known: KnownSignatures, meter: Meter) -> tuple[Reader, ...]:
    """Return the readers of all evidence, of a live job as of files.

    The reader of logs looks for what the signatures ask for, and counts the bytes of long logs.
    """
    search = search_of(known)
    return (*READERS, LogReader(search.patterns, owners=search.owners, progress=meter.count))


def search_of(known: KnownSignatures) -> Search:
    """Return what the reader of logs is to look for, for workers that make one of their own."""
    patterns = {pattern for signature in known.signatures for pattern in signature.searched}
    return Search(patterns=tuple(sorted(patterns)), owners=known.owners())


@contextlib.contextmanager
def team_on(on: str, known: KnownSignatures) -> Iterator[WorkerTeam]:
    """Start workers and give them up again; say on standard error which did not do.

    Raises ``TargetError`` where there is no such cluster, or none of its nodes has a worker.
    """
    channels = workers(on)
    troubles = begun(channels, search_of(known))
    with WorkerTeam(channels, troubles) as team:
        reasons = list(dict.fromkeys(f"{channels[n].name}: {why}" for n, why in troubles.items()))
        if len(troubles) == len(channels):
            raise TargetError(
                f"--on {on}: no worker started; {reasons[0] if reasons else 'it has no nodes'}",
                "The nodes need this very whyhang (shared file system or same image).",
            )
        for line in reasons:
            _tell(f"no worker on {line}; the others read")
        yield team
        for line in team.lost:
            _tell(line)


def _tell(line: str) -> None:
    sys.stderr.write(f"whyhang: {plain(line)}\n")
