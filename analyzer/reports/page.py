"""What a report says and in which order, before any format.

A report becomes a list of blocks; ``terminal``, ``markdown`` and the HTML page only draw blocks.
The order is that of someone reading under stress: the answer, who stands where, what happened, what
is wrong and why and what to do, where the paths part, what is missing.
"""

from collections.abc import Collection

from whyhang.analyzer.facts import counted, few, fold
from whyhang.analyzer.report import GpuRow, Report, StackGroup
from whyhang.analyzer.reports.blocks import Block, Code, Headline, Items, Para, Section, Table
from whyhang.analyzer.reports.finding import MAX_RANKS, Shown, cut, finding_blocks
from whyhang.analyzer.reports.rank_rows import rank_table

MAX_OTHERS = 3
MAX_FRAMES = 14
MAX_GROUPS = 12


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
    if report.gaps:
        blocks += [Section(title="Not known", name="gaps"), Items(items=report.gaps)]
    if report.notes:
        blocks += [Section(title="Notes", name="notes"), Items(items=report.notes)]
    # How a report ends: ``collectors/files/own_output.py`` knows it by this.
    wrote = f"by whyhang {report.tool_version}" if report.tool_version else ""
    facts = " · ".join(filter(None, [job_line(report), wrote]))
    if facts:
        blocks += [Section(title="Job", name="job"), Para(text=facts)]
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


def job_line(report: Report) -> str:
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
