"""What NCCL's health network (RAS) reports: who is missing, and what its counts prove."""

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import LogLine
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.queries.evidence import cite_line
from whyhang.analyzer.rank_state.ras import ras_lines

MAX_QUOTES = 6


def ras_reported(case: Case, *states: str, named: bool = True) -> tuple[Hit, ...]:
    """Return one hit for all ranks of which a RAS report says one of these words, if any.

    "dead", "unresponsive", "left", "starting", "leaving", "error", "remote", "aborted",
    "timeouts" are its own; "ahead" (few ranks launched what most have not), "diverged" (counts
    that no common order explains), "even" and "none" are read off its counts. ``named``: the
    processes that it speaks of are the ones to look at. Of several reports the last counts.
    """
    lines = ras_lines(case.job, *states)
    if not lines:
        return ()
    members = {line.who: case.job.member_of(line.who) for line in lines}
    known = {member.id for member in members.values() if member is not None}
    ranks = {w.rank for w, m in members.items() if m is None and w.rank is not None}
    everyone = all(m is not None or w.rank is not None for w, m in members.items())
    hit = Hit(
        members=tuple(sorted(known)),
        ranks=tuple(sorted(ranks)),
        names_culprit=named and everyone and bool(known or ranks),
        evidence=tuple(cite_line(line) for line in lines[:MAX_QUOTES]),
        fields={
            **lines[0].fields,
            "pid": lines[0].fields["process"],
            "processes": _processes(lines),
            "times": str(len(lines)),
        },
    )
    return (hit,)


def _processes(lines: list[LogLine]) -> str:
    """Name processes: "process 48213 on 10.1.0.4 (GPU 5)"."""
    processes = {
        f"process {line.fields['process']} on {line.fields['node']} (GPU {line.fields['gpu']})"
        for line in lines
        if line.fields["process"] != "?"
    }
    if not processes:
        numbers = {line.fields.get("number", "?") for line in lines}
        return f"rank {', '.join(sorted(numbers))} of {lines[0].fields.get('comm', 'the job')}"
    shown = sorted(processes)
    return ", ".join(shown[:3]) + (f" and {len(shown) - 3} more" if len(shown) > 3 else "")
