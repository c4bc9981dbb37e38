"""A log that ends where something begins, and tables of processes of which no rank is known."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files

HEAD = "torch 2.4.1, world size 8\n2026-03-01 10:00:00 trainer INFO step 400 loss 2.1\n"


@pytest.mark.parametrize(
    ("last", "category"),
    [
        (
            "2026-03-01 10:00:09 trainer INFO Saving the sharded checkpoint to /ckpt/400",
            "checkpoint-stall",
        ),
        ("[ckpt] writing optimizer state to s3://b/run7/400", "checkpoint-stall"),
        (
            "Using /home/u/.cache/torch_extensions/py310 as PyTorch extensions root...",
            "stale-lock-file",
        ),
        ("datasets: waiting for lock /cache/c4/builder.lock", "stale-lock-file"),
        ("Downloading shards:  31%|███       | 5/16", "network-io-blocked"),
    ],
)
def test_the_log_ends_where_something_begins(last: str, category: str) -> None:
    """It is a possibility and no more, for a log that was merely copied ends so, too."""
    report = diagnosed_files({"train.log": f"{HEAD}{last}\n"})

    assert report.findings[0].category == category
    assert report.verdict == "inconclusive"
    assert report.headline.startswith("Possibly: ")


@pytest.mark.parametrize(
    "last",
    [
        "2026-03-01 10:00:12 trainer INFO Saving the sharded checkpoint took 3.1 s",
        "Saved checkpoint /ckpt/400",
        "Saving model checkpoint to /ckpt/last at last step, done",
        "Downloading shards: 100%|██████████| 16/16",
        "2026-03-01 10:00:12 trainer INFO step 401 loss 2.0",
    ],
)
def test_what_says_that_it_is_through(last: str) -> None:
    """Work of which the line says that it is done is no place where the job stands."""
    report = diagnosed_files({"train.log": f"{HEAD}{last}\n"})

    assert not any(f.signature.startswith("log-ends-") for f in report.findings)


PS = """\
    PID STAT WCHAN                  ELAPSED COMMAND
   4101 {0:<4} {1:<20} 02:11:07 python -u pretrain.py
   4102 Rl   -                    02:11:07 python -u pretrain.py
   4103 Rl   -                    02:11:07 python -u pretrain.py
"""


@pytest.mark.parametrize(
    ("state", "wchan", "category"),
    [
        ("Dl", "rpc_wait_bit_killable", "storage-io-blocked"),
        ("Dl", "-", "storage-io-blocked"),
        ("Tl", "do_signal_stop", "rank-stopped"),
    ],
)
def test_the_odd_process_of_a_table_without_ranks(state: str, wchan: str, category: str) -> None:
    """One of three processes of a program cannot go on: it is named by its pid."""
    report = diagnosed_files({"ps.txt": PS.format(state, wchan)})

    assert report.findings[0].category == category
    assert "4101" in report.headline
    assert report.findings[0].culprit_ranks is None


def test_a_row_whose_command_is_cut_off() -> None:
    """A single process in the code of a file system waits for that."""
    head = " PID  STAT WCHAN                    ELAPSED      COMMAND\n"
    row = "1533  DNl  ceph_mdsc_wait_request   1-22:05:11\n"
    report = diagnosed_files({"ps.txt": head + row})

    assert report.findings[0].category == "storage-io-blocked"


@pytest.mark.parametrize(
    "table",
    [
        PS.format("Rl", "-"),
        PS.format("Dl", "-").replace("Rl ", "Dl "),
        PS.format("Dl", "-").replace("python -u pretrain.py", "/usr/lib/systemd"),
    ],
)
def test_tables_of_processes_that_tell_nothing(table: str) -> None:
    """All alike, or programs that are none of the job's."""
    assert not diagnosed_files({"ps.txt": table}).findings


def test_a_crash_of_several_processes_is_no_program_of_one() -> None:
    """Two processes of one host crash alike: they are ranks, though no line says which."""
    line = "[gpu4:{0}:0:{1}] Caught signal 11 (Segmentation fault: address not mapped to object)\n"
    both = diagnosed_files({"out.log": line.format(811, 901) + line.format(812, 902)})
    one = diagnosed_files({"out.log": line.format(811, 901)})

    assert both.findings[0].category == "rank-died"
    assert one.findings[0].category == "not-distributed"
