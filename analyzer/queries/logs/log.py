"""Log lines: what a line says, and whom it blames.

The patterns stand in the signatures; the reader of logs looks for all of them in one pass and
hands back the lines (``LogLine.matched`` holds the patterns). So a pattern's text is its name, and
there is no registry.
"""

import enum
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import LogLine, ProcessRank, Record, Who, whole
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.job.records import GROUP_RANK, Member
from whyhang.analyzer.queries.hits import about_same, cite_lines, when_printed
from whyhang.analyzer.queries.logs.failures import (
    are_most,
    ended_behind,
    printed_by_every_process,
    raised_by,
)
from whyhang.analyzer.queries.logs.log_ranks import (
    all_came,
    names_root,
    on_host_of_peer,
    peers_of,
    ranks_in,
    ranks_of_others,
    using_gpu,
    whose_end,
)
from whyhang.analyzer.queries.machines.cluster import ranks_of_pod, ranks_on
from whyhang.analyzer.rank_state.from_logs.log_ends import unanswered
from whyhang.analyzer.report import Collective


class Blames(enum.Enum):
    """Whom a line of a log points at."""

    NAMED = "named"  # whom the line names (groups rank, ranks, pid), else who says it, unless most
    SPEAKER = "speaker"  # each rank whose log says so, however many (out of memory)
    HOST = "host"  # all ranks on the host that the line names (group node)
    POD = "pod"  # all ranks in the pod that the line names (group pod)
    ENDED = "ended"  # the ranks whose end the lines report; nobody where that may be an echo
    ZERO = "zero"  # rank 0, which the line does not name: only it can have done what was missing
    PEER = "peer"  # whom the send or receive that failed was with, as its traceback's source tells
    PEER_HOST = "peer-host"  # the ranks of the one host whose address several hosts name
    ROOT = "root"  # rank 0: several ranks fail at one and the same target, NCCL's bootstrap root
    OTHERS = "others"  # all ranks that do not say so, of as many as the line tells (group world)
    NOBODY = "nobody"  # no rank is to blame, or it cannot be known from this line

    @classmethod
    def _missing_(cls, value: object) -> "Blames | None":
        return cls.NAMED if value in FORMER_WORDS else None


FORMER_WORDS = ("odd", "few")
"""Words of older cards for ``NAMED``."""


