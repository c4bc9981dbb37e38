"""When a watched job is asked why it does not go on: from looks alone."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
import pytest

from whyhang import _heartbeat
from whyhang.analyzer.cli import main
from whyhang.analyzer.commands import watch as command
from whyhang.analyzer.commands.following import Event, answer_of, follow
from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.findings.verdict import tells_of_no_job
from whyhang.analyzer.report import Finding, Job, RankRow, Report
from whyhang.collectors.files.bundle import numbered
from whyhang.collectors.watch import course as courses
from whyhang.collectors.watch import deadline
from whyhang.collectors.watch.course import JOB, Look, SilenceLimits
from whyhang.collectors.watch.outputs import Folder

EVERY = 30.0


def report(verdict: str, state: str = "blocked", category: str = "rank-stopped") -> Report:
    """Make a report that names rank 1, which is in this state."""
    finding = Finding(
        signature="s",
        category=category,
        confidence=0.9,
        title="t",
        explanation="",
        culprit_ranks=(1,),
    )
    row = RankRow(rank=1, host="n", pid=7, state=state, activity="")  # type: ignore[arg-type]
    return Report(
        verdict=verdict,  # type: ignore[arg-type]
        headline="Rank 1 is stopped.",
        job=Job(),
        findings=() if verdict == "inconclusive" else (finding,),
        ranks=(row,),
    )


class Made:
    """A job whose looks are made up: one for each number of signs, the last for ever."""

    pids: tuple[int, ...] = (7,)
    paths: tuple[str, ...] = ()

    def __init__(self, looks: Iterable[Look]) -> None:
        self._looks = list(looks)
        self.at = 0

    def look(self) -> Look:
        """Give the next look; asking does not take time."""
        return self._looks[min(self.at, len(self._looks) - 1)]

    def sleep(self, seconds: float) -> None:
        """Let the time pass until the next look."""
        self.at += 1


def job(
    counts: Iterable[int | Mapping[str, int]],
    *,
    stirs: Iterable[int] = (),
    over: str = "exit code 0",
    alarms: Mapping[int, str] | None = None,
    starts: Mapping[int, str] | None = None,
) -> Made:
    """Make looks 30 s apart by what the logs or ranks count; behind them the job is over."""
    stirred = dict(enumerate(stirs))
    looks = []
    for number, count in enumerate(counts):
        signs = {JOB: count} if isinstance(count, int) else count
        looks.append(
            Look(
                at=number * EVERY,
                signs={(who, "log"): value for who, value in signs.items() if value >= 0},
                stirs={("rank 0", "sleeps"): stirred.get(number, 0)},
                alarms=tuple([(alarms or {})[number]] if number in (alarms or {}) else []),
                start=(starts or {}).get(number, "first"),
            )
        )
    looks.append(Look(at=len(looks) * EVERY, over=over))
    return Made(looks)


def events(
    made: Made, *answers: Report, limits: SilenceLimits | None = None
) -> list[tuple[str, float]]:
    """Return what happens, and when; the diagnosis answers so in turn, the last for ever."""
    given = list(answers)
    happened: list[tuple[str, float]] = []
    running = follow(
        made,
        lambda pids, paths: given.pop(0) if len(given) > 1 else given[0],
        limits or SilenceLimits(),
        every=EVERY,
        sleep=made.sleep,
    )
    for event in running:
        assert isinstance(event, Event)
        happened.append((event.kind, made.at * EVERY))
    return happened


GOES_ON = list(range(1, 11))
HUNG = report("hung")


def test_a_job_that_goes_on_raises_nothing() -> None:
    """Each look shows more lines than the one before."""
    assert events(job(GOES_ON), HUNG) == [("over", 300.0)]


def test_a_hang_is_raised_once() -> None:
    """After two minutes without a sign, and not again however long it lasts."""
    assert events(job([*GOES_ON, *[10] * 40]), HUNG)[0] == ("hang", 270.0 + 120.0)
    assert len(events(job([*GOES_ON, *[10] * 40]), HUNG)) == 2


def test_a_hang_is_raised_again_after_the_job_moved_on() -> None:
    """Not for the last words of a watchdog, which are a sign as well."""
    counts = [*GOES_ON, *[10] * 6, *range(11, 20), *[19] * 30]
    kinds = [kind for kind, _ in events(job(counts), HUNG)]
    assert kinds == ["hang", "moved", "hang", "over"]

    last_words = [*GOES_ON, *[10] * 6, *[11] * 20]
    assert [kind for kind, _ in events(job(last_words), HUNG)] == ["hang", "over"]


def test_a_pause_that_ended_by_itself_is_allowed_for() -> None:
    """A checkpoint took 90 s before: three times as long is no hang yet."""
    counts = [*range(10), *[9] * 2, *range(10, 15), *[14] * 8, *range(15, 18)]

    assert events(job(counts), HUNG) == [("over", len(counts) * EVERY)]


def test_a_diagnosis_that_sees_it_move_is_believed() -> None:
    """It is asked again later and later, and never raised."""
    happened = events(job([*GOES_ON, *[10] * 60]), report("slow"))

    asked = [at for kind, at in happened if kind == "asked"]
    assert [kind for kind, _ in happened if kind == "hang"] == []
    assert [b - a for a, b in itertools.pairwise(asked)] == [240.0, 480.0, 960.0]


def test_a_rank_at_work_gets_more_time() -> None:
    """An evaluation on one rank looks like an endless loop, until it ends or does not."""
    happened = events(job([*GOES_ON, *[10] * 40]), report("hung", "running"))

    assert happened[:3] == [("asked", 390.0), ("asked", 510.0), ("hang", 750.0)]


def test_nothing_known_of_a_job_that_stirs_gets_more_time() -> None:
    """Of one that does not stir at all, it is said at once."""
    open_ = report("inconclusive")
    still = job([*GOES_ON, *[10] * 40])
    stirring = job([*GOES_ON, *[10] * 40], stirs=range(0, 5000, 100))

    assert events(still, open_)[0][0] == "hang"
    assert [kind for kind, _ in events(stirring, open_)] == ["asked", "asked", "hang", "over"]


NOTHING = Report(
    verdict="inconclusive",
    headline="Nothing was found that tells of a job: no stacks, no recorder dumps.",
    job=Job(),
)


def test_without_a_finding_nobody_is_paged() -> None:
    """It is said once; what comes later is judged as ever, and an alarm stands behind a hang."""
    assert events(job([-1] * 80), NOTHING) == [("asked", 120.0), ("over", 2400.0)]
    late = job([*[-1] * 10, *GOES_ON, *[10] * 40])
    assert [kind for kind, _ in events(late, NOTHING, HUNG)] == ["asked", "hang", "over"]
    alarm = job(GOES_ON, alarms={4: "a watchdog gave up waiting"})
    assert events(alarm, NOTHING)[0] == ("hang", 120.0)


def test_an_empty_folder_is_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The diagnosis of a folder without a job is known as one of nothing; a log's is not."""
    assert main([str(tmp_path), "--format", "json"]) == 0
    assert tells_of_no_job(msgspec.json.decode(capsys.readouterr().out, type=Report))
    (tmp_path / "train.log").write_text("".join(f"step {n} loss {9 - n}.5\n" for n in range(5)))
    assert main([str(tmp_path), "--format", "json"]) == 0
    silent = msgspec.json.decode(capsys.readouterr().out, type=Report)
    assert silent.verdict == "inconclusive"
    assert not tells_of_no_job(silent)
    assert sum(gap.startswith("What would tell") for gap in silent.gaps) == 1


