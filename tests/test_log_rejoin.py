"""Lines broken at the edge of a terminal, or between two words by a mail program or a person."""

from __future__ import annotations

import textwrap

import pytest
from log_docs import diagnosed, lines

from whyhang.collectors.logs.text.broken import Search, mended
from whyhang.collectors.logs.text.pasted import rejoin

LINE = (
    "[rank{0}]:[E429 13:55:49.384372190 ProcessGroupNCCL.cpp:1743] [PG ID 0 PG GUID 0(default_pg) "
    "Rank {0}] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in "
    "monitoring enqueued collectives. This typically indicates a NCCL/CUDA API hang blocking the "
    "watchdog, and could be triggered by another thread holding the GIL inside a CUDA api"
)
TEXT = "\n".join(LINE.format(10**rank) for rank in range(4)) + "\nend of the log\n"


def broken(text: str, width: int) -> str:
    pieces = [
        line[at : at + width]
        for line in text.splitlines()
        for at in range(0, max(1, len(line)), width)
    ]
    return "\n".join(pieces) + "\n"


@pytest.mark.parametrize("width", [72, 80, 100, 116, 137, 190])
def test_broken_lines_are_whole_again(width: int) -> None:
    """Whatever the width, each line is found as it was, and later ones keep their numbers."""
    pieces = broken(TEXT, width)

    whole = rejoin(pieces.encode()).decode()

    assert [line for line in whole.splitlines() if line] == TEXT.splitlines()
    assert whole.count("\n") == pieces.count("\n")
    assert whole.splitlines()[-1] == "end of the log"
    assert len(lines(pieces, r"ProcessGroupNCCL's watchdog got stuck for \d+ seconds")) == 4


def test_an_error_that_cannot_be_read_is_no_quiet_log() -> None:
    """A single broken line is not joined; its severity tells that something was wrong."""
    findings = diagnosed({None: broken(LINE.format(6), 116)}).findings

    assert findings == ()


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        textwrap.fill(LINE.format(1) * 3, 80),
        "2024-01-01 10:00:00 a line of one length and no more than this, of which many stand\n" * 9,
        "0.0015,0.0016,0.0017,0.0018,0.0019,0.0020,0.0021,0.0022,0.0023,0.0024,0.0025\n" * 9,
        "".join(
            f"worker-{n:02} waits for the next batch of its input pipeline, as ever so\n"
            for n in range(9)
        ),
    ],
    ids=["whole", "prose", "one length", "numbers", "hosts"],
)
def test_other_text_stays_as_it_is(text: str) -> None:
    """Lines of one length are no lines broken at an edge, nor is text that an editor filled."""
    assert rejoin(text.encode()).decode() == text


BY_HAND = (
    "[rank1] compiling a kernel of the sampler\n"
    "[rank0] Watchdog caught collective operation timeout:{gap}WorkNCCL(SeqNum=3466,{gap}"
    "OpType=ALLREDUCE, NumelIn=16, NumelOut=16, Timeout(ms)=600000){gap}"
    "ran for 600071 milliseconds before timing out\n"
)

BROKEN = {
    "a mail program, before the signal": (
        (
            "mpirun noticed that process rank 5 with PID 26987 on node n4  \n"
            "exited on signal 8 (Floating point exception).\n"
        ),
        ("mpirun-rank-crashed", (5,)),
    ),
    "behind the rule of a box": (
        (
            "----------------------------------------------------\n"
            "mpirun noticed that process rank 2 with PID 411 on node\n"
            "n7 exited on signal 11 (Segmentation fault).\n"
        ),
        ("mpirun-rank-crashed", (2,)),
    ),
    "somebody, who indents": (BY_HAND.format(gap="\n    "), ("waits-for-silent-rank", (1,))),
    "as printed": (BY_HAND.format(gap=" "), ("waits-for-silent-rank", (1,))),
    "into three lines": (
        (
            "ABORTED: /job:jax_worker/replica:0/task:3 unexpectedly tried\n"
            "to connect with a different\nincarnation. It has likely restarted.\n"
        ),
        ("coordination-restarted-task", (3,)),
    ),
}


@pytest.mark.parametrize(("text", "first"), BROKEN.values(), ids=BROKEN.keys())
def test_a_message_broken_between_words(text: str, first: tuple[str, tuple[int, ...]]) -> None:
    """It is found as if it stood in one line."""
    finding = diagnosed({None: text}).findings[0]

    assert (finding.signature, finding.culprit_ranks) == first


def find_words(*words: str) -> Search:
    """Make a search that finds each of some words in a line."""

    def search(data: bytes) -> dict[int, set[int]]:
        lines = enumerate(data.decode().split("\n"))
        return {n: {at for at, word in enumerate(words) if word in line} for n, line in lines}

    return search


def test_lines_are_put_together_only_for_what_neither_has() -> None:
    """The fewest lines in which it stands become one; the others keep their numbers."""
    text = (
        b"a line of its own, no part of it\nthe process of rank 3 was\nkilled by signal 9\nthe end"
    )

    assert mended(text, find_words("killed by")) == text
    assert mended(text, find_words("no part", "was killed")) == (
        b"a line of its own, no part of it\nthe process of rank 3 was killed by signal 9\n\nthe end"
    )


@pytest.mark.parametrize(
    "after",
    ["", "[rank1]: killed", "Traceback (most", "2026-11-01 killed", "node3: killed", "| killed"],
)
def test_a_line_that_begins_anew_is_no_part_of_the_one_before(after: str) -> None:
    """A blank line, a label, a time, a traceback or a table's row ends a message."""
    text = f"the process of rank 3 on node7 was\n{after}\nkilled".encode()

    assert mended(text, find_words("was killed", "was [rank1]", "was |", "was 2026")) == text


def test_lines_that_begin_alike_are_not_put_together() -> None:
    """A container's name stands in front of each line of its log; a trial of each would cost."""
    line = "vl-32b  | (EngineCore_DP0 pid=413) ERROR 11-10 12:30:57 [core.py:710] in step"
    tried: list[bytes] = []

    def search(data: bytes) -> dict[int, set[int]]:
        tried.append(data)
        return {}

    assert mended("\n".join([line] * 9).encode(), search)
    assert not tried
