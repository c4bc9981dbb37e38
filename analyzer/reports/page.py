"""What a report says and in which order, before any format: the one renderer of a finding.

A report becomes a list of blocks; ``terminal`` and ``markdown`` only draw blocks. The order is
that of someone reading under stress: the answer, who stands where, what happened, what is wrong
and why and what to do, where the paths part, what is missing. A line of evidence is quoted once;
what follows from a cause is one line each, unless all of it is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

from whyhang.analyzer.facts import Record, counted, few, fold
from whyhang.analyzer.report import (
    Collective,
    Evidence,
    Finding,
    GpuRow,
    Location,
    RankRow,
    Report,
    StackGroup,
)

NO_COLLECTIVES = {"send", "recv", "isend", "irecv", "comm_init"}
"""Calls of two ranks, or of the set-up."""

MAX_EVIDENCE = 4
MAX_OTHERS = 3
MAX_QUOTE = 240
MAX_FRAMES = 14
MAX_GROUPS = 12
MAX_ROWS = 12
_MEMBERS = re.compile(r" \([^()]*\branks [^()]*\)")
_PEER = re.compile(r"\brank \d+")
MAX_PLACES = 2
MAX_RANKS = 5


class Headline(Record):
    """The first line: the verdict as one word and the whole diagnosis as one sentence."""

    verdict: str
    text: str


class Section(Record):
    """A heading. ``level`` 1 is a part of the report, 2 a finding, 3 a part of a finding.

    ``name`` says which part it is, for faces that place or link to it.
    """

    title: str
    level: int = 1
    name: str = ""


class Para(Record):
    """Running text."""

    text: str


class Items(Record):
    """A bulleted list of sentences."""

    items: tuple[str, ...]


class Commands(Record):
    """Commands or checks to run, one a line."""

    items: tuple[str, ...]


class Code(Record):
    """Source lines or stack frames, verbatim."""

    lines: tuple[str, ...]


class Table(Record):
    """Rows of short texts."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Quotes(Record):
    """Evidence: (where it stands, its words); ``cited`` has file and line of each."""

    items: tuple[tuple[str, str], ...]
    cited: tuple[tuple[str, int | None], ...] = ()


Block: TypeAlias = Headline | Section | Para | Items | Commands | Code | Table | Quotes


def page(report: Report, *, full: bool = False) -> list[Block]:
    """Lay a report out as blocks; ``full``: with all that follows from the causes, all evidence."""
    blocks: list[Block] = [Headline(verdict=report.verdict, text=report.headline)]
    chosen = {
        number: finding
        for number, finding in enumerate(report.findings)
        if full or number == 0 or (finding.caused_by is None and finding.kind == "cause")
    }
    shown = _Shown()
    culprits = {rank for finding in chosen.values() for rank in finding.culprit_ranks or ()}
    blocks += [*_ranks(report.ranks, culprits), *_story(report, chosen)]
    for number, finding in chosen.items():
        blocks += _finding(number, finding, shown, report.headline, full=full)
    blocks += _others(report, chosen)
    blocks += [*_gpus(report.gpus), *_groups(report.stack_groups)]
    if report.gaps:
        blocks += [Section(title="Not known", name="gaps"), Items(items=report.gaps)]
    if report.notes:
        blocks += [Section(title="Notes", name="notes"), Items(items=report.notes)]
    facts = job_facts(report)
    if facts:
        blocks += [Section(title="Job", name="job"), Para(text=facts)]
    return blocks


class _Shown:
    """What stands above on the page, and need not stand there twice."""

    def __init__(self) -> None:
        self.places: set[tuple[str, ...]] = set()
        self.pieces: set[Evidence] = set()


def _story(report: Report, chosen: Collection[int]) -> list[Block]:
    """Show what happened, in order, with the number of the finding that says more of it."""
    if not report.story:
        return []
    span = max((event.seconds or 0 for event in report.story), default=0)
    timed = any(event.seconds is not None for event in report.story)
    rows = []
    for event in report.story:
        finding = event.finding if event.finding in chosen else None
        says = event.says if finding is None else f"{event.says} ({finding + 1})"
        where = event.source if event.line is None else f"{event.source}:{event.line}"
        where += f" (+{event.lines - 1})" if event.lines > 1 else ""
        row = (_after(event.seconds, span), few(event.ranks, MAX_RANKS), says, where)
        rows.append(row[not timed :])
    columns = ("time", "ranks", "event", "read in")[not timed :]
    return [Section(title="What happened", name="story"), Table(columns=columns, rows=tuple(rows))]


