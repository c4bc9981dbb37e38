"""Lines of source around the places of a stack."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.probes.source_lines import excerpts, places
from whyhang.collectors.live.proc import Proc

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="there are no live processes without /proc"
)


def test_excerpts_show_the_code_of_users_and_trainers_only(tmp_path: Path) -> None:
    """Lines around each place are read, joined where they overlap, and cleaned of secrets."""
    source = tmp_path / "train.py"
    lines = [f"line {number}" for number in range(1, 41)]
    lines[9] = "api_key = 'hunter2'"
    source.write_text("\n".join(lines))
    library = ["/x/site-packages/torch/a.py", "/usr/lib/python3.11/threading.py", "<string>"]
    own = {(str(source), 10), (str(source), 12), (str(source), 40)}
    trainer = ("/x/site-packages/transformers/trainer.py", 7)  # its loop tells who has left it
    stand = [*own, trainer, *((f, 3) for f in library)]
    dump = json.dumps(
        [{"pid": 7, "frames": [{"filename": file, "line": line} for file, line in stand]}]
    )
    assert places(dump.encode()) == {*own, trainer}
    answer = dict.fromkeys(own, os.getpid())
    shown = list(excerpts(Host(Proc()), answer))
    assert [(e.first_line, len(e.lines)) for e in shown] == [(6, 11), (36, 5)]
    assert shown[0].lines[4] == "api_key = '[redacted]'"


def test_excerpts_show_the_heads_of_the_blocks_around_a_place(tmp_path: Path) -> None:
    """The loop, and the function, that a place far down is in are kept; the rest is not."""
    source = tmp_path / "train.py"
    body = ["def train():", "    for batch in data:", *["        more()"] * 20, "        reduce()"]
    source.write_text("\n".join(["import os", *body]))

    shown = list(excerpts(Host(Proc()), {(str(source), 24): os.getpid()}))

    assert [(e.first_line, len(e.lines)) for e in shown] == [(2, 2), (20, 5)]


def test_excerpts_show_the_branches_that_leave_the_loop_of_a_place(tmp_path: Path) -> None:
    """A branch that merely prints is not kept, nor one of the loop around."""
    source = tmp_path / "train.py"
    more = ["        more()"] * 8
    body = [
        "def train():",
        "    for step in range(9):",
        "        if rank == 0 and done:",
        "            print(step)",
        "            break",
        "        if debug:",
        "            print(step)",
        *more,
        "        reduce()",
    ]
    source.write_text("\n".join(body))

    shown = list(excerpts(Host(Proc()), {(str(source), 16): os.getpid()}))

    assert [(e.first_line, len(e.lines)) for e in shown] == [(1, 3), (5, 1), (12, 5)]


@pytest.mark.parametrize("content", [b"\0binary", None])
def test_excerpt_of_an_unreadable_file_is_left_out(tmp_path: Path, content: bytes | None) -> None:
    """A source that is gone or no text is no error."""
    source = tmp_path / "t.py"
    if content is not None:
        source.write_bytes(content)
    assert not list(excerpts(Host(Proc()), {(str(source), 1): os.getpid()}))
    assert places(b"not json") == set()


def test_excerpts_show_what_led_past_a_place_and_what_takes_errors(tmp_path: Path) -> None:
    """A return above the loop, and the handlers of what stands around the place, all of it."""
    source = tmp_path / "train.py"
    more = ["            more()"] * 6
    body = [
        "def train():",
        "    if part is None:",
        "        return None",
        "    try:",
        "        for step in range(9):",
        *more,
        "            reduce()",
        *more,
        "    except ValueError:",
        "        more()",
        "        raise",
        "    finally:",
        "        more()",
    ]
    source.write_text("\n".join(body))

    shown = list(excerpts(Host(Proc()), {(str(source), 12): os.getpid()}))

    assert [(e.first_line, len(e.lines)) for e in shown] == [(1, 5), (8, 9), (19, 3)]


def test_excerpts_show_what_fills_a_queue(tmp_path: Path) -> None:
    """In the file where a place takes from one, with the function that it is in."""
    source = tmp_path / "feed.py"
    more = ["    more()"] * 8
    body = ["def run(self):", *more, "    self.out.put(1)", *more, "def take(q):", *more]
    source.write_text("\n".join([*body, "    return q.get()"]))

    shown = list(excerpts(Host(Proc()), {(str(source), 28): os.getpid()}))

    assert [(e.first_line, len(e.lines)) for e in shown] == [(1, 1), (10, 1), (19, 1), (24, 5)]


@pytest.mark.parametrize(
    ("waits", "ends"), [("q.join()", "self.out.task_done()"), ("s.acquire()", "s.release()")]
)
def test_excerpts_show_what_ends_a_wait(tmp_path: Path, waits: str, ends: str) -> None:
    """What marks the items of a queue as done, and what gives back what is waited for."""
    source = tmp_path / "feed.py"
    more = ["    more()"] * 8
    body = ["def run(self):", *more, f"    {ends}", *more, "def flush(q):", *more]
    source.write_text("\n".join([*body, f"    {waits}"]))

    shown = list(excerpts(Host(Proc()), {(str(source), 28): os.getpid()}))

    assert [(e.first_line, len(e.lines)) for e in shown] == [(1, 1), (10, 1), (19, 1), (24, 5)]


def test_excerpts_show_the_branches_further_down_that_leave_the_loop(tmp_path: Path) -> None:
    """They held in an earlier turn; what stands behind the loop is not kept."""
    source = tmp_path / "train.py"
    more = ["        more()"] * 8
    leaves = ["        if done:", "            break"]
    body = [
        "def train():",
        "    for step in range(9):",
        "        reduce()",
        *more,
        *leaves,
        "    end()",
    ]
    source.write_text("\n".join([*body, "    if rank:", "        return"]))

    shown = list(excerpts(Host(Proc()), {(str(source), 3): os.getpid()}))

    assert [(e.first_line, len(e.lines)) for e in shown] == [(1, 7), (12, 2)]
