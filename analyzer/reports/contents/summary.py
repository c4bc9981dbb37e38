"""The parts of a report that judge nothing: the job, rows of ranks and GPUs, what is missing."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

from whyhang.analyzer.case import Case
from whyhang.analyzer.collectives.groups import RECORDER
from whyhang.analyzer.facts import (
    ClockOffset,
    Gap,
    LogTail,
    Paused,
    ProcessRank,
    Setting,
    SettingName,
    TrainingOutput,
    counted,
    grouped,
    listed,
    ranks_in_words,
    replace,
)
from whyhang.analyzer.facts.exceptions import ON_REQUEST
from whyhang.analyzer.job.device import Device
from whyhang.analyzer.job.launchers import STARTED_BY
from whyhang.analyzer.queries.machines.cluster import hosts_of_ranks
from whyhang.analyzer.queries.machines.gpus import faults_of, gpu_names
from whyhang.analyzer.rank_state.state import RankState
from whyhang.analyzer.report import Captured, GpuRow, Job, RankRow, RankStateName
from whyhang.analyzer.wording.describe import (
    NOT_SEEN,
    activity,
    location_of,
    site_location,
    status_word,
)

MAX_GAPS = 25
MAX_COMMAND = 200  # characters of a command line
MOST_NAMES = 32  # hosts that one folded gap names
FAR_IN_TIME = 10.0  # seconds between the looks at two hosts: they are no one moment then
MOST_PAUSES = 4
MOST_CLOCKS = 3


def job_facts(case: Case) -> Job:
    """Gather what is known of the job as a whole; what the most sources say wins."""
    job = case.job
    theirs = {process.who.host for child in job.launchers for process in child.processes}
    hosts = tuple(sorted(filter(None, {member.host for member in job.members} | theirs)))
    environs = [p.environ for m in job.members for p in m.processes[-1:]]
    started_by = (name for each in environs for key, name in STARTED_BY.items() if key in each)
    backend = _most_common(job.of(Setting), "backend")
    of_nccl = backend is None or backend.startswith("nccl")
    ordered = sorted(job.members, key=lambda m: (m.rank is None, m.rank or 0))
    commands = (m.processes[-1].command for m in ordered if m.processes)
    command = next(filter(None, commands), None)
    return Job(
        world_size=job.world_size,
        hosts=hosts or None,
        launcher=_most_common(job.of(Setting), "launcher") or next(started_by, None),
        backend=backend,
        torch_version=_most_common(job.of(Setting), "torch"),
        nccl_version=_most_common(job.of(Setting), "nccl") if of_nccl else None,
        command=command and command[:MAX_COMMAND],
        run_id=_run_id(environs),
    )


RUN_IDS = {"SLURM_JOB_ID": "Slurm job", "TORCHELASTIC_RUN_ID": "torchrun", "RAY_JOB_ID": "Ray job"}
"""Variables that name a run, and what calls it so."""
_NO_ID = {"", "none"}


def _run_id(environs: Sequence[Mapping[str, str]]) -> str | None:
    """Return what a launcher or scheduler calls the run, where all ranks are told the same."""
    for name, kind in RUN_IDS.items():
        values = {environ.get(name, "") for environ in environs}
        if len(values) == 1 and not values & _NO_ID:
            return f"{kind} {values.pop()}"
    return None


def captured(case: Case) -> Captured | None:
    """Return when the processes of a job were looked at; None where none were."""
    processes = [process for member in case.job.members for process in member.processes]
    times = [process.taken_at for process in processes if process.taken_at is not None]
    if not times:
        return None
    looks = len({process.look for process in processes})
    return Captured(first=round(min(times), 3), last=round(max(times), 3), looks=looks)


def _most_common(settings: Iterable[Setting], name: SettingName) -> str | None:
    values = Counter(setting.value for setting in settings if setting.name == name)
    return values.most_common(1)[0][0] if values else None


def rank_rows(case: Case, named: Iterable[int]) -> tuple[RankRow, ...]:
    """Return one row per member, and one per rank that is expected or ``named``, and unseen."""
    rows = [_row(case, state) for state in case.states]
    missing = {lost.rank: lost for lost in case.job.missing}
    hosts = hosts_of_ranks(case) if case.job.absent else {}
    for rank in case.job.absent:
        if rank in missing:
            rows.append(_unseen(rank, "no process", host=missing[rank].host, state="missing"))
        else:
            rows.append(_unseen(rank, "nothing of it was collected", host=hosts.get(rank)))
    known = {row.rank for row in rows}
    said = {f.rank: f.who for f in case.job.of(ProcessRank) if f.rank not in known}
    words = "it has said where it runs, and no more"
    rows += [_unseen(rank, words, host=who.host, pid=who.pid) for rank, who in said.items()]
    blamed = set(named)
    words = "named in the evidence; where it stood is not told"
    alone = (row for row in rows if row.rank in blamed and row.activity == NOT_SEEN)
    told = {row.rank: replace(row, activity=words) for row in alone}
    rows = [told.get(row.rank, row) for row in rows]
    rows += [_unseen(rank, words, host=None) for rank in sorted(blamed - known - said.keys())]
    return tuple(sorted(rows, key=lambda row: (row.rank is None, row.rank or 0, row.name)))


def _unseen(
    rank: int,
    activity: str,
    *,
    host: str | None,
    pid: int | None = None,
    state: RankStateName = "unreachable",
) -> RankRow:
    name = f"rank {rank}"
    return RankRow(rank=rank, host=host, pid=pid, state=state, activity=activity, name=name)


def _row(case: Case, state: RankState) -> RankRow:
    member = case.member(state.member)
    place = location_of(case, state)
    if state.position is not None:
        place = site_location(state.position.site) if state.position.inside else None
    return RankRow(
        rank=member.rank,
        host=member.host,
        pid=member.pid,
        state=status_word(state),
        activity=activity(state),
        location=replace(place, excerpt=()) if place else None,
        name=member.name,
        step=state.pulse.last.step if state.pulse is not None else None,
    )


def gap_lines(case: Case) -> tuple[str, ...]:
    """List what was looked for and not had, equal gaps folded, most telling first."""
    lines: list[str] = []
    missing = {lost.rank for lost in case.job.missing}
    unseen = [rank for rank in case.job.absent if rank not in missing]
    if unseen and case.job.members:
        placed = hosts_of_ranks(case)
        hosts = list(dict.fromkeys(placed[rank] for rank in unseen if rank in placed))
        where = f" on {listed(hosts, 8)}" if hosts and placed.keys() >= set(unseen) else ""
        some = "No line is known to be" if _someone_speaks(case) else "Nothing was collected"
        lines.append(
            f"{some} of {ranks_in_words(unseen)}{where} "
            f"(world size {case.job.world_size}, {case.job.world_size_how}); "
            "what they do cannot be judged. Run whyhang on their hosts, or add their files."
        )
    lines += [*_folded(case.job.gaps), *_disagreements(case), *_overwritten(case)]
    if len(lines) > MAX_GAPS:
        lines = [*lines[:MAX_GAPS], f"{len(lines) - MAX_GAPS} more gaps of these kinds."]
    return tuple(lines)


def _someone_speaks(case: Case) -> bool:
    """Return whether processes train or fail of which nothing tells the rank: any may be one."""
    labeled = {tail.source.file for tail in case.job.of(LogTail) if tail.who.rank is not None}
    output = {fact.source.file for fact in case.job.of(TrainingOutput) if fact.who.rank is None}
    failed = any(
        line.raised is not None and line.who.rank is None and line.raised.type not in ON_REQUEST
        for line in case.job.lines
    )
    return failed or not output <= labeled


def _disagreements(case: Case) -> list[str]:
    """Return on what sources of one rank disagree, the same of several ranks once."""
    alike = grouped(case.graph.calls.disagreements, lambda one: (one.group, one.what))
    lines = []
    for same in alike.values():
        more = f" (and {len(same) - 1} more ranks alike)" if len(same) > 1 else ""
        files = ", ".join(dict.fromkeys(source.file for source in same[0].sources))
        lines.append(f"Sources disagree on {same[0]}{more}{f' [{files}]' if files else ''}.")
    return lines


def _overwritten(case: Case) -> list[str]:
    lost: dict[int, int] = {}
    for track in case.job.tracks:
        if track.kind == RECORDER and track.lost and track.who.rank is not None:
            lost[track.who.rank] = max(track.lost, lost.get(track.who.rank, 0))
    if not lost:
        return []
    few, many = min(lost.values()), max(lost.values())
    count = f"{few:,}" if few == many else f"{few:,} to {many:,}"
    each = "of each " if len(lost) > 1 else ""
    kept = f"The recorders of {ranks_in_words(lost)} keep their last calls only"
    gone = f"{count} earlier records {each}were overwritten"
    return [f"{kept}: {gone}. A larger TORCH_FR_BUFFER_SIZE keeps more."]


def _folded(gaps: Iterable[Gap]) -> list[str]:
    alike = grouped(gaps, lambda gap: (gap.why, gap.cost, gap.remedy))
    return [
        str(replace(first, what=f"{first.what} (and {_others(same)} alike)") if same[1:] else first)
        for same in alike.values()
        for first in same[:1]
    ]


def _others(same: Sequence[Gap]) -> str:
    """Say which gaps are like the first, by host where each is of another; else how many."""
    hosts = [gap.who.host for gap in same if gap.who.pid is None]
    names = [name for name in hosts[1:] if name is not None]
    if len({*hosts}) < len(same) or len(names) > MOST_NAMES:
        return f"{len(same) - 1} more"
    return ", ".join(names)


MOST = 64  # GPUs of one row that are named one by one


def gpu_rows(case: Case, chosen: Iterable[int]) -> tuple[GpuRow, ...]:
    """Return a row for all GPUs among ``chosen`` that are in one state, the fewest first."""
    devices = [case.job.gpus.devices[number] for number in sorted(set(chosen))]
    alike = grouped(devices, lambda device: (_load(device), _trouble(device)))
    rows = [
        GpuRow(
            ranks=case.ranks(number for device in own for number in device.members),
            name=gpu_names(own),
            devices=tuple(str(device) for device in own[:MOST]),
            use=_range([v for d in own for v in d.every("busy")], " %"),
            power=_range([v for d in own for v in d.every("power")], " W"),
            says=trouble,
        )
        for (_, trouble), own in alike.items()
    ]
    return tuple(sorted(rows, key=lambda row: (not row.says, len(row.devices))))


def _load(device: Device) -> str:
    """Sort GPUs into few kinds of load, so that 98 and 100 % fold into one row."""
    busy = device.every("busy")
    if not busy:
        return ""
    return "idle" if max(busy) <= 5 else "busy" if min(busy) >= 90 else "between"


def _trouble(device: Device) -> str:
    return "; ".join(dict.fromkeys(words for *_, words in faults_of(device).values()))


def _range(values: list[float], unit: str) -> str:
    if not values:
        return ""
    low, high = round(min(values)), round(max(values))
    return f"{low}{unit}" if low == high else f"{low}-{high}{unit}"


def time_between_hosts(case: Case) -> Iterator[str]:
    """Say how long lies between the first looks at the hosts, where that is more than a moment."""
    first: dict[str, float] = {}
    for member in case.job.members:
        times = [process.taken_at for process in member.processes if process.taken_at is not None]
        if times and member.host is not None:
            first[member.host] = min(*times, first.get(member.host, times[0]))
    if len(first) < 2:
        return
    early, since = min(first.items(), key=itemgetter(1))
    late, until = max(first.items(), key=itemgetter(1))
    if until - since >= FAR_IN_TIME:
        yield (
            f"The hosts were looked at {until - since:,.0f} s apart by their clocks, {early} first "
            f"and {late} last: what ranks did in between is not known, or the clocks differ."
        )


def clocks(case: Case) -> Iterator[str]:
    """Say which clocks differ, as lines show that ranks print at one moment."""
    offsets = case.job.of(ClockOffset)
    ways = ("behind", "ahead of")
    first = ", ".join(
        f"that of {fact.who.host} is {abs(fact.seconds):,.0f} s {ways[fact.seconds > 0]} rank 0's"
        for fact in offsets[:MOST_CLOCKS]
    )
    more = f", {len(offsets) - MOST_CLOCKS} more differ" if len(offsets) > MOST_CLOCKS else ""
    if offsets:
        differ = f"Clocks differ, by steps that ranks print at one moment: {first}{more}"
        yield f"{differ}. Times are told by the clock of rank 0."


def pauses(case: Case) -> Iterator[str]:
    """Say for how long whyhang may have paused each rank, the longest first."""
    longest = sorted(case.job.of(Paused), key=lambda fact: -fact.seconds)
    known = [(fact, case.job.member_of(fact.who)) for fact in longest]
    each = [
        f"{member.name} for at most {fact.seconds:.2f} s in {counted(fact.dumps, 'stack dump')}"
        for fact, member in known
        if member is not None
    ]
    more = f" and {len(each) - MOST_PAUSES} more for less" if len(each) > MOST_PAUSES else ""
    if each:
        yield f"Looking at the job paused {'; '.join(each[:MOST_PAUSES])}{more}."