def _after(seconds: float | None, span: float) -> str:
    """Format a time after the first event, as exactly as the span of all of them asks for."""
    if seconds is None:
        return ""
    if span < 60:
        return f"+{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"+{hours}:{minutes:02}:{rest:02}" if hours else f"+{minutes}:{rest:02}"


def _others(report: Report, chosen: Collection[int]) -> list[Block]:
    """List in a line each what is not shown whole and is no event of the story."""
    above = {*chosen, *(event.finding for event in report.story)}
    titles = [
        f"{finding.title} ({finding.signature})"
        for number, finding in enumerate(report.findings)
        if number not in above
    ]
    if not titles:
        return []
    kept, more = titles[:MAX_OTHERS], len(titles) - MAX_OTHERS
    kept += [f"{more} more with --full"] if more > 0 else []
    follows = any(finding.caused_by is not None for finding in report.findings)
    title = "What follows from it" if follows else "Also seen"
    return [Section(title=title, name="others"), Items(items=tuple(kept))]


def _finding(
    number: int, finding: Finding, shown: _Shown, headline: str, *, full: bool
) -> list[Block]:
    """Lay one finding out. What stands above is not said again."""
    heading, name = known(finding), f"finding-{number + 1}"
    blocks: list[Block] = (
        [Section(title=f"{number + 1}. {heading}", level=2, name=name)]
        if headline.rstrip(".") == finding.title
        else [
            Section(title=f"{number + 1}. {finding.title}", level=2, name=name),
            Para(text=heading),
        ]
    )
    explanation = finding.explanation.removeprefix(f"{finding.title}.").strip()
    if explanation:
        blocks.append(Para(text=explanation))
    if finding.collective is not None:
        blocks.append(Para(text=_collective(finding.collective)))
    if finding.location is not None:
        lines = (place_line(finding.location), *finding.location.excerpt)
        blocks += [
            Section(title="Where", level=3, name="where"),
            Code(lines=lines[:1] if lines in shown.places else lines),
        ]
        shown.places.add(lines)
    if not full:
        title = _words(finding.title)
        shown.pieces.update(p for p in finding.evidence if _words(p.quote) in title)
    blocks += _evidence(finding.evidence, shown, full=full)
    if finding.caused_by is None:
        if finding.remedies:
            blocks += [Section(title="Do now", level=3, name="now"), Items(items=finding.remedies)]
        if finding.next_steps:
            blocks += [
                Section(title="To confirm", level=3, name="confirm"),
                Commands(items=finding.next_steps),
            ]
        if finding.owner:
            blocks.append(Para(text=f"Owner: {finding.owner}"))
        if finding.runbook_url:
            blocks.append(Para(text=f"Runbook: {finding.runbook_url}"))
    return blocks


_INCIDENTAL = re.compile(
    r"0x[0-9a-f]+"  # addresses, threads
    r"|\b\d{4}[-/]\d\d[-/]\d\d\b|\b[EWIF]\d{4}(?=\s\d)|\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?"  # times
    r"|\b\d+(?:\.\d+)?(?=\s?(?:ms|milliseconds|s|sec|seconds|context switches)\b)"
    r"|(?<=\bpid[ =:])\s?\d+|(?<=\bprocess )\d+|(?<=\brecord )\d+"
    r"|(?<=\w):\d+:\d+(?= \[)"  # NCCL's host:pid:thread
    r"|\b[\d.]+:\d+(?= -> )",  # the near end of a connection
    re.IGNORECASE,
)
"""What differs between lines that say the same; other numbers may be what is wrong."""


def _words(text: str) -> str:
    return " ".join(text.split())


def alike_key(piece: Evidence) -> str:
    """Return the same text for pieces that differ in times, processes and whose they are only."""
    text = _INCIDENTAL.sub("0", piece.quote)
    if piece.rank is None:
        return text
    own = rf"(?:(?<=\brank)|(?<=\brank[ =:])){piece.rank}\b"
    return re.sub(own, "0", text, flags=re.IGNORECASE)


