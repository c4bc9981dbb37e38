"""How each rank ended, as logs, launchers and the kernel tell, and whether of its own.

A rank that raised, crashed or was killed is where to look. One that the launcher ended
(SIGTERM), whose watchdog gave up (SIGABRT), or that raised because a peer was gone ended
because of somebody else: it shows where it stood until then, and is no cause.
"""

import re
import signal
from collections.abc import Callable, Collection, Iterable, Iterator

from whyhang.analyzer.facts import LogLine, Record, Source
from whyhang.analyzer.facts.exceptions import CUT_OFF
from whyhang.analyzer.facts.logs import FAILED
from whyhang.analyzer.job.records import Job

LOST_PEER = re.compile(
    r"ncclRemoteError|remote process exited|Connection closed by"
    r"|(?<!Errno 104\] )(?<!\(104, [\"'])Connection reset by peer"
    r"|NCCL WARN (?:socketStartConnect: |Call to )[Cc]onnect to \S+ (?:failed|returned)"
    r"|[Ss]ocket [Cc]losed|(?<!Errno 32\] )(?<!\(32, [\"'])Broken pipe"
)
"""A line of a rank that noticed the end of another one.

With Python's error numbers it is a connection of the program's own, as to a server for data.
"""

WAITED = re.compile(
    r"[Cc]aught collective operation timeout|Timed out waiting \d+ms"
    r"|watchdog thread terminated with exception(?!: (?:NCCL|CUDA|HIP) error|:\s*$)"
    r"|NCCL communicator was aborted on rank \d"  # by its own watchdog, or a late one of another
    r"|failed to pass monitoredBarrier|Notify register (?:times out|has not received)"
    r"|current working operator name is Hc(?:cl|om)"
    r"|Timed out (?:initializing process group in store"
    r"|after \d+ seconds waiting for (?:clients|workers))"
    r"|wait timeout after \d+ms|(?:Operation|socket SocketImpl\(.{0,200}\)) timed out after \d+ ?ms"
    r"|Application timeout caused pair closure"  # gloo, of its own limit
    # a watchdog of the program's own
    r"|\b(?:[Nn]o (?:step|progress|update|iteration|batch|activity)|[Nn]othing happened)"
    r"(?: (?:made|seen|done|finished))? (?:for|in|within) (?:the last )?[\d.]+ ?[smh]"
)
"""A line of a rank that waited for another one until the limit, as libraries say it."""

IN_VAIN = FAILED + "others"
"""The name of lines that say so in words of a program's own (``what_failed.toml``)."""

_WATCHDOG = re.compile(r"[Ww]atchdog")

FEW = 2
"""Ranks that fail at once and may have failed each for itself."""

BROUGHT_DOWN = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGABRT})
"""Signals by which others end a rank, or a watchdog its own process: no cause by themselves."""

_FATAL = re.compile(r"Fatal Python error: (?P<how>[^\n]+)")

_OF_WATCHDOG = re.compile(
    r"watchdog thread terminated with exception: (?P<how>(?:NCCL|CUDA|HIP) error[^\n]*)"
)


class End(Record):
    """How one rank ended.

    ``how`` is a phrase ("SIGKILL", "exit code 1", "ValueError: bad row"). ``own``: nothing shows
    that another rank, a launcher or a watchdog brought it down. ``stood``: it stood in a collective
    until then.
    """

    how: str
    own: bool
    source: Source
    quote: str
    signal: int | None = None
    time: float | None = None
    stood: bool = False


def ends_of(job: Job) -> dict[int, End]:
    """Return the end of each rank for which one is reported: the surest account of each."""
    ends: dict[int, End] = {}
    accounts = (_raised(job.lines), _crashed(job.lines), _exited(job), _aborted(job.lines))
    for account in accounts:
        for rank, end in dict(reversed([*account])).items():  # of several, the first
            known = ends.get(rank)
            if known is None or (end.own and not known.own and not known.stood):
                ends[rank] = end
    return ends


def _raised(lines: Iterable[LogLine]) -> Iterator[tuple[int, End]]:
    """Read the exceptions that ended ranks; those of other threads end none."""
    lines = [*lines]
    for line in lines:
        raised, rank = line.raised, line.who.rank
        if raised is not None and rank is not None and not (raised.thread or raised.of_launcher):
            stood = raised.op is not None
            own = raised.is_own and not is_of_wait(line, lines)
            yield rank, _told_by(line, str(raised), own=own, stood=stood)


