"""What a live job is asked further: always by the case as it stands after the last answer."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import cast

from whyhang.analyzer.commands.live import settled
from whyhang.analyzer.commands.questions import questions
from whyhang.analyzer.facts import StackDump, Trust
from whyhang.collectors import READERS
from whyhang.collectors.files.bundle import Bundle, Entry, Manifest
from whyhang.collectors.live.capture import Capture, More, Named

RECEIVES = "recv (torch/distributed/distributed_c10d.py:2600)"
REDUCES = "all_reduce (torch/distributed/distributed_c10d.py:3100)"
PASSES_BACK = "_engine_run_backward (torch/autograd/graph.py:869)"


class StandIn:
    """Stands for a job under observation, which goes on where an answer is taken of it.

    ``looks`` holds the innermost frame of each rank at each look. Whatever is taken of the job
    lets it show its next look; ``asked`` says what was taken.
    """

    def __init__(self, *looks: tuple[str, ...], seen: int = 1) -> None:
        self.asked: list[str] = []
        self._looks = looks
        self._seen = seen

    def look_more(self, count: int, *, spacing: float = 1.0) -> None:
        """Take further looks."""
        del spacing
        self._take(f"{count} looks")

    def take_more(self, what: More, processes: Iterable[Named]) -> None:
        """Take more of some processes."""
        del processes
        self._take(what.replace("_", " "))

    def bundle(self) -> Bundle:
        """Give what was seen so far."""
        entries, files = [], {}
        for look, frames in enumerate(self._looks[: self._seen]):
            for rank, frame in enumerate(frames):
                path = f"rank{rank}.look{look}.json"
                files[path] = stack(100 + rank, frame)
                entries.append(
                    Entry(
                        path=path,
                        kind="py-spy",
                        host="n",
                        pid=100 + rank,
                        rank=rank,
                        trust=Trust.ENVIRONMENT,
                        look=look,
                        taken_at=1e9 + look,
                    )
                )
        return Bundle(manifest=Manifest(files=tuple(entries)), files=files)

    def _take(self, what: str) -> None:
        self.asked.append(what)
        self._seen += 1


def stack(pid: int, frame: str) -> bytes:
    """Print a stack as py-spy does: a frame of torch in a training script."""
    inner, _, place = frame.partition(" (")
    file, _, line = place.rstrip(")").partition(":")
    frames = [
        {"name": inner, "filename": f"/x/site-packages/{file}", "line": int(line)},
        {"name": f"{inner}_step", "filename": "/job/train.py", "line": 40},
        {"name": "<module>", "filename": "/job/train.py", "line": 60},
    ]
    thread = {"pid": pid, "thread_id": 1, "thread_name": "MainThread", "os_thread_id": pid}
    return json.dumps([{**thread, "active": False, "owns_gil": False, "frames": frames}]).encode()


def asked(job: StandIn, *, several_snapshots: bool = False, native: bool = True) -> list[str]:
    """Ask whatever is open, and tell what was taken."""
    chosen = questions(several_snapshots=several_snapshots, native=native)
    facts = settled(cast("Capture", job), chosen, READERS)
    dumps = [fact for fact in facts if isinstance(fact, StackDump)]
    assert len(dumps) == len(job.bundle().files)  # what was taken last is among the facts
    return job.asked


def test_each_question_is_asked_of_the_newest_case() -> None:
    """Ranks that were seen to go on by the time their peers were read need not tell their steps."""
    still = StandIn((RECEIVES, RECEIVES), (RECEIVES, RECEIVES), (RECEIVES, RECEIVES))
    assert asked(still) == ["peers", "counters"]

    goes_on = StandIn((RECEIVES, RECEIVES), (REDUCES, REDUCES), (RECEIVES, RECEIVES))
    assert asked(goes_on) == ["peers"]


def test_native_stacks_are_taken_of_a_job_that_stands() -> None:
    """A backward is told only by its native stack, which pauses the rank for about a second."""
    stands = StandIn(*[(RECEIVES, PASSES_BACK)] * 5)
    assert "native stacks" in asked(stands)

    goes_on = StandIn((RECEIVES, RECEIVES), (RECEIVES, PASSES_BACK), (RECEIVES, PASSES_BACK))
    assert "native stacks" not in asked(goes_on)


def test_nothing_is_asked_twice() -> None:
    """What stays open after it was asked stays open, and the loop ends."""
    job = StandIn(*[(RECEIVES, RECEIVES)] * 9)
    assert asked(job, several_snapshots=True) == ["peers", "counters"]


def test_a_job_that_comes_to_its_hang_is_looked_at_until_it_stands() -> None:
    """It moved at first, and now all wait in different calls: this may be where it stays."""
    stopped = (RECEIVES, REDUCES)
    job = StandIn((REDUCES, RECEIVES), *[stopped] * 5, seen=2)
    assert asked(job, several_snapshots=True)[0] == "3 looks"

    meets = StandIn((REDUCES, RECEIVES), *[(REDUCES, REDUCES)] * 5, seen=2)
    assert asked(meets, several_snapshots=True) == []