def test_a_job_that_gives_no_signs_is_taken_by_what_it_stirs() -> None:
    """No log and no heartbeat: context switches that go on are asked about now and then."""
    happened = events(job([-1] * 40, stirs=range(0, 4000, 100)), report("healthy"))
    assert {kind for kind, _ in happened} == {"asked", "over"}
    assert happened[0] == ("asked", 120.0)

    stops = [*range(0, 1000, 100), *[900] * 30]
    happened = events(job([-1] * 40, stirs=stops), report("healthy"), HUNG)
    assert happened[:2] == [("asked", 120.0), ("hang", 270.0 + 240.0)]


def test_a_job_that_hung_before_the_first_look_is_told_of_after_the_announced_time() -> None:
    """Waits that poll stir the processes for ever, so nothing is silent."""
    assert events(job([-1] * 40, stirs=range(0, 4000, 100)), HUNG)[0] == ("hang", 120.0)


def test_a_rank_that_falls_silent_among_others_is_asked_about() -> None:
    """One that tries again for ever writes lines as well."""
    counts = [{"rank 0": n, "rank 1": min(n, 10)} for n in range(60)]

    kind, at = events(job(counts), HUNG)[0]
    assert kind == "hang"
    assert 900 <= at <= 1200


def test_a_watchdogs_word_is_asked_about_at_once() -> None:
    """The job ends in a moment, and its processes with it."""
    made = job([*GOES_ON, 11, 12], alarms={10: "a watchdog gave up waiting"})

    assert events(made, HUNG)[0] == ("hang", 300.0)


def test_it_asks_before_others_end_the_job() -> None:
    """Whatever pauses were learnt: a watchdog's limit, and the end of the allocation."""
    learnt = [*range(10), *[9] * 8, *range(10, 14), *[13] * 40]
    begins = 21 * EVERY
    patient, watched = (
        SilenceLimits(stalled_for=300.0),
        SilenceLimits(stalled_for=300.0, killed_after=600.0),
    )
    assert events(job(learnt), HUNG, limits=patient)[0] == ("hang", begins + 810.0)
    assert events(job(learnt), HUNG, limits=watched)[0] == ("hang", begins + 480.0)

    ending = SilenceLimits(stalled_for=300.0, ends_at=480.0)
    assert events(job([*GOES_ON, *[10] * 20]), HUNG, limits=ending)[0][1] <= 450.0


def test_a_restart_begins_anew() -> None:
    """New processes are no progress of the old ones, and no hang."""
    made = job([1, 2, 3, 3, 3, 1, 2, 3], starts=dict.fromkeys(range(5, 8), "again"))

    assert [kind for kind, _ in events(made, HUNG)] == ["restarted", "over"]


