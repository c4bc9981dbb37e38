"""Two processes say that they are the same rank.

A launch script that counts wrongly, two copies of a job on one port, SLURM_PROCID next to
RANK: the number that is claimed twice is missing elsewhere, and init_process_group waits for
the missing one.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import MAX_RANKS, LogTail, Source
from whyhang.analyzer.job.records import Member
from whyhang.analyzer.queries import Case, Hit, Signature, cite

MAX_QUOTES = 4
_SAYS_RANK = re.compile(
    r"(?<![A-Za-z_])(?:(?:global|world)[_ ])?(?:rank|task|process|proc)[ =:#]{1,2}"
    r"(?P<rank>\d{1,6})\b",
    re.IGNORECASE,
)
_OF = re.compile(r"(?:\bof|/|world[_ ]?size[ =:]{1,2}) ?(?P<size>\d{1,6})\b", re.IGNORECASE)
"""Behind its own rank a process says how many there are."""


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for all ranks that are claimed twice; the number is to blame."""
    given = {m.id: f.rank for m, f in case.job.init_arguments() if f.rank is not None}
    claims: dict[int, list[Member]] = defaultdict(list)
    for member in case.job.members:
        rank = given.get(member.id, member.rank)
        if rank is not None and member.processes:
            claims[rank].append(member)
    twice = {rank: members for rank, members in sorted(claims.items()) if len(members) > 1}
    if not twice:
        yield from _said_twice(case)
        return
    members = [member for same in twice.values() for member in same]
    listed = {r: " and ".join(str(m.pid) for m in same) for r, same in twice.items()}
    pids = "; ".join(f"rank {r}: {pids}" for r, pids in listed.items())
    fields = queries.subject_fields(
        case, [case.states[m.id] for m in members], queries.waiters_for(case)
    )
    fields["who"] = queries.ranks_in_words(twice)
    missing = [rank for rank in range(case.job.world_size or 0) if rank not in claims]
    fields["pids"] = pids if len(twice) > 1 else f"pids {next(iter(listed.values()))}"
    fields["missing"] = f"; nobody is {queries.ranks_in_words(missing)}" if missing else ""
    fields["starts"] = (
        " Several ranks are there twice, as if the job had been started twice on one port."
        if len(twice) > 1
        else ""
    )
    several_runs = all(_several_runs(same) for same in twice.values())
    if several_runs:
        fields["starts"] = (
            " They did not live at one time: the evidence is of several runs. "
            "Give whyhang what belongs to one run."
        )
    yield Hit(
        members=tuple(member.id for member in members),
        affected=tuple(n for n in queries.waiters_for(case) if n not in {m.id for m in members}),
        ranks=tuple(twice),
        names_culprit=not several_runs,
        evidence=tuple(
            cite(m.processes[-1].source, f"pid {m.pid}: init_process_group(rank={own})", m.rank)
            if (own := given.get(m.id, m.rank)) != m.rank
            else queries.cite_environ(m.processes[-1], ("RANK", "WORLD_SIZE"))
            for m in members
        ),
        fields=fields,
    )


SIGNATURE = Signature(
    id="init-duplicate-rank",
    category="init-duplicate-rank",
    level="setup",
    title="{who} is claimed by several processes ({pids}){missing}",
    when=when,
    means=(
        "Several processes say that they are {who} ({pids}){missing}. Each rank must be one "
        "process.{starts}"
    ),
    confidence="strong",
    remedies=(
        "Give each process its own RANK; let torchrun or srun number them.",
        "If two copies of the job run, end one and use another MASTER_PORT.",
    ),
    next_steps=("tr '\\0' '\\n' < /proc/{pid}/environ | grep -E 'RANK|MASTER'  # of each",),
)


def _said_twice(case: Case) -> Iterator[Hit]:
    """Yield one hit if as many processes as there are ranks, in logs or on hosts, say one twice."""
    said: dict[str, list[tuple[int, str, Source, str]]] = defaultdict(list)
    for tail in case.job.of(LogTail):
        where = f"{tail.source.file} ({tail.who.host})" if tail.who.host else tail.source.file
        for line in tail.lines:
            if rank := _SAYS_RANK.search(line.text):
                source = Source(file=tail.source.file, line=line.number)
                said[line.template].append((int(rank["rank"]), where, source, line.text))
    for lines in said.values():
        claims = Counter(rank for rank, _ in {(rank, where) for rank, where, *_ in lines})
        ranks = sorted(rank for rank, count in claims.items() if count > 1 and len(claims) > 1)
        twice = [line for line in lines if line[0] in ranks]
        sizes = {int(of["size"]) for *_, text in twice if (of := _OF.search(text))}
        size = case.job.world_size or (sizes.pop() if len(sizes) == 1 else 0)
        missing = sorted({*range(min(size, MAX_RANKS))} - claims.keys())
        if not ranks or not missing or claims.total() != size:
            continue
        yield Hit(
            ranks=tuple(ranks),
            evidence=tuple(cite(source, text, None) for *_, source, text in twice[:MAX_QUOTES]),
            fields={
                "who": queries.ranks_in_words(ranks),
                "pids": " and ".join(sorted({where for _, where, *_ in twice})),
                "pid": "PID",
                "missing": f"; nobody is {queries.ranks_in_words(missing)}",
                "starts": "",
            },
        )
        return


def _several_runs(members: list[Member]) -> bool:
    """Return whether one process was last seen before another began: two runs, not one job."""
    last = [member.processes[-1] for member in members]
    seen = [process.taken_at for process in last if process.taken_at is not None]
    begun = [process.started_at for process in last if process.started_at is not None]
    return bool(seen and begun) and min(seen) < max(begun)
