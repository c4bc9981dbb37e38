"""Whose a log is that tells no rank, by the others of its kind."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files
from test_places_in_logs import C10D, raised

LIMIT = "RuntimeError: [gloo/transport/] Timed out waiting 9000ms for recv operation to complete"
WAITS = raised(LIMIT, "train.py:9", (C10D, "all_reduce"))
FAILS = raised("FileNotFoundError: no file /srv/run7.json", "conf.py:3")
JOINED = raised(
    "DistStoreError: Timed out after 13 seconds waiting for clients. 2/3 clients joined.", "a.py:3"
)
AT_WORK = "".join(f"[reserve] 0.4 GiB are free, 2.0 are needed; waiting ({n})\n" for n in range(9))


def culprits(files: dict[str, str]) -> tuple[int, ...] | None:
    return diagnosed_files(files).findings[0].culprit_ranks


def test_numbers_of_files_are_ranks_where_there_are_as_many() -> None:
    files = {f"trainer_0{n}-stderr.log": JOINED if n == 0 else "waits\n" for n in range(3)}
    assert culprits(files | {"trainer_01-stderr.log": FAILS}) == (1,)


def test_of_another_number_of_files_nothing_is_known() -> None:
    files = {f"trainer_0{n}-stderr.log": JOINED if n == 0 else "waits\n" for n in range(2)}
    assert culprits(files | {"trainer_01-stderr.log": FAILS}) is None


NAMES = ("worker-0a1b-711.out", "worker-77ce-712.out", "worker-4f0d-713.out")


def waits(rank: int) -> str:
    return "".join(f"[rank{rank}]: {line}\n" for line in WAITS.splitlines())


@pytest.mark.parametrize("said", ["epoch=0 world_rank={} loss=0.4\n", "epoch=0 loss=0.{}\n"])
def test_a_file_without_a_rank_is_that_of_the_one_that_is_left(said: str) -> None:
    """Two ranks ran into their limit; what the third does is all that its file says."""
    texts = (waits(0), AT_WORK, waits(2))
    files = {NAMES[rank]: said.format(rank) + text for rank, text in enumerate(texts)}
    assert culprits(files) == (1,)


def test_of_two_files_without_a_rank_either_may_be_the_one_that_is_left() -> None:
    report = diagnosed_files(dict(zip(NAMES, (waits(0), AT_WORK, AT_WORK), strict=True)))
    assert not any(finding.culprit_ranks for finding in report.findings)


@pytest.mark.parametrize("name", ["run_{}.log", "epoch{}.txt", "train.log.{}"])
def test_other_things_are_counted_as_well(name: str) -> None:
    files = {name.format(n): JOINED if n == 0 else "waits\n" for n in range(3)}
    assert culprits(files | {name.format(1): FAILS}) is None


def test_an_event_is_told_by_its_fields_as_well() -> None:
    """What a program logs as an object has words in several of its fields."""
    event = '{{"time": {}, "rank": {}, "event": "phase", "step": {}, "name": "{}"}}\n'
    names = ("load_batch", "forward")
    files = {
        f"events_00{rank}.jsonl": "".join(
            event.format(100 + step, rank, step, name) for step in range(9) for name in names
        )
        for rank in range(4)
    }
    begun = event.format(109, 3, 9, "load_batch")
    retries = "".join(event.format(110 + n, 3, n, "retry_shard") for n in range(4))
    files = {name: text + event.format(109, 0, 9, "forward") for name, text in files.items()}
    files["events_003.jsonl"] = files["events_003.jsonl"].rpartition("{")[0] + begun + retries
    report = diagnosed_files(files)
    assert report.findings[0].culprit_ranks == (3,)
    assert "name=retry_shard" in report.headline


PRINTED = "".join(f"it {step} [{step}/200] nll 2.{step:03}\n" for step in range(60, 100))
GAVE_UP = (
    "[rank{0}]:[E1123 03:40:24.12345 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=401, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, "
    "Timeout(ms)=1800000) ran for 1800012 milliseconds before timing out.\n"
)
VALIDATING = PRINTED + "running the validation\nval 0/900\nval 100/900\n"


@pytest.mark.parametrize(
    "name", ["n0_local{}.log", "run7/proc-{:02}/console.txt", "train-{}-b.log"]
)
@pytest.mark.parametrize("first", [0, 8])
def test_the_log_without_a_rank_is_that_of_the_number_in_its_name(name: str, first: int) -> None:
    """Of the others the number and the rank are as far apart, also on a second node."""
    files = {name.format(n): PRINTED + GAVE_UP.format(n + first) for n in (0, 1, 3)}
    report = diagnosed_files({**files, name.format(2): VALIDATING})

    assert report.findings[0].category == "missing-rank-in-collective"
    assert report.findings[0].culprit_ranks == (2 + first,)


@pytest.mark.parametrize(
    ("ranks", "name"),
    [
        ((0, 1, 3), "launcher.log"),  # no number
        ((0, 2, 7), "n0_local2.log"),  # ranks that do not follow the numbers
        ((0,), "n0_local2.log"),  # one file is none to compare with
    ],
)
def test_numbers_that_say_nothing(ranks: tuple[int, ...], name: str) -> None:
    numbered = zip((0, 1, 3), ranks, strict=False)
    files = {f"n0_local{n}.log": PRINTED + GAVE_UP.format(rank) for n, rank in numbered}
    report = diagnosed_files({**files, name: VALIDATING})

    assert not any(finding.culprit_ranks for finding in report.findings)


@pytest.mark.parametrize("name", ["slurm-88123-{}.out", "bert-4711.{}.log", "out_20991_{}.txt"])
def test_tasks_behind_the_number_of_a_job(name: str) -> None:
    """The number of the job may hold that of the task."""
    at_work = PRINTED + "next shard, building its index\n"
    files = {name.format(n): PRINTED + "it 100 [100/200] nll 2.1\n" for n in range(3)}
    report = diagnosed_files({**files, name.format(3): at_work})

    assert report.findings[0].culprit_ranks == (3,)


def test_jobs_of_an_array_are_no_ranks() -> None:
    """So Slurm names their outputs where nobody says otherwise."""
    files = {f"slurm-88123_{n}.out": PRINTED + "it 100 [100/200] nll 2.1\n" for n in range(3)}
    report = diagnosed_files({**files, "slurm-88123_3.out": PRINTED})

    assert not any(finding.culprit_ranks for finding in report.findings)


@pytest.mark.parametrize(
    ("ranks", "said", "named"),
    [
        ((0, 1, 1), "launching with RANK={} of 3 on vm pid {}\n", (1,)),
        ((0, 0, 2), "[10:00:00] starting worker rank={} world_size=3 pid={}\n", (0,)),
        ((0, 1, 2), "launching with RANK={} of 3 on vm pid {}\n", None),
        ((0, 1, 1), "launching with RANK={} of 8 on vm pid {}\n", None),  # not all logs are here
        ((0, 0, 0), "waits for rank {} of 3, pid {}\n", None),  # is said of another
    ],
)
def test_a_rank_that_two_processes_say_to_be(
    ranks: tuple[int, ...], said: str, named: tuple[int, ...] | None
) -> None:
    key = raised(
        "DistStoreError: wait timeout after 9000ms, keys: /default_pg/0//cpu//0/0", "a.py:4"
    )
    files = {f"host{n}.log": said.format(rank, 900 + n) + key for n, rank in enumerate(ranks)}
    twice = [f for f in diagnosed_files(files).findings if f.signature == "init-duplicate-rank"]
    assert [finding.culprit_ranks for finding in twice] == ([named] if named else [])