def test_ranks_that_come_one_by_one_are_one_start() -> None:
    """A look may fall between the first of them and the second."""
    starts = {3: "7.1", **dict.fromkeys(range(4, 8), "7.1 8.1")}
    made = job([1, 2, 3, 1, 1, 2, 3, 4], starts=starts)

    assert [kind for kind, _ in events(made, HUNG)] == ["restarted", "over"]


def test_what_a_report_means_for_a_silent_job() -> None:
    """Only what holds the others up and does not run itself is a hang at once."""
    assert answer_of(report("healthy")) == answer_of(report("slow")) == "moves"
    assert answer_of(report("inconclusive")) == "open"
    assert answer_of(report("hung", "running")) == "works"
    assert answer_of(report("hung", "blocked")) == answer_of(report("failed")) == "hangs"
    assert answer_of(report("hung", "blocked"), frozenset({"rank 1"})) == "works"
    assert answer_of(report("hung", "blocked"), frozenset({"rank 0"})) == "hangs"


@pytest.mark.parametrize(
    ("arguments", "environ", "seconds"),
    [
        ("train.py", {}, 600.0),
        ("train.py --ddp_timeout 1800", {}, 1800.0),
        ("train.py --distributed-timeout-minutes=30", {}, 1800.0),
        ("train.py", {"DEEPSPEED_TIMEOUT": "5"}, 300.0),
    ],
)
def test_the_watchdogs_limit_is_read(
    arguments: str, environ: dict[str, str], seconds: float
) -> None:
    """From the command line, from variables, else it is NCCL's default."""
    assert deadline.killed_after(arguments.split(), environ, nccl=True) == seconds
    assert deadline.killed_after(["x"], {}, nccl=False) is None
    assert deadline.killed_after(["x"], {}, nccl=True, recorded=[30.0]) == 30.0


def test_the_end_of_an_allocation_is_read() -> None:
    """As Slurm gives it."""
    left = deadline.ends_in({"SLURM_JOB_END_TIME": str(int(time.time()) + 100)})
    assert left is not None
    assert 95 < left <= 100
    assert deadline.ends_in({}) is None


def test_a_folder_shows_growth_steps_and_dumps(tmp_path: Path) -> None:
    """What whoever watches writes there itself is none of the job's."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "rank0.log").write_text("step 1\n")
    line = _heartbeat.line(3, 4, 50, 7, 8, 1.0, 100.0, "n")
    (tmp_path / "n.50.heartbeat").write_bytes(line)
    (tmp_path / "report.md").write_text("")
    folder = Folder(str(tmp_path), own=[str(tmp_path / "report.md")])
    first = folder.look()
    assert first.signs == {(JOB, "logs/rank0.log"): 7, ("rank 3", "beats"): 8}

    (tmp_path / "report.md").write_text("grows")
    assert folder.look().signs == first.signs
    with (tmp_path / "logs" / "rank0.log").open("a") as log:
        log.write("[E] Watchdog caught collective operation timeout: WorkNCCL(...)\n")
    (tmp_path / "nccl_trace_rank_0").write_bytes(b"dump")
    last = folder.look()

    assert last.signs != first.signs
    assert len(last.alarms) == 2


def test_a_command_of_on_hang_gets_the_report_and_no_shell(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a headline holds is never run; a command that fails ends nothing."""
    script = tmp_path / "hook"
    script.write_text('#!/bin/sh\nprintf "%s|" "$@" "$WHYHANG_VERDICT"\nexit 5\n')
    script.chmod(0o700)
    bad = report("hung")
    command.run_hook([str(script), "{report}", "{headline}"], bad, "a b.md")
    command.run_hook(["/no/such"], bad, "")
    monkeypatch.setattr(command, "HOOK_LIMIT", 0.05)
    command.run_hook(["sleep", "0.3"], bad, "")

    out, err = capfd.readouterr()
    assert out == "a b.md|Rank 1 is stopped.|hung|"
    assert "exit code 5" in err
    assert "cannot be run" in err
    assert "left running" in err


def test_later_reports_stand_beside_the_first() -> None:
    """No hang's report is lost to the next."""
    assert numbered("out/r.junit.xml", 1) == "out/r.junit.xml"
    assert numbered("out/r.junit.xml", 2) == "out/r-2.junit.xml"


def test_what_cannot_be_watched_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file, a process that is not there, a number that is none."""
    (tmp_path / "file").write_text("")
    with pytest.raises(TargetError):
        command.looks_at(str(tmp_path / "file"))
    assert main(["watch", "4194304"]) == 2
    assert main(["watch", str(os.getpid()), "--stalled-for", "never"]) == 2
    assert "4194304" in capsys.readouterr().err


def test_limits_of_silence() -> None:
    """Three times the longest pause, and as often as a diagnosis left it open."""
    course = courses.begin(Look(at=0.0))
    assert courses.limit(course, SilenceLimits(stalled_for=120)) == 120
