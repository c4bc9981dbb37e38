"""What stands on the page of a report, and in which words."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pytest
from rich.console import Console
from small_jobs import ALL_REDUCE, ELSEWHERE, LOADER, process, report_of, still

from whyhang.analyzer.cli import main
from whyhang.analyzer.facts import (
    Call,
    CallState,
    Gap,
    Group,
    Source,
    Track,
    Trust,
    Who,
    few,
    replace,
    spaced,
)
from whyhang.analyzer.report import Location, RankRow
from whyhang.analyzer.reports.blocks import Para, Section, Table
from whyhang.analyzer.reports.faces import as_text
from whyhang.analyzer.reports.page import page
from whyhang.analyzer.reports.terminal import show
from whyhang.analyzer.wording.fill_texts import fill


def test_who_stands_where_comes_right_after_the_answer() -> None:
    """Below the first line stand the ranks, those that wait for others last."""
    blocks = page(report_of(still({0: ALL_REDUCE, 1: ALL_REDUCE, 2: ELSEWHERE, 3: ALL_REDUCE})))
    assert blocks[1] == Section(title="Ranks", name="ranks")
    assert isinstance(blocks[2], Table)
    assert [row[0] for row in blocks[2].rows] == ["2", "0-1,3"]


def test_no_sentence_stands_twice() -> None:
    """The headline is not repeated as the title of the first finding."""
    report = report_of(still({0: ALL_REDUCE, 1: ALL_REDUCE, 2: ELSEWHERE}))
    texts = [b.title if isinstance(b, Section) else b.text for b in page(report)
            if isinstance(b, (Section, Para))]  # fmt: skip
    assert not [text for text in texts if report.findings[0].title in text]
    assert texts[1].startswith(f"1. {report.findings[0].signature} ")


def test_many_ranks_at_many_places_stay_few_rows() -> None:
    """512 ranks at 40 places of one collective are one row; no rank number is cut in two."""
    report = report_of(still({0: ALL_REDUCE, 1: ELSEWHERE}))
    rows = tuple(
        RankRow(rank=n, host=None, pid=None, state="waiting", activity="in all_reduce",
                location=Location(file=f"/a/very/long/path/of/train{n % 40}.py", line=n % 40))
        for n in range(512)
    )  # fmt: skip
    rows = (*rows[:300], RankRow(rank=300, host=None, pid=None, state="blocked", activity="x"),
            *(row for row in rows[301:] if row.rank != 401))  # fmt: skip
    text = as_text(type(report)(verdict="hung", headline="H.", job=report.job, ranks=rows))
    table = text.partition("Ranks\n")[2].partition("\n\n")[0].splitlines()
    assert len(table) == 3
    assert table[1].split() == ["300", "blocked", "x"]
    assert table[2].split(maxsplit=1)[0] == "0-299,301-400,402-511"
    assert table[2].endswith("40 places")


def test_ranks_of_many_groups_of_one_kind_are_one_row_and_the_culprit_stands_first() -> None:
    """6,400 ranks in 128 groups of a mesh: which group each is in is left to the JSON report."""
    report = report_of(still({0: ALL_REDUCE, 1: ELSEWHERE}))
    (culprit,) = report.findings[0].culprit_ranks or ()
    rows = tuple(
        RankRow(rank=n, host=None, pid=None, state="waiting",
                activity=f"in x of G (ranks {n % 128})")
        for n in range(6400) if n != culprit
    )  # fmt: skip
    own = RankRow(
        rank=culprit, host=None, pid=None, state="waiting", activity="in x of G (ranks 1)"
    )
    text = as_text(replace(report, ranks=(*rows, own)))
    table = text.partition("Ranks\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split(maxsplit=1) for line in table[1:]] == [
        [str(culprit), "waiting  in x of G"],
        ["0,2-6399", "waiting  in x of G"],
    ]


def test_a_group_is_called_by_ranks_at_even_distances() -> None:
    """The groups of a mesh are told by their first, second and last rank."""
    assert spaced(range(5, 6400, 8)) == "5,13,…,6397"
    assert spaced([0, 1, 2, 7]) == "0-2,7"
    assert spaced([0, 2, 4]) == "0,2,4"
    assert spaced([0, 2, 4, 7, 20, 22, 30, 40]) == "0,2,4,7,… (8 in all)"


def test_a_list_of_ranks_says_how_many_it_leaves_out() -> None:
    """Every other rank of 512 is no sentence."""
    assert few(range(0, 512, 2)) == "0,2,4,6,8,10,12,14,16,18,… (256 in all)"
    assert few([1, 2, 5]) == "1-2,5"


@pytest.mark.parametrize(
    ("who", "says"),
    [
        ("rank 2", "rank 2 takes none and is late; rank 2 reaches it"),
        ("ranks 2-3", "ranks 2-3 take none and is late; ranks 2-3 reach it"),
        ("rank 1, pid 7", "rank 1, pid 7 take none and is late; rank 1, pid 7 reach it"),
    ],
)
def test_a_verb_agrees_with_who(who: str, says: str) -> None:
    """A sentence about several ranks is one about several."""
    assert fill("{who} takes none and is late; {who} reaches it", {"who": who}) == says
    assert fill("{gpus} has errors", {"gpus": "GPUs 0-1 of n1"}) == "GPUs 0-1 of n1 have errors"


def test_their_workers_are_not_its() -> None:
    """Two ranks wait for their workers; the pid of no rank is called that of a worker."""
    first = report_of(still({0: ALL_REDUCE, 1: LOADER, 2: LOADER, 3: ALL_REDUCE})).findings[0]
    assert "waiting for their DataLoader workers" in first.title
    assert first.explanation.startswith("Ranks 1-2 take part")
    assert "/proc/PID/fd" in first.next_steps[1]
    assert "--pid 1001" in first.next_steps[0]


def test_a_recorder_numbers_the_collective_that_stacks_lead() -> None:
    """Where stacks say who is late, the recorders of the others still say in which call."""
    tracks = [
        Track(
            who=Who(rank=rank, trust=Trust.FLIGHT_RECORDER),
            group=Group(name="default_pg", ranks=(0, 1, 2)),
            kind="flight-recorder",
            source=Source(file=f"fr{rank}"),
            enqueued=7, completed=6,
            calls=(Call(op="all_reduce", seq=7, state=CallState.STARTED),),
        )
        for rank in (0, 1)
    ]  # fmt: skip
    report = report_of([*still({0: ALL_REDUCE, 1: ALL_REDUCE, 2: LOADER}), *tracks])
    call = report.findings[0].collective
    assert report.findings[0].signature == "dataloader-blocked"
    assert call is not None
    assert (call.op, call.group, call.seq) == ("all_reduce", "default_pg", 7)


def test_a_job_of_which_nobody_lives_has_failed() -> None:
    """What hangs has someone in it."""
    dead = [process(rank, state="Z", environ={"WORLD_SIZE": "2"}) for rank in range(2)]
    report = report_of(dead)
    assert report.headline == "Ranks 0-1 have no living process."
    assert report.verdict == "failed"
    assert report.findings[0].culprit_ranks is None
    half = report_of([*still({0: ALL_REDUCE, 1: ALL_REDUCE}, world=3), process(2, state="Z")])
    assert half.verdict == "hung"


def test_a_gap_ends_in_a_sentence() -> None:
    """What to do begins like a sentence, unless it is a command."""
    assert str(Gap(what="a", why="b", remedy="look at c")) == "a: b. Look at c."
    assert str(Gap(what="a", why="b", remedy="pip install c")) == "a: b. pip install c."


@pytest.mark.parametrize(
    ("line", "does"),
    [
        ("[rank1]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5)", "Find the"),
        ("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2024-05-01T10:00:00 ***", "What caused"),
    ],
)
def test_an_effect_alone_is_called_one_and_says_what_to_do(
    line: str, does: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where only a consequence is known, it is not called a cause, and what to do is said."""
    (tmp_path / "job.log").write_text(f"{line}\n")
    assert main([str(tmp_path)]) == 0
    page_ = capsys.readouterr().out
    assert "an effect; the cause is not known" in page_
    assert f"- **Do now:** {does}" in page_


