"""What a report says and in which order, before any format.

A report becomes a list of blocks; ``terminal``, ``markdown`` and the HTML page only draw blocks.
The order is that of someone reading under stress: the answer, who stands where, what happened, what
is wrong and why and what to do, where the paths part, what is missing.
"""

import re
import time
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import TypeAlias

from whyhang.analyzer.facts import counted, few, fold, grouped, listed, ranks_in_words
from whyhang.analyzer.report import GpuRow, Location, RankRow, Report, StackGroup
from whyhang.analyzer.reports.blocks import Block, Code, Headline, Items, Para, Section, Table
from whyhang.analyzer.reports.finding import MAX_RANKS, Shown, cut, finding_blocks

MAX_OTHERS = 3
MAX_FRAMES = 14
MAX_GROUPS = 12
MAX_ROWS = 12
MAX_COMMAND = 120
_MEMBERS = re.compile(r" \([^()]*\branks [^()]*\)")
_PEER = re.compile(r"\brank \d+")
_STEP = re.compile(r",? (?:at|in) step -?\d+$")
MAX_PLACES = 2


def page(report: Report, *, full: bool = False) -> list[Block]:
    """Lay a report out as blocks; ``full``: with all that follows from the causes, all evidence."""
    blocks: list[Block] = [Headline(verdict=report.verdict, text=report.headline)]
    chosen = {
        number: finding
        for number, finding in enumerate(report.findings)
        if full or number == 0 or (finding.caused_by is None and finding.kind == "cause")
    }
    shown = Shown()
    culprits = {rank for finding in chosen.values() for rank in finding.culprit_ranks or ()}
    blocks += [*rank_table(report.ranks, culprits), *_story(report, chosen)]
    for number, finding in chosen.items():
        blocks += finding_blocks(number, finding, shown, report.headline, full=full)
    blocks += _others(report, chosen)
    blocks += [*_gpus(report.gpus), *_groups(report.stack_groups)]
    for title, name, items in (
        ("Not known", "gaps", report.gaps),
        ("Notes", "notes", report.notes),
    ):
        blocks += [Section(title=title, name=name), Items(items=items)] if items else []
    # How a report ends: ``collectors/files/own_output.py`` knows it by this.
    wrote = f"by whyhang {report.tool_version}" if report.tool_version else ""
    seen, run = looked_line(report), run_line(report)
    first = job_line(report)
    lines = [first, run, f"{seen} {wrote}"] if seen else [" · ".join(filter(None, [first, wrote]))]
    if any(lines):
        blocks += [Section(title="Job", name="job"), *(Para(text=line) for line in lines if line)]
    return blocks


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
    rest = [finding for n, finding in enumerate(report.findings) if n not in above]
    titles = [f"{finding.title} ({finding.signature})" for finding in rest]
    if not titles:
        return []
    kept, more = titles[:MAX_OTHERS], len(titles) - MAX_OTHERS
    kept += [f"{more} more with --full"] if more > 0 else []
    follows = any(finding.caused_by is not None for finding in report.findings)
    title = "What follows from it" if follows else "Also seen"
    return [Section(title=title, name="others"), Items(items=tuple(kept))]


def _gpus(rows: tuple[GpuRow, ...]) -> list[Block]:
    """Show the GPUs that decide something, beside the ranks that use them."""
    if not rows:
        return []
    lines = [(fold(row.ranks), row.use, row.power, row.name, cut(row.says, 60)) for row in rows]
    table = Table(columns=("ranks", "use", "power", "gpu", ""), rows=tuple(lines))
    return [Section(title="GPUs", name="gpus"), table.filled()]


def _groups(groups: tuple[StackGroup, ...]) -> list[Block]:
    blocks: list[Block] = []
    if groups:
        blocks.append(Section(title="Stacks, innermost frame first", name="stacks"))
    for group in groups[:MAX_GROUPS]:
        label = ranks_in_words(group.ranks) if group.ranks else ""
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
    if more := len(groups[MAX_GROUPS:]):
        be = "s are" if more > 1 else " is"
        blocks.append(Para(text=f"{more} more group{be} in the JSON report."))
    return blocks


BY_HAND = "hand, with RANK and WORLD_SIZE set"


