"""Matchers over what the processes were started with: ranks, sizes, addresses."""

from __future__ import annotations

from collections import Counter, defaultdict

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import InitArguments, Process, Record
from whyhang.analyzer.findings.signature import CLEAR, INCOMPLETE, Hit
from whyhang.analyzer.job.records import Member
from whyhang.analyzer.match.states import has_met, waiters_for
from whyhang.analyzer.report import Evidence
from whyhang.analyzer.stacks import WaitKind
from whyhang.analyzer.wording.describe import (
    evidence_of,
    location_of,
    ranks_in_words,
    subject_fields,
)


class SameRank(Record):
    """More than one living process says to be the same rank."""

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for all ranks that are claimed twice; the number is to blame."""
        told = {
            fact.who.pid: fact.rank for fact in case.job.of(InitArguments) if fact.rank is not None
        }
        claims: dict[int, list[Member]] = defaultdict(list)
        for member in case.job.members:
            rank = told.get(member.pid, member.rank)
            if rank is not None and member.processes:
                claims[rank].append(member)
        twice = {rank: members for rank, members in sorted(claims.items()) if len(members) > 1}
        if not twice:
            return ()
        members = [member for same in twice.values() for member in same]
        listed = {r: " and ".join(str(m.pid) for m in same) for r, same in twice.items()}
        pids = "; ".join(f"rank {r}: {pids}" for r, pids in listed.items())
        fields = subject_fields(case, [case.states[m.id] for m in members], waiters_for(case))
        fields["who"] = ranks_in_words(twice)
        missing = [rank for rank in range(case.job.world_size or 0) if rank not in claims]
        fields["pids"] = pids if len(twice) > 1 else f"pids {next(iter(listed.values()))}"
        fields["is"] = "are" if len(twice) > 1 else "is"
        fields["missing"] = f"; nobody is {ranks_in_words(missing)}" if missing else ""
        fields["starts"] = (
            " Several ranks are there twice, as if the job had been started twice on one port."
            if len(twice) > 1
            else ""
        )
        apart = all(_apart(same) for same in twice.values())
        if apart:
            fields["starts"] = (
                " They did not live at one time: the evidence is of several runs. "
                "Give whyhang what belongs to one run."
            )
        return (
            Hit(
                members=tuple(member.id for member in members),
                affected=tuple(n for n in waiters_for(case) if n not in {m.id for m in members}),
                ranks=tuple(twice),
                names_culprit=not apart,
                evidence=tuple(
                    _joined(m, told[m.pid])
                    if m.pid in told and told[m.pid] != m.rank
                    else _said(m.processes[-1], ("RANK", "WORLD_SIZE"))
                    for m in members
                ),
                fields=fields,
            ),
        )


def _apart(members: list[Member]) -> bool:
    """Tell whether one process was last seen before another began: two runs, not one job."""
    last = [member.processes[-1] for member in members]
    seen = [process.taken_at for process in last if process.taken_at is not None]
    begun = [process.started_at for process in last if process.started_at is not None]
    return bool(seen and begun) and min(seen) < max(begun)


def _joined(member: Member, rank: int) -> Evidence:
    process = member.processes[-1]
    return Evidence(
        source=process.source.file,
        line=process.source.line,
        rank=member.rank,
        quote=f"pid {member.pid}: init_process_group(rank={rank})",
    )


def same_rank() -> SameRank:
    """Ask for processes that claim one rank."""
    return SameRank()


class Differs(Record):
    """While the job starts, few ranks were given other values than the rest.

    ``keys`` are the environment variables that must agree; the fewest are blamed, a tie names
    nobody.
    """

    keys: tuple[str, ...]

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for the members that differ from the most."""
        if not any(m.kind is WaitKind.INIT for m in case.graph.operations):
            return ()
        values = {
            member.id: tuple(member.processes[-1].environ.get(key, "") for key in self.keys)
            for member in case.job.members
            if member.processes and self.keys[0] in member.processes[-1].environ
        }
        counts = Counter(values.values()).most_common()
        if len(counts) < 2:
            return ()
        usual, most = counts[0]
        tie = counts[1][1] == most
        odd = tuple(number for number, value in values.items() if value != usual)
        shown = [case.member(number) for number in odd[:3]]
        shown.append(next(case.member(n) for n, value in values.items() if value == usual))
        fields = subject_fields(case, [case.states[n] for n in odd], waiters_for(case))
        fields |= {
            "theirs": _values(self.keys, values[odd[0]]),
            "usual": _values(self.keys, usual),
        }
        evidence = [_said(member.processes[-1], self.keys) for member in shown]
        return (
            Hit(
                members=odd,
                affected=tuple(n for n in waiters_for(case) if n not in odd),
                evidence=(*evidence, *evidence_of(case, case.states[odd[0]])[:1]),
                names_culprit=not tie,
                location=location_of(case, case.states[odd[0]]),
                fields=fields,
            ),
        )


def differs(*keys: str) -> Differs:
    """Ask for ranks that were started with other values of these variables."""
    return Differs(keys=keys)


class Generations(Record):
    """Ranks that were started anew wait in their start for ranks that were not.

    ``TORCHELASTIC_RESTART_COUNT`` differs between them. Ranks of the old start that are through
    init_process_group do not come to it again. Where they wait in it, too, nobody is to blame,
    and it is less sure: some versions of torch give each start keys of its own, 2.13 does not.
    """

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for those of the old start; why the new one began is in their logs."""
        waits = {n for m in case.graph.operations if m.kind is WaitKind.INIT for n in m.members}
        counts = {
            member.id: int(count)
            for member in case.job.members
            if member.processes
            and (count := member.processes[-1].environ.get(RESTARTS, "")).isdecimal()
        }
        newest = max(counts.values(), default=0)
        new = tuple(n for n, count in counts.items() if count == newest and n in waits)
        older = [n for n, count in counts.items() if count < newest]
        stuck = any(number in waits for number in older)
        old = tuple(n for n in older if n in waits or has_met(case.member(n)))
        if not new or not old:
            return ()
        states = [case.states[number] for number in old]
        fields = subject_fields(case, states, new)
        fields["new"] = str(newest)
        fields["old"] = ", ".join(sorted({str(counts[number]) for number in old}))
        shown = [case.member(number) for number in (*old[:3], *new[:2])]
        return (
            Hit(
                members=old,
                affected=new,
                strength=INCOMPLETE if stuck else CLEAR,
                names_culprit=not stuck,
                evidence=(
                    *(_said(member.processes[-1], ("RANK", RESTARTS)) for member in shown),
                    *evidence_of(case, states[0]),
                ),
                location=location_of(case, states[0]),
                fields=fields,
            ),
        )


RESTARTS = "TORCHELASTIC_RESTART_COUNT"


def generations() -> Generations:
    """Ask for ranks of an old start that those of a new one wait for."""
    return Generations()


def _values(keys: tuple[str, ...], values: tuple[str, ...]) -> str:
    return " ".join(f"{key}={value}" for key, value in zip(keys, values, strict=True))


def _said(process: Process, keys: tuple[str, ...]) -> Evidence:
    found = " ".join(f"{key}={process.environ[key]}" for key in keys if key in process.environ)
    return Evidence(
        source=process.source.file,
        line=process.source.line,
        rank=process.who.rank,
        quote=f"pid {process.who.pid}: {found or process.command or 'names no rank'}",
    )