def is_of_wait(line: LogLine, lines: Iterable[LogLine]) -> bool:
    """Return whether an exception whose words are cut off is of a rank that waited in vain."""
    cut = line.raised is not None and line.raised.type == CUT_OFF
    return cut and any(each.who.rank == line.who.rank and waits_in_vain(each) for each in lines)


def _crashed(lines: Iterable[LogLine]) -> Iterator[tuple[int, End]]:
    for line in lines:
        fatal = _FATAL.search(line.text)
        if fatal is not None and line.who.rank is not None:
            own = not fatal["how"].startswith("Aborted")
            yield line.who.rank, _told_by(line, fatal["how"].strip(), own=own)


def _aborted(lines: Iterable[LogLine]) -> Iterator[tuple[int, End]]:
    """Read the errors with which a watchdog ends its process: whose they are is not known."""
    for line in lines:
        error = _OF_WATCHDOG.search(line.text)
        if error is not None and line.who.rank is not None:
            yield line.who.rank, _told_by(line, error["how"].strip(), own=False)


def _told_by(line: LogLine, how: str, *, own: bool, stood: bool = False) -> End:
    return End(how=how, own=own, source=line.source, quote=line.text, time=line.time, stood=stood)


def _exited(job: Job) -> Iterator[tuple[int, End]]:
    """Read rows of launchers and lines of kernels; a clean exit is no end that counts.

    Where ranks waited in vain or lost a peer, an exit code may come of that: it counts as one's
    own only where it is the only one, and those who waited ended otherwise, or who lost a peer is
    known. A watchdog that gives up aborts its process: an abort is one's own only where it is the
    only one, or before all others were terminated, and nobody waited, or lost a peer but another
    rank that is known.
    """
    waiters, lost = who_says(job, waits_in_vain), who_says(job, loses_peer)
    with_code = {row.who.rank for row in job.exits if row.exitcode and row.signal is None}
    aborts_only = all(_WATCHDOG.search(line.text) for line in job.lines if waits_in_vain(line))
    one_code = not (waiters or lost) or (aborts_only and len(with_code) == 1)
    if lost and None not in waiters | lost:
        one_code = one_code or len(with_code - waiters - lost) == 1
    aborts = {row.who.rank for row in job.exits if row.signal == signal.SIGABRT}
    alone = len(aborts - {None}) == 1 or ended_before_the_rest(job, aborts)
    alone = alone and not waiters and not lost & {*aborts, None}
    for row in job.exits:
        rank = row.who.rank
        if rank is None or (row.exitcode == 0 and not row.signal):
            continue
        if row.signal is not None:
            of_others = BROUGHT_DOWN - {signal.SIGABRT} if alone else BROUGHT_DOWN
            # What a rank crashes of as it leaves, after it gave up waiting, is no cause.
            own = not row.killed_with_others and row.signal not in of_others and rank not in waiters
        elif row.exitcode is None:
            own = rank not in waiters
        else:
            own = one_code and rank not in waiters | lost
        yield (
            rank,
            End(
                how=row.how,
                own=own,
                source=row.source,
                quote=row.quote,
                signal=row.signal,
                time=row.time,
            ),
        )


def ended_before_the_rest(job: Job, ranks: Collection[int | None]) -> bool:
    """Return whether a few ranks ended before all others of which it is known were terminated."""
    rest = {row.who.rank: row.signal for row in job.exits if row.who.rank not in {None, *ranks}}
    few = 0 < len(ranks) <= (FEW if None in ranks else max(FEW, len(rest)))
    return few and set(rest.values()) == {signal.SIGTERM}


def waits_in_vain(line: LogLine) -> bool:
    """Return whether a line is of a rank that waited for another one until the limit."""
    return IN_VAIN in line.matched or WAITED.search(line.text) is not None


def loses_peer(line: LogLine) -> bool:
    """Return whether a line is of a rank that noticed the end of another one."""
    return LOST_PEER.search(line.text) is not None


def who_says(job: Job, says: Callable[[LogLine], bool]) -> set[int | None]:
    """Return the ranks that say something; None among them where it is not known who does.

    One line may stand there twice, of which one knows its rank.
    """
    speakers: dict[tuple[str, int | None], int | None] = {}
    for line in job.lines:
        if says(line):
            place = (line.source.file, line.source.line)
            if speakers.get(place) is None:
                speakers[place] = line.who.rank
    return set(speakers.values())
