"""The margin of a pasted log is taken off, and what stands behind it is read as ever."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from log_docs import lines

from whyhang.collectors.logs.text.pasted import NO_MARGIN, margin_of

pytestmark = pytest.mark.usefixtures("no_own_patterns")

LOG = (
    "step 1 loss 0.5",
    "[rank3]: Traceback (most recent call last):",
    '[rank3]:   File "train.py", line 3, in main',
    "[rank3]: ValueError: bad sample",
    "",
    "[E ProcessGroupNCCL.cpp:737] [Rank 1] Watchdog caught, late",
    "the job ended",
)
MARGINS: dict[str, Callable[[int, str], str]] = {
    "quote marks": lambda _, line: f"> {line}",
    "twice quoted": lambda _, line: f"> > {line}",
    "an indented block": lambda _, line: f"    {line}",
    "the name of a stream": lambda _, line: f"stderr: {line}",
    "seconds and line numbers of a notebook server": lambda n, line: f"{n}.5s\t{n + 70}\t{line}",
    "line numbers of a pager": lambda n, line: f"{n + 1:6}\t{line}",
    "line numbers of grep": lambda n, line: f"{n + 1}:{line}",
    "line numbers in brackets": lambda n, line: f"[{n + 1743}] {line}",
    "a clock": lambda n, line: f"[2024-01-01 10:00:0{n}] {line}",
    "a logger's header": lambda n, line: f"2024-01-01 10:00:0{n},123 - root - ERROR - {line}",
    "a host": lambda _, line: f"ip-10-0-0-12: {line}",
    "an object of a log service": lambda n, line: json.dumps({"level": "info", "message": line}),
    "two of them": lambda n, line: f"> [{n + 1743}] {line}",
}


@pytest.mark.parametrize("name", MARGINS)
def test_a_margin_hides_neither_who_speaks_nor_a_traceback(name: str) -> None:
    """What a tool wrote in front of every line is no part of the log."""
    text = "\n".join(MARGINS[name](number, line) for number, line in enumerate(LOG))

    raised, late = lines(text, r"ValueError: (?P<what>.+)", r"late$")

    assert raised.who.rank == 3
    assert raised.text == "ValueError: bad sample"
    assert late.who.rank == 1


def test_numbers_of_tasks_are_no_margin() -> None:
    """``srun -l`` writes the rank in front of each line; that is kept."""
    spoken = ["0: a", "1: b", "0: c", "2: d", "3: e", "1: f"]

    assert margin_of(spoken) == NO_MARGIN
    assert [line.who.rank for line in lines("\n".join(spoken), "[a-f]$")] == [0, 1, 0, 2, 3, 1]


@pytest.mark.parametrize(
    "text",
    [
        "[rank0]: a\n[rank0]: b\n[rank0]: c\n[rank0]: d",
        "[default0]:a\n[default1]:b\n[default0]:c\n[default1]:d",
        "worker-0: a\nworker-1: b\nworker-0: c",
        "[1,0]<stderr>:a\n[1,1]<stderr>:b\n[1,0]<stderr>:c",
    ],
)
def test_a_launcher_prefix_is_no_margin(text: str) -> None:
    """What tells the speaker is not thrown away, also where all lines have it."""
    assert margin_of(text.split("\n")) == NO_MARGIN


def test_one_number_in_front_of_many_speakers_counts_tasks() -> None:
    """A launcher under ``srun -l`` speaks as task 0 for all of its ranks."""
    text = "".join(
        f"0: [E ProcessGroupNCCL.cpp:737] [Rank {n}] Watchdog caught\n" for n in range(4)
    )

    assert [line.who.rank for line in lines(text, "Watchdog caught")] == [0, 1, 2, 3]


def test_the_host_in_a_journal_is_kept() -> None:
    """The time in front of it is no margin of its own."""
    line = "2024-05-05T12:00:0{}+0000 node3 kernel: NVRM: Xid (PCI:0000:3b:00): 79, gone"
    hits = lines("\n".join(line.format(n) for n in range(4)), "NVRM: Xid")

    assert {hit.who.host for hit in hits} == {"node3"}


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("If the log says `[Rank 1] Watchdog caught`, raise the timeout.", False),
        ("The log of rank 1 says `Watchdog caught` after an hour or so.", True),
        ("- ``Watchdog caught`` means that some rank did not come", False),
        ("`[rank3]: Watchdog caught`", True),
        ("* `Watchdog caught` (rank 3)", True),
        ("[rank3]: [Rank 3] Watchdog caught; see `torch.distributed` for the timeout", True),
        ("[rank3]: Search for `cudaError' in the manual, then Watchdog caught", True),
        ("However, I encountered the following issue: `Watchdog caught`, after an hour.", True),
        ("When we ran it on two nodes we got `Watchdog caught` from all ranks.", True),
        ("If the job stops and you get `Watchdog caught`, raise the timeout.", False),
    ],
)
def test_a_message_quoted_in_a_sentence_is_no_message(text: str, counts: bool) -> None:
    """A README that explains a message does not mean that it was printed."""
    assert len(lines(text, "Watchdog caught")) == counts