def job_line(report: Report) -> str:
    """Name in one line what is known of the job as a whole."""
    job = report.job
    parts = [counted(job.world_size, "rank")] if job.world_size else []
    if job.hosts:
        many = f" ({len(job.hosts):,} hosts)" if len(job.hosts) > 4 else ""
        parts.append(f"on {listed(job.hosts, 4)}{many}")
    known = {
        "launched by": BY_HAND if job.launcher == "env" else job.launcher,
        "backend": job.backend,
        "torch": job.torch_version,
        "NCCL": job.nccl_version,
    }
    return " · ".join([*parts, *(f"{label} {value}" for label, value in known.items() if value)])


def run_line(report: Report) -> str:
    """Name the run, and what its ranks were started with."""
    job = report.job
    started = f"started as {cut(job.command, MAX_COMMAND)}" if job.command else ""
    return " · ".join(filter(None, [job.run_id or "", started]))


def looked_line(report: Report) -> str:
    """Say when the processes of the job were looked at; empty where none were."""
    at = report.captured
    if at is None:
        return ""
    lasted = at.last - at.first
    within = f" in {lasted:.{0 if lasted >= 10 else 1}f} s" if at.looks > 1 else ""
    first = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at.first))
    return f"looked at {first} UTC, {counted(at.looks, 'look')}{within},"


def rank_table(rows: tuple[RankRow, ...], culprits: Collection[int]) -> list[Block]:
    """Fold ranks that are in the same state at the same place into one row.

    Culprits stand above, those that wait for others below the rest. Where there are many rows,
    those become one that differ only in the place, then those that differ only in the step, then in
    which of several groups of one kind they are.
    """
    folded: dict[_Alike, list[RankRow]] = grouped(
        rows, lambda r: (r.rank in culprits, r.state, activity_of(r), _where(r.location))
    )
    for shorten in (str, _at_any_step, _of_any_group):
        if len(folded) > MAX_ROWS:
            folded = _by_activity(folded, shorten)
    if not folded:
        return []
    ordered = sorted(folded.items(), key=lambda item: (not item[0][0], item[0][1] == "waiting"))
    lines = [(who(members), *alike[1:]) for alike, members in ordered]
    columns = ("ranks", "state", "activity", "in the user's code")
    blocks: list[Block] = [
        Section(title="Ranks", name="ranks"),
        Table(columns=columns, rows=tuple(lines[:MAX_ROWS])),
    ]
    if len(lines) > MAX_ROWS:
        blocks.append(Para(text=f"{len(lines) - MAX_ROWS} more rows are in the JSON report."))
    return blocks


def activity_of(row: RankRow) -> str:
    """Say what a rank does, and at which step, if it noted that."""
    known = row.step is None or _at_any_step(row.activity) != row.activity
    return row.activity if known else f"{row.activity}, at step {row.step}"


def _at_any_step(activity: str) -> str:
    return _STEP.sub("", activity)


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
    places: dict[tuple[bool, str, str], set[str]] = defaultdict(set)
    for culprit, state, activity, where in folded:
        places[culprit, state, shorten(activity)].add(where)
    fewer: dict[_Alike, list[RankRow]] = defaultdict(list)
    for (culprit, state, activity, where), members in folded.items():
        count = len(places[culprit, state, shorten(activity)])
        shown = where if count <= MAX_PLACES else f"{count} places"
        fewer[culprit, state, shorten(activity), shown] += members
    return fewer


def culprit_hosts(report: Report) -> list[str]:
    """Return the hosts of the ranks to look at first, as far as they are known."""
    culprits = {rank for finding in report.findings[:1] for rank in finding.culprit_ranks or ()}
    hosts = (row.host for row in report.ranks if row.rank in culprits)
    return list(dict.fromkeys(host for host in hosts if host))


def who(rows: list[RankRow]) -> str:
    """Name a group of rows: folded ranks first, then those without a number."""
    ranks = few((row.rank for row in rows if row.rank is not None), MAX_RANKS)
    names = [row.name for row in rows if row.rank is None]
    if len(names) > 3:
        names = [*names[:2], f"{len(names) - 2} more"]
    return ", ".join(part for part in (ranks, *names) if part)
