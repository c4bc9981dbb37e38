"""Matchers over the collective ledger: recorder dumps, watchdog lines, fingerprints, counters."""

from __future__ import annotations

from whyhang.analyzer.case import Case
from whyhang.analyzer.collectives import CallFinding, Verdict
from whyhang.analyzer.collectives.graph import CallRef
from whyhang.analyzer.collectives.groups import COUNTERS, OVERTAKEN, RECORDER
from whyhang.analyzer.facts import Frame, Record, SignOfLife, Who, replace
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.match.log import quote
from whyhang.analyzer.rank_state.ras import ras_lines, snapshot
from whyhang.analyzer.report import Collective, Evidence
from whyhang.analyzer.stacks.usercode import short
from whyhang.analyzer.wording.describe import pid_in_words, ranks_in_words, site_location

MAX_SOURCES = 6
MAX_CALLS = 3
"""Calls that a title names where ranks hold up several."""
"""Mismatches of which the records before tell how they came about."""


SIZES = {"size": "shapes", "dtype": "dtypes"}
"""What one operation can differ in, in the words of a report."""


class Ledger(Record):
    """The ledger came to one of these verdicts, and no other verdict explains it."""

    verdicts: tuple[Verdict, ...]

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit per verdict."""
        return recorded_hits(case, *self.verdicts)


def recorded_hits(case: Case, *verdicts: Verdict) -> tuple[Hit, ...]:
    """Give one hit for each of these verdicts on recorded calls."""
    return tuple(_hit(case, finding) for finding in case.graph.calls.of(*verdicts))


def ledger(*verdicts: Verdict) -> Ledger:
    """Ask for verdicts of the collective ledger."""
    return Ledger(verdicts=verdicts)


class SilentInLog(Record):
    """Ranks wait for others of which one shared log holds no word at all.

    Where every rank writes to one log and all but few of them speak in it, the silent ones
    are the ones to look at; with logs of single ranks, silence is only a missing file. Where
    nothing tells the world size, a single hole in the ranks that speak is as much as is said.
    """

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit per call that waits for few silent ranks of a shared log."""
        if any(track.kind in {RECORDER, OVERTAKEN} for track in case.job.tracks):
            return ()  # every rank has a file of its own
        files = {track.source.file for track in case.job.tracks}
        hits = []
        for finding in case.graph.calls.of(Verdict.WAITS_FOR_ABSENT):
            size = case.job.world_size
            few = len(finding.absent) * FEW <= (size or len(finding.waiting) + 1)
            if few and finding.absent and len(files) == 1:
                hit = _hit(case, replace(finding, culprits=finding.absent))
                strength = hit.strength * (1.0 if size else HOLE)
                hits.append(replace(_with_absent(hit, finding), strength=strength))
        return tuple(hits)


FEW = 4  # one rank in four, and fewer
HOLE = 0.9  # what it counts where the number of ranks is not known


def silent_in_log() -> SilentInLog:
    """Ask for ranks that others wait for and that say nothing; see ``SilentInLog``."""
    return SilentInLog()


class AwaitsUnrecorded(Record):
    """By the recorders there are, ranks wait for such as left no record, or an old one.

    Where all but very few ranks left a dump, those few are a possibility: a rank that died or
    was stopped writes none. Not so where a dump is there and cannot be read.
    """

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit per call."""
        recorders = {t.source.file for t in case.job.tracks if t.kind == RECORDER}
        found = case.graph.calls.of(Verdict.WAITS_FOR_ABSENT)
        few = _very_few(case, {rank for finding in found for rank in finding.absent})
        return tuple(
            _with_absent(
                _hit(case, replace(finding, culprits=finding.absent) if few else finding), finding
            )
            for finding in found
            if any(source.file in recorders for source in finding.sources)
        )


def _very_few(case: Case, absent: set[int]) -> bool:
    """Tell whether these are almost the only ranks of which there is no dump."""
    ranks = {track.who.rank for track in case.job.tracks if track.kind in {RECORDER, OVERTAKEN}}
    known = ranks | {gap.who.rank for gap in case.job.gaps}
    few = 0 < len(absent) <= max(1, len(ranks) // ALL_BUT)
    return few and len(ranks) >= FEWEST and not known & absent


ALL_BUT = 8
FEWEST = 3
"""With fewer dumps than these, one that is missing tells nothing."""


def _with_absent(hit: Hit, finding: CallFinding) -> Hit:
    words = ranks_in_words(finding.absent) if finding.absent else "the other members of the group"
    return replace(hit, fields={**hit.fields, "absent": words})


def awaits_unrecorded() -> AwaitsUnrecorded:
    """Ask for waits on ranks without a record; see ``AwaitsUnrecorded``."""
    return AwaitsUnrecorded()


class SetUp(Record):
    """Some communicator of NCCL was set up: the peers had found each other."""

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit that blames nobody."""
        done = [t for t in case.job.tracks if t.kind == "nccl-init" and t.completed]
        return (Hit(names_culprit=False),) if done else ()


def set_up() -> SetUp:
    """Ask whether a communicator was set up; see ``SetUp``."""
    return SetUp()