class Log(Record):
    """What a signature in TOML asks: some line matches one of the patterns.

    Patterns are ``regex`` syntax, searched anywhere in a line. Named groups become fields of
    the finding's title; ``rank``/``ranks`` (global, "1, 2"), ``pid``, ``op``, ``seq`` and
    ``group`` have a meaning. ``least`` is the number of distinct ranks that must say so, ``most``
    (0: any) how many may: what several ranks say is an effect of something else.
    ``ends_process``: who says it ends by it, so that the launcher's table of failures tells
    whose line it is, and who failed alike. A field ``among`` is the number of ranks among which a
    line counts: its ranks are named where these are all of the job; one in a field ``waiter`` is
    not to blame. ``adds`` explains values: of the field "xid" with value "79" the fields to add.
    A field ``pci`` names a GPU by its address, and so its ranks; ``device`` numbers that of
    who speaks.
    A line with one of ``vetoes`` takes the hit back, if ``veto_same_rank`` only on its own rank.
    ``unless_goes_on``: lines do not count after which their log goes on with steps or results.
    ``retries``: patterns of lines that say that something is tried again; those of ``vetoes``
    that stand above them in their log do not take them back.
    """

    patterns: tuple[str, ...]
    blames: Blames = Blames.NOBODY
    least: int = 1
    most: int = 0
    ends_process: bool = False
    adds: dict[str, dict[str, dict[str, str]]] = {}
    vetoes: tuple[str, ...] = ()
    veto_same_rank: bool = False
    unless_goes_on: bool = False
    retries: tuple[str, ...] = ()

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Fold all lines that match into one hit."""
        lines = case.job.lines_with(self.patterns)
        if lines and (self.unless_goes_on or self.retries):
            lines = unanswered(case.job, lines)
        if not lines:
            return ()
        speakers = {line.who.rank for line in lines if line.who.rank is not None}
        if self.least > 1 and len(speakers) < self.least:
            return ()
        if self.most and len(speakers) > self.most:
            return ()
        if self.blames is Blames.OTHERS and all_came(lines):
            return ()
        hit = self.hit_for(case, lines)
        by = Blames.SPEAKER if self.veto_same_rank else Blames.NOBODY
        taken_back = self._vetoing(case, lines)
        veto = (
            Log(patterns=self.vetoes, blames=by).hit_for(case, taken_back) if taken_back else None
        )
        return () if veto is not None and about_same(hit, veto) else (hit,)

    def _vetoing(self, case: Case, lines: Sequence[LogLine]) -> list[LogLine]:
        """Return the lines of ``vetoes``, without those that stand above a retry in its log."""
        last: dict[str, int] = {}
        for line in lines:
            if not set(self.retries).isdisjoint(line.matched):
                file = line.source.file
                last[file] = max(last.get(file, 0), line.source.line or 0)
        vetoes = case.job.lines_with(self.vetoes)
        return [x for x in vetoes if (x.source.line or 0) > last.get(x.source.file, -1)]

    def hit_for(self, case: Case, lines: list[LogLine]) -> Hit:
        """Fold lines into one hit."""
        blamed = self._whom(case, lines)
        if self.ends_process:
            blamed = _who_ended(case, lines, blamed)
        members = {who: case.job.member_of(who) for who in blamed}
        first = min(lines, key=when_printed)
        of_others = any(
            line.names_whom and line.fields.get("rank") != str(line.who.rank) for line in lines
        )
        many = self.blames is Blames.NAMED and _are_many(case, _ranks(blamed), of_others=of_others)
        fields = _place(members)
        for line in [first, *lines]:
            for key, value in line.fields.items():
                fields.setdefault(key, value)
        for key, words in self.adds.items():
            fields = {**words.get(fields.get(key, ""), {}), **fields}
        return Hit(
            members=tuple(sorted({m.id for m in members.values() if m is not None})),
            ranks=tuple(sorted(_strangers(case, members))),
            names_culprit=bool(blamed) and not many,
            evidence=cite_lines(_spread(lines)),
            collective=_collective(fields),
            fields={**fields, "times": str(sum(line.count for line in lines))},
            at=first.time,
        )

    def _whom(self, case: Case, lines: list[LogLine]) -> list[Who]:
        """Return whom the lines blame; where some name ranks, not who prints the others."""
        if self.blames in {Blames.NAMED, Blames.SPEAKER, Blames.POD}:
            waiters = {line.fields.get("waiter") for line in lines}
            naming = [line for line in lines if line.names_whom]
            blamed = [who for line in naming or lines for who in self._blamed(case, line)]
            named = self.blames is Blames.NAMED
            return [who for who in blamed if not (named and str(who.rank) in waiters)]
        if self.blames is Blames.ENDED:
            return whose_end(case, lines)
        if self.blames is Blames.PEER:
            return peers_of(case, lines)
        if self.blames is Blames.PEER_HOST:
            return on_host_of_peer(case, lines)
        ranks: Iterable[int] = ()
        if self.blames is Blames.HOST:
            ranks = ranks_on(case, (line.fields.get("node") for line in lines))
        elif self.blames is Blames.OTHERS:
            ranks = ranks_of_others(case, lines)
        elif self.blames is Blames.ZERO or (self.blames is Blames.ROOT and names_root(lines)):
            ranks = (0,)
        return [Who(rank=rank) for rank in ranks]

    def _blamed(self, case: Case, line: LogLine) -> Iterator[Who]:
        if self.blames is Blames.NAMED and (using := using_gpu(case, line)):
            yield from using
        elif self.blames is Blames.POD:
            yield from (Who(rank=rank) for rank in ranks_of_pod(case, line.fields.get("pod", "")))
        elif self.blames is Blames.SPEAKER or (self.blames is Blames.NAMED and not line.names_whom):
            yield line.who
        elif self.blames is Blames.NAMED and _counts_all(case, line):
            for rank in ranks_in(line.fields.get("rank", "") + "," + line.fields.get("ranks", "")):
                yield Who(rank=rank)
            if (pid := whole(line.fields.get("pid"))) is not None:
                yield Who(pid=pid, host=line.who.host)


def _who_ended(case: Case, lines: list[LogLine], speakers: list[Who]) -> list[Who]:
    """Return whose end an error was: of those whom launchers saw fail, else of its speakers."""
    ranks = raised_by(case, lines)
    if ranks or printed_by_every_process(case, lines):
        return [Who(rank=rank) for rank in ranks]
    return [] if ended_behind(case, _ranks(speakers)) else speakers


def _counts_all(case: Case, line: LogLine) -> bool:
    """Return whether numbers of ranks in a line are those of the job, not of some group of it."""
    among = line.fields.get("among", "")
    return not among or among == str(case.job.world_size)


def _are_many(case: Case, ranks: set[int], *, of_others: bool) -> bool:
    """Return whether most say so of themselves, or all others than rank 0 are named: none is odd.

    What is said ``of_others`` counts however many they are.
    """
    others = set(range(1, case.job.world_size or len(ranks) + 1))
    most = not of_others and are_most(case, [*ranks])
    return most or (len(others) > 1 and ranks == others)


def _ranks(who: Iterable[Who]) -> set[int]:
    return {each.rank for each in who if each.rank is not None}


def _place(members: Mapping[Who, Member | None]) -> dict[str, str]:
    """Return the one place in groups that is all that is known of who is blamed, as "who"."""
    places = {who.label or "" for who in members if who.rank is None}
    known = len(places) != 1 or any(members.values())
    return {} if known or not GROUP_RANK.match(place := places.pop()) else {"who": place}


def _strangers(case: Case, members: Mapping[Who, Member | None]) -> set[int]:
    """Ranks that a line names and of which there is no evidence at all: often the dead ones.

    By its pid a line names the one rank that was started, or introduced itself, as that process.
    """
    strangers = {who for who, member in members.items() if member is None}
    pids = {who.pid for who in strangers if who.rank is None and who.pid is not None}
    started: dict[int, set[int]] = defaultdict(set)
    for fact in case.job.of(ProcessRank) if pids else ():
        if fact.who.pid in pids:
            started[fact.who.pid].add(fact.rank)
    named = {who.rank for who in strangers if who.rank is not None}
    return named.union(*(ranks for ranks in started.values() if len(ranks) == 1))


def logged(case: Case, *patterns: str, blames: Blames = Blames.NOBODY) -> tuple[Hit, ...]:
    """Return one hit for all log lines that match a pattern, if any do; see ``Log``."""
    return Log(patterns=patterns, blames=blames)(case)


def _spread(lines: Iterable[LogLine]) -> list[LogLine]:
    """Sort lines to quote the first few: the first of each rank before second ones."""
    seen: set[object] = set()
    first: list[LogLine] = []
    rest: list[LogLine] = []
    for line in sorted(lines, key=when_printed):
        key = line.who.rank if line.who.rank is not None else (line.who.pid, line.text)
        (rest if key in seen else first).append(line)
        seen.add(key)
    return first + rest


def _collective(fields: dict[str, str]) -> Collective | None:
    op = fields.get("op")
    if not op:
        return None
    seq = fields.get("seq", "")
    return Collective(
        op=op.lower(), group=fields.get("group"), seq=int(seq) if seq.isdigit() else None
    )