def test_ranks_that_nobody_could_look_at_are_in_the_answer() -> None:
    """The one sentence does not sound as if all ranks had been seen."""
    report = report_of([*still({0: ELSEWHERE}, world=2), process(1), process(1, look=1)])
    assert report.headline.endswith("rank 1 could not be looked at.")
    assert report.gaps[-1].startswith("What would tell: more looks")


@pytest.mark.parametrize("width", [80, 200])
def test_a_command_is_never_broken(width: int) -> None:
    """What a person copies from the page is the whole command; words move below it."""
    command = "nvidia-smi --query-remapped-rows=" + ",".join(["remapped_rows.failure"] * 3)
    steps = (f"{command}  # on that host", "Print it.", "dmesg -T  # there")
    report = report_of(still({0: ALL_REDUCE, 1: ELSEWHERE}))
    first = msgspec.structs.replace(report.findings[0], next_steps=steps)
    buffer = io.StringIO()
    show(
        msgspec.structs.replace(report, findings=(first,)),
        Console(file=buffer, width=width, color_system=None),
    )
    lines = [line.rstrip() for line in buffer.getvalue().splitlines()]
    at = next(number for number, line in enumerate(lines) if "$ nvidia-smi" in line)
    below = [f"    $ {command}", "      # on that host"]
    assert lines[at : at + 2] == (
        below if width == 80 else [f"    $ {steps[0]}", "    • Print it."]
    )
    assert "    $ dmesg -T  # there" in lines