def _evidence(pieces: Sequence[Evidence], shown: _Shown, *, full: bool) -> list[Block]:
    """Quote evidence that does not stand above; of lines alike but for whose they are one."""
    alike: dict[str, list[Evidence]] = {}
    for piece in pieces:
        alike.setdefault(piece.quote if full else alike_key(piece), []).append(piece)
    rows = []
    for same in alike.values():
        new = [piece for piece in same if piece not in shown.pieces]
        if new:  # quote one that is new; ranks and the count are those of all
            rows.append(list(dict.fromkeys((new[0], *same))))
    shown.pieces.update(pieces)
    if not rows:
        return []
    kept = rows if full else rows[:MAX_EVIDENCE]
    more = sum(map(len, rows[len(kept) :]))
    title = "Evidence" if not more else f"Evidence ({more} more with --full)"
    quotes = [(places_of(same), cut(same[0].quote)) for same in kept]
    cited = tuple((same[0].source, same[0].line) for same in kept)
    return [
        Section(title=title, level=3, name="evidence"),
        Quotes(items=tuple(quotes), cited=cited),
    ]


KINDS = {
    "cause": "cause",
    "consequence": "an effect; the cause is not known",
    "noise": "harmless",
}


def known(finding: Finding) -> str:
    """Return in one line what a finding is, how sure, and whether it is the cause."""
    name = finding.signature
    if finding.category != name:
        name += f" ({finding.category})"
    kind = KINDS[finding.kind]
    if finding.caused_by is not None:
        kind = f"effect of {finding.caused_by + 1}"
    return f"{name} · {sureness(finding.confidence)} · {kind}"


def sureness(confidence: float) -> str:
    """Format a confidence in a word and a figure; certain is 0.9 and more, likely 0.5."""
    word = "certain" if confidence >= 0.9 else "likely" if confidence >= 0.5 else "possible"
    return f"{word} ({confidence:.0%})"


def cut(text: str, size: int = MAX_QUOTE) -> str:
    """Shorten a quote to a readable size, saying that it was cut."""
    return text if len(text) <= size else text[: size - 2] + " …"


def is_command(item: str) -> bool:
    """Return whether an item is a command; a sentence starts with a capital letter."""
    return not item[:1].isupper()


def _collective(call: Collective) -> str:
    text = f"{'Call' if call.op in NO_COLLECTIVES else 'Collective'}: {call.op}"
    if call.seq is not None:
        text += f" #{call.seq}"
    if call.group:
        text += f" of {call.group}"
    if not call.others:
        return text
    named = call.others.startswith("rank")  # who called what, on all sides
    return f"{text}; {call.others}" if named else f"{text}; the others called {call.others}"


def place_line(location: Location) -> str:
    """Name a place in one line: "step (train.py:40)"."""
    line = f":{location.line}" if location.line is not None else ""
    where = f"{location.file}{line}"
    return f"{location.function} ({where})" if location.function else where


def places_of(alike: list[Evidence]) -> str:
    """Say where a line was read, and of which ranks and how often there are others like it."""
    piece = alike[0]
    where = piece.source if piece.line is None else f"{piece.source}:{piece.line}"
    where += f" and {len(alike) - 1} more" if len(alike) > 1 else ""
    ranks = {each.rank for each in alike if each.rank is not None}
    if not ranks:
        return where
    return f"rank{'s' if len(ranks) > 1 else ''} {few(ranks, MAX_RANKS)} · {where}"


def _ranks(rows: tuple[RankRow, ...], culprits: Collection[int]) -> list[Block]:
    """Fold ranks that are in the same state at the same place into one row.

    Culprits stand above, those that wait for others below the rest. Where there are many rows,
    those become one that differ only in the place, then those that differ only in which of several
    groups of one kind they are in.
    """
    folded: dict[_Alike, list[RankRow]] = {}
    for row in rows:
        alike = (row.rank in culprits, row.state, row.activity, _where(row.location))
        folded.setdefault(alike, []).append(row)
    if len(folded) > MAX_ROWS:
        folded = _by_activity(folded, str)
    if len(folded) > MAX_ROWS:
        folded = _by_activity(folded, _of_any_group)
    if not folded:
        return []
    lines = [
        (who(members), state, activity, where)
        for (_, state, activity, where), members in sorted(
            folded.items(), key=lambda item: (not item[0][0], item[0][1] == "waiting")
        )
    ]
    blocks: list[Block] = [
        Section(title="Ranks", name="ranks"),
        Table(
            columns=("ranks", "state", "activity", "in the user's code"),
            rows=tuple(lines[:MAX_ROWS]),
        ),
    ]
    if len(lines) > MAX_ROWS:
        blocks.append(Para(text=f"{len(lines) - MAX_ROWS} more rows are in the JSON report."))
    return blocks


