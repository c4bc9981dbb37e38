"""Ranks that a program's own messages name, whatever its logger writes in front of them."""

from __future__ import annotations

import random

import pytest

from whyhang.analyzer.facts import NOBODY
from whyhang.collectors.logs.text.line import take_apart
from whyhang.collectors.logs.text.logger_header import bare_name, header_end
from whyhang.collectors.logs.text.voice import voice_of

HEADERS = [
    "",
    "INFO:root:",  # logging, not configured
    "2026-11-23 08:36:22,025 INFO ",
    "2026-11-23 08:36:22,025 INFO trainer ",
    "2026-11-23 08:36:22,025 - trainer.loop - INFO - ",
    "2026-11-23 08:36:22,025 [INFO] trainer.loop: ",
    "2026-11-23 08:36:22,025 trainer INFO ",
    "11/23/2026 08:36:22 - INFO - __main__ - ",  # example scripts of Hugging Face
    "2026-11-23 08:36:22.025 | INFO     | __main__:train:42 - ",  # loguru
    "[2026-11-23 08:36:22,025][trainer][INFO] - ",  # Hydra
    "INFO 11-23 08:36:22 train.py:42] ",
    "I1123 08:36:22.123456 4711 train.py:31] ",  # glog, absl
    "[2026-11-23 08:36:22,025] [INFO] [logging.py:96:log_dist] ",
    "2026-11-23T08:36:22.123Z INFO ",
    "08:36:22 INFO trainer: ",
    "[08:36:22] ",
    "[INFO|trainer.py:1234] 2026-11-23 08:36:22,025 >> ",  # transformers
    "[INFO|2026-11-23 08:36:22] trainer.loop:423 >> ",
]
MESSAGES = [
    "[rank {}] step {}",
    "rank {} step {}",
    "Rank {}: step {}",
    "(rank {}) step {}",
    "[Rank {}/4] step {}",
    "<rank {}> step {}",
    "rank={} step={}",
    "process {} step {}",
    "loss 0.2 rank {} step {}",
]
FAILED = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "/w/train.py", line 3, in <module>
[rank0]: RuntimeError: [gloo/unbound_buffer.cc:78] Timed out waiting 9000ms for recv operation
W1123 08:53:44.200000 14044 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process
"""


@pytest.mark.parametrize("message", MESSAGES)
def test_a_rank_speaks_behind_any_header(message: str) -> None:
    """Other lines stand around those of the program, without the header."""
    for header in HEADERS:
        shuffle = random.Random(7).shuffle
        ranks = [0, 1, 2, 3]
        spoken = []
        for step in range(6):
            shuffle(ranks)
            spoken += [(rank, header + message.format(rank, step)) for rank in ranks]
        lines = "\n".join(text for _, text in spoken)
        voice = voice_of(f"Loading data\nusing 4 processes\n{lines}\n{FAILED}".encode(), NOBODY)

        read = [take_apart(text, voice)[0].who.rank for _, text in spoken]
        assert read == [rank for rank, _ in spoken], header


@pytest.mark.parametrize(
    "text",
    [
        "step 3 loss: 0.2",
        "Epoch 1: INFO is nothing here",
        "Rank 3: step 8",
        "worker-2: 08:00:00 up",
        "n1:91:88 [0] NCCL INFO Bootstrap",
        "[2026-11-23 08:36:22 x0] Decode batch",
        '10.0.0.4:51 - "POST /v1 HTTP/1.1" 200 OK',
        "RuntimeError: [gloo/pair.cc:9] closed",
    ],
)
def test_what_may_be_the_message_is_no_header(text: str) -> None:
    assert header_end(text) == 0


@pytest.mark.parametrize(
    ("messages", "name"),
    [
        (["trainer up", "trainer step 1", "trainer [rank 2] step 1"], "trainer"),
        (["step 1 of 8", "step 2 of 8", "step 3 of 8"], ""),  # the message itself
        (["trainer up", "loader up", "trainer step 1", "loader step 2"], ""),
        (["rank 1 up", "rank 2 step 1", "rank 3 done"], ""),
    ],
)
def test_a_bare_name_is_a_loggers_where_all_messages_begin_with_it(
    messages: list[str], name: str
) -> None:
    assert bare_name([f"2026-11-23 08:36:22,025 INFO {text}" for text in messages]) == name


def test_who_prints_a_line_for_each_rank_speaks_for_none_of_them() -> None:
    """One process keeps to the order of the ranks."""
    lines = [f"08:36:22 INFO sums of process {rank} are 7" for rank in (0, 1, 2, 3) * 3]
    voice = voice_of("\n".join(lines).encode(), NOBODY)
    assert {take_apart(line, voice)[0].who for line in lines} == {NOBODY}


def test_a_clock_right_behind_a_word_begins_another_line() -> None:
    """Two processes wrote at once, and the first one's line break came later."""
    steps = [(n, rank) for n in (1, 2) for rank in (0, 1)]
    lines = [f"2026-11-23 08:36:2{n},025 INFO rank={rank} step {n}" for n, rank in steps]
    voice = voice_of("\n".join(["Loading data", *lines]).encode(), NOBODY)
    parts = take_apart(lines[2] + lines[3], voice)
    assert [(part.who.rank, part.text) for part in parts] == [(0, lines[2]), (1, lines[3])]
    at = f"{lines[3]} since 2026-11-23 08:00:00 it runs"
    assert [part.text for part in take_apart(at, voice)] == [at]
