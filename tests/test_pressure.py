"""What holds a rank back from below is read from its control groups and said where it matters."""

from __future__ import annotations

from pathlib import Path

from small_jobs import ALL_REDUCE, ELSEWHERE, INIT, dump, process, report_of, still

from whyhang.analyzer.facts import NearLimit, Role, Source, Who, replace
from whyhang.collectors.live.job.members import JobProcess
from whyhang.collectors.live.probes.pressure import Pressure
from whyhang.collectors.live.proc import Proc

RANK = (JobProcess(pid=7, ppid=1, role=Role.RANK),)


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def limits_near(
    tmp_path: Path, cgroup: str, group: Path, later: dict[str, str], **first: str
) -> list[str]:
    """Read twice and give what is said; host figures are those of an idle one."""
    mounts = (("", "cgroup2"), ("/cpu,cpuacct", "cgroup"))
    table = (f"30 1 0:26 / {tmp_path}/cgroup{name} rw - {kind} cgroup rw" for name, kind in mounts)
    write(tmp_path / "proc" / "7", cgroup=cgroup)
    write(tmp_path / "proc" / "self", mountinfo="\n".join(table))
    write(
        tmp_path / "proc", loadavg="0.1 0 0 1/1 1\n", meminfo="MemTotal: 9 kB\nMemAvailable: 8 kB\n"
    )
    write(group, **first)
    pressure = Pressure(Proc(str(tmp_path / "proc")), RANK)
    write(group, **later)
    return [fact.says for fact in pressure.facts("n1")]


def test_a_quota_that_stops_a_rank_between_the_looks_is_reported(tmp_path: Path) -> None:
    """Both versions of control groups count; what was stopped before the looks does not."""
    stat = "nr_periods {}\nnr_throttled {}\n"
    for number, (line, place) in enumerate(
        (("0::/job/a\n", "job"), ("3:cpu,cpuacct:/job\n", "cpu,cpuacct/job"))
    ):
        root = tmp_path / str(number)
        group = root / "cgroup" / place
        first = {"cpu__stat": stat.format(100, 90)}
        later = {"cpu__stat": stat.format(120, 109)}
        assert limits_near(root, line, group, later, **first) == [
            "its CPU quota stopped it in 19 of 20 periods between the looks"
        ]
        assert limits_near(root, line, group, first, **first) == []


def test_memory_near_its_limit_and_kills_are_reported(tmp_path: Path) -> None:
    """The word max is no limit; an unreadable or missing file says nothing."""
    group = tmp_path / "cgroup" / "job"
    words = limits_near(
        tmp_path,
        "0::/job\n",
        group,
        {},
        memory__current=str(2 << 30),
        memory__max=str(2 << 30),
        memory__events="oom 3\noom_kill 2\n",
    )
    assert words == [
        "its control group uses 100% of its 2.0 GiB",
        "the kernel has killed 2 processes of its control group for memory",
    ]
    write(group, memory__max="max", memory__events="oom_kill 0\n")
    assert limits_near(tmp_path, "0::/job\n", group, {}) == []
    assert limits_near(tmp_path, "0::/gone\nnonsense\n", group, {}) == []


def test_a_shortage_stands_with_the_late_rank_only() -> None:
    """What holds the culprit back is added to its finding; another rank's shortage is not."""
    environ = {"WORLD_SIZE": "2"}
    facts = [
        process(0, environ=environ),
        dump(0, ELSEWHERE),
        process(1, environ=environ),
        dump(1, INIT),
        *(
            NearLimit(limit="oom-kills", measured=pid, who=Who(pid=pid), source=Source(file="x"))
            for pid in (1000, 1001)
        ),
    ]
    finding = report_of(facts).findings[0]
    assert finding.culprit_ranks == (0,)
    assert "killed 1000 processes" in finding.explanation
    assert "killed 1001 processes" not in finding.explanation


def test_a_limit_that_was_read_twice_is_reported_once_as_it_was_last() -> None:
    """Two captures of a job each tell the load of its host; hosts that differ are told by name."""
    environ = {"WORLD_SIZE": "3"}
    where = {1000: "a", 1001: "b", 1002: "b"}
    facts = [
        *(process(rank, environ=environ) for rank in range(3)),
        dump(0, ELSEWHERE),
        dump(1, ELSEWHERE),
        dump(2, INIT),
    ]
    facts = [replace(f, who=replace(f.who, host=where[f.who.pid])) for f in facts]

    def loads(*rows: tuple[str, int]) -> list[NearLimit]:
        at = Source(file="x")
        return [
            NearLimit(limit="load", measured=load, size=2, who=Who(host=host), source=at)
            for host, load in rows
        ]

    one = report_of([*facts, *loads(("a", 9), ("a", 7))]).findings[0]
    assert one.culprit_ranks == (0, 1)
    assert "Also, the load of the host is 7 on 2 processors." in one.explanation
    quotes = [piece.quote for piece in one.evidence if "load" in piece.quote]
    assert quotes == ["the load of the host is 7 on 2 processors"]
    two = report_of([*facts, *loads(("a", 9), ("a", 7), ("b", 5))]).findings[0]
    assert "Also, the load of a is 7 on 2 processors; the load of b is 5 on" in two.explanation


def test_who_does_not_run_at_all_is_not_held_back_by_the_load() -> None:
    """It wants no processor."""
    load = NearLimit(limit="load", measured=9, size=2, who=Who(host="a"), source=Source(file="x"))
    facts = [replace(f, who=replace(f.who, host="a")) for f in still({0: ALL_REDUCE, 1: ELSEWHERE})]

    first = report_of([*facts, load]).findings[0]

    assert first.culprit_ranks == (1,)
    assert "load of the host" not in first.explanation
