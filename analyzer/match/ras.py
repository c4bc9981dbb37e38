"""Matchers over NCCL's health network (RAS): who is missing, and what its counts prove."""

from __future__ import annotations

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import LogLine, Record
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.match.log import MAX_QUOTES, quote
from whyhang.analyzer.rank_state.ras import ras_lines


class Ras(Record):
    """A RAS report says one of these words of a process or rank.

    "dead", "unresponsive", "left", "starting", "leaving", "error", "remote", "aborted",
    "timeouts" are its own; "ahead" (few ranks launched what most have not), "diverged" (counts
    that no common order explains), "even" and "none" are read off its counts. ``named``: the
    processes that it speaks of are the ones to look at.
    """

    states: tuple[str, ...]
    named: bool

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for all ranks of which it is said; of several reports the last counts."""
        lines = ras_lines(case.job, *self.states)
        if not lines:
            return ()
        members = {line.who: case.job.member_of(line.who) for line in lines}
        known = {member.id for member in members.values() if member is not None}
        ranks = {w.rank for w, m in members.items() if m is None and w.rank is not None}
        first = lines[0]
        everyone = all(m is not None or w.rank is not None for w, m in members.items())
        return (
            Hit(
                members=tuple(sorted(known)),
                ranks=tuple(sorted(ranks)),
                names_culprit=self.named and everyone and bool(known or ranks),
                evidence=tuple(quote(line) for line in lines[:MAX_QUOTES]),
                fields={
                    **first.fields,
                    "pid": first.fields["process"],
                    "processes": _processes(lines),
                    "times": str(len(lines)),
                },
            ),
        )


def ras(*states: str, named: bool = True) -> Ras:
    """Ask what RAS says of ranks; see ``Ras``."""
    return Ras(states=states, named=named)


def _processes(lines: list[LogLine]) -> str:
    """Name processes: "process 48213 on 10.1.0.4 (GPU 5)"."""
    told = {
        f"process {line.fields['process']} on {line.fields['node']} (GPU {line.fields['gpu']})"
        for line in lines
        if line.fields["process"] != "?"
    }
    if not told:
        numbers = {line.fields.get("number", "?") for line in lines}
        return f"rank {', '.join(sorted(numbers))} of {lines[0].fields.get('comm', 'the job')}"
    shown = sorted(told)
    return ", ".join(shown[:3]) + (f" and {len(shown) - 3} more" if len(shown) > 3 else "")