class OnlySetUp(Record):
    """Communicators were set up, and nothing is heard of any work with them.

    A job that hangs in its first collective leaves such a log as well as one that goes on.
    """

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit that blames nobody."""
        kinds = {track.kind for track in case.job.tracks}
        lives = case.job.of(SignOfLife)
        return (Hit(names_culprit=False),) if kinds == {"nccl-init"} and not lives else ()


def only_set_up() -> OnlySetUp:
    """Ask whether setting up communicators is all that is heard of; see ``OnlySetUp``."""
    return OnlySetUp()


def _hit(case: Case, finding: CallFinding) -> Hit:
    members, missing = _members(case, finding.culprits)
    affected, _ = _members(case, finding.affected or finding.waiting)
    call = _calls(finding)
    fields = {
        "who": _who(finding),
        "pid": pid_in_words(case, members),
        "is": "are" if len(finding.culprits) > 1 else "is",
        "has": "have" if len(finding.culprits or finding.waiting) > 1 else "has",
        "call": call,
        "others": ranks_in_words(finding.waiting)
        if finding.waiting and (finding.culprits or finding.verdict is not Verdict.STALLED)
        else "the others",
        "wait": "waits" if len(finding.waiting) == 1 else "wait",
        "waiting": f" while {ranks_in_words(finding.waiting)} "
        f"wait{'s' if len(finding.waiting) == 1 else ''} in {call}"
        if finding.waiting
        else "",
        "does": _last(finding),
        "at": f" at {_site(finding.site)}" if finding.site else "",
        "where": _site(finding.site)
        if finding.site
        else ("their last calls" if len(finding.culprits) > 1 else "its last call"),
        "sides": _sides(finding),
        "differ": f"call {finding.call.op} with different {SIZES[finding.field]}"
        if finding.call and finding.call.op and finding.field in SIZES
        else "are out of step"
        if finding.verdict is Verdict.DIVERGED
        else "call different collectives",
        "did": "has" if len(finding.waiting) == 1 else "have",
        "says": finding.says,
    }
    return Hit(
        members=members,
        ranks=missing,
        affected=affected,
        evidence=(*_counted(case, finding), *_evidence(finding)),
        strength=_strength(case, finding),
        names_culprit=bool(finding.culprits) and not finding.tie,
        collective=_collective(finding),
        location=site_location(finding.site),
        fields=fields,
    )


def _who(finding: CallFinding) -> str:
    """Name the culprits; where a call is not finished and nobody is to blame, those inside."""
    if finding.culprits:
        return ranks_in_words(finding.culprits)
    stalled = finding.verdict is Verdict.STALLED and finding.waiting
    return ranks_in_words(finding.waiting) if stalled else "no single rank"


def _members(case: Case, ranks: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Split ranks into members and those that are none."""
    found, missing = [], []
    for rank in ranks:
        member = case.job.member_of(Who(rank=rank))
        if member is None:
            missing.append(rank)
        else:
            found.append(member.id)
    return tuple(sorted(found)), tuple(missing)


def _calls(finding: CallFinding) -> str:
    """Name the call; where several ranks hold up several calls, each with its ranks."""
    if len(finding.parts) < 2:
        return str(finding.call) if finding.call else "a collective"
    named = [
        f"{part.call} ({ranks_in_words(part.culprits)})" for part in finding.parts if part.call
    ]
    more = f" and {len(named) - MAX_CALLS} more" if len(named) > MAX_CALLS else ""
    return " and ".join(named[:MAX_CALLS]) + more


def _last(finding: CallFinding) -> str:
    first = finding.parts[0].culprits if finding.parts else finding.culprits
    alone = len(finding.culprits) == 1
    if finding.missed is not None:
        whose = "its" if alone or not first else f"rank {first[0]}'s"
        return f"{whose} last call was {finding.missed}"
    return f"{'it has' if alone else 'they have'} not enqueued the call"


def _sides(finding: CallFinding) -> str:
    if not finding.sides:
        return finding.says
    sites = {_site(side.site) for side in finding.sides if side.site}
    one = len(sites) == 1 and all(side.site for side in finding.sides)
    sides = " and ".join(
        f"{ranks_in_words(side.ranks)} {side.says}"
        + (f" ({_site(side.site)})" if side.site and not one else "")
        for side in finding.sides
    )
    if one:
        sides += f", at {sites.pop()}"
    shift = finding.shift_says
    return f"{shift[:1].lower()}{shift[1:]}; {sides}" if shift else sides


def _site(frame: Frame | None) -> str:
    if frame is None:
        return "an unknown place"
    line = f":{frame.line}" if frame.line is not None else ""
    return f"{frame.function} ({short(frame.file)}{line})"


def _collective(finding: CallFinding) -> Collective | None:
    call: CallRef | None = finding.call
    if call is None or call.op is None:
        return None
    others = None
    if len(finding.sides) > 1:
        others = "; ".join(f"{ranks_in_words(s.ranks)} {s.says}" for s in finding.sides)
    return Collective(op=call.op, group=call.group or None, seq=call.seq, others=others)


def _strength(case: Case, finding: CallFinding) -> float:
    """Weaken what was concluded, and counts of launches that were read only once."""
    kinds = {track.kind for track in case.job.tracks if track.source in finding.sources}
    late = finding.verdict in {Verdict.NEVER_JOINED, Verdict.STALLED}
    if late and kinds and kinds <= COUNTERS and snapshot(case.job):
        return 0.8
    if finding.unrecorded:
        return 0.5
    guessed = finding.inferred or finding.by_history or finding.verdict is Verdict.DIVERGED
    return 0.85 if guessed else 1.0


def _counted(case: Case, finding: CallFinding) -> tuple[Evidence, ...]:
    """Quote what NCCL's health network counted of the culprits."""
    files = {source.file for source in finding.sources}
    lines = [
        line
        for line in ras_lines(case.job, "behind")
        if line.source.file in files and line.who.rank in finding.culprits
    ]
    return tuple(quote(line) for line in lines[:MAX_SOURCES])


def _evidence(finding: CallFinding) -> tuple[Evidence, ...]:
    """Quote the records that the finding rests on."""
    return tuple(
        Evidence(
            source=quote.source.file, line=quote.source.line, rank=quote.rank, quote=quote.text
        )
        for quote in finding.quotes[:MAX_SOURCES]
    )