def _where(location: Location | None) -> str:
    """Write a place for a narrow column: of the file its name alone."""
    if location is None:
        return ""
    function = f"{location.function} " if location.function else ""
    line = f":{location.line}" if location.line is not None else ""
    return f"{function}({location.file.rpartition('/')[2]}{line})"


def _of_any_group(activity: str) -> str:
    """Leave out which of several process groups of one kind, and which peer."""
    return _PEER.sub("a rank", _MEMBERS.sub("", activity))


_Alike: TypeAlias = tuple[bool, str, str, str]
"""Whether it is a culprit, its state, activity and place: what ranks of one row share."""


def _by_activity(
    folded: dict[_Alike, list[RankRow]], shorten: Callable[[str], str]
) -> dict[_Alike, list[RankRow]]:
    """Put the rows of one state and activity together that stand at more than a few places."""
    places: dict[tuple[bool, str, str], dict[str, None]] = {}
    for culprit, state, activity, where in folded:
        places.setdefault((culprit, state, shorten(activity)), {})[where] = None
    fewer: dict[_Alike, list[RankRow]] = {}
    for (culprit, state, activity, where), members in folded.items():
        count = len(places[culprit, state, shorten(activity)])
        shown = where if count <= MAX_PLACES else f"{count} places"
        fewer.setdefault((culprit, state, shorten(activity), shown), []).extend(members)
    return fewer


def _gpus(rows: tuple[GpuRow, ...]) -> list[Block]:
    """Show the GPUs that decide something, beside the ranks that use them."""
    if not rows:
        return []
    named = ("ranks", "use", "power", "gpu", "")
    lines = [(fold(row.ranks), row.use, row.power, row.name, cut(row.says, 60)) for row in rows]
    kept = [n for n in range(len(named)) if any(line[n] for line in lines)]
    return [
        Section(title="GPUs", name="gpus"),
        Table(
            columns=tuple(named[n] for n in kept),
            rows=tuple(tuple(line[n] for n in kept) for line in lines),
        ),
    ]


def who(rows: list[RankRow]) -> str:
    """Name a group of rows: folded ranks first, then those without a number."""
    ranks = few((row.rank for row in rows if row.rank is not None), MAX_RANKS)
    names = [row.name for row in rows if row.rank is None]
    if len(names) > 3:
        names = [*names[:2], f"{len(names) - 2} more"]
    return ", ".join(part for part in (ranks, *names) if part)


def _groups(groups: tuple[StackGroup, ...]) -> list[Block]:
    if not groups:
        return []
    blocks: list[Block] = [Section(title="Stacks, innermost frame first", name="stacks")]
    for group in groups[:MAX_GROUPS]:
        ranks = few(group.ranks)
        label = f"{'ranks' if len(group.ranks) > 1 else 'rank'} {ranks}" if ranks else ""
        label = ", ".join(part for part in (label, *group.names) if part)
        if group.thread != "main":
            label += f", {group.thread}"
        if group.waits_for:
            label += f" · {group.waits_for}"
        frames = group.frames
        if len(frames) > MAX_FRAMES:
            hidden = len(frames) - MAX_FRAMES + 1
            frames = (*frames[: MAX_FRAMES - 4], f"… {hidden} more frames …", *frames[-3:])
        blocks += [Section(title=label, level=3), Code(lines=frames)]
    if len(groups) > MAX_GROUPS:
        more = len(groups) - MAX_GROUPS
        blocks.append(
            Para(text=f"{more} more group{'s are' if more > 1 else ' is'} in the JSON report.")
        )
    return blocks


def job_facts(report: Report) -> str:
    """Name in one line what is known of the job as a whole."""
    job = report.job
    parts = []
    if job.world_size:
        parts.append(counted(job.world_size, "rank"))
    if job.hosts:
        many = f", … ({len(job.hosts):,} hosts)" if len(job.hosts) > 4 else ""
        parts.append(f"on {', '.join(job.hosts[:4])}{many}")
    for label, value in (
        ("launched by", job.launcher),
        ("backend", job.backend),
        ("torch", job.torch_version),
        ("NCCL", job.nccl_version),
    ):
        if value:
            parts.append(f"{label} {value}")
    return " · ".join(parts)
