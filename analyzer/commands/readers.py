"""All readers, with the one of logs told which lines to look for."""

from whyhang.analyzer.cards.load import KnownSignatures
from whyhang.analyzer.reading import Reader
from whyhang.collectors import READERS
from whyhang.collectors.files.meter import Meter
from whyhang.collectors.logs.reader import LogReader
from whyhang.collectors.shards.channel import Search


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
