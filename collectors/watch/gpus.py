"""Whether the GPUs of a job compute: asked of NVML through one child that stays.

A kernel of NCCL that waits for its peers keeps its GPU at 100 % as well, so the use of a GPU says
nothing. That it moves its memory, or draws much of the power that it may, tells work from waiting;
energy is counted by the GPU itself, so that two looks give the mean between them.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whyhang.collectors.gpu import nvml_child
from whyhang.collectors.live.files import AnsweringChild
from whyhang.collectors.watch.course import JOB

PATIENCE = 2.0
"""Seconds in which the child has to answer; one that does not is not asked again."""

COMPUTES = 0.55
"""Share of its power limit above which a GPU computes; one that only waits draws less."""

TRAFFIC = 5
"""Per cent of time with memory in use above which it computes."""

PER_SECOND = 100
"""How much a second of work of one GPU counts among what else stirs: as much as a busy process."""

_DRIVER = Path("/proc/driver/nvidia/version")


class Gpus:
    """The GPUs of this host. Nothing is asked where there is no driver."""

    def __init__(self, driver: Path = _DRIVER) -> None:
        self._child: AnsweringChild | None = None
        self.there = driver.exists()
        self._before: list[dict[str, Any]] = []
        self._asked_at = 0.0
        self._work: dict[str, float] = {}

    def __len__(self) -> int:
        """Return how many answered last."""
        return len(self._before)

    def work(self, names: Mapping[int, str]) -> dict[str, int]:
        """Return how much each has computed so far, by the names that their processes have.

        The whole job counts as one where NVML lists none of the processes, as in a container.
        """
        answers = self._ask() if self.there else []
        now = time.monotonic()
        passed, self._asked_at = now - self._asked_at, now
        owners = [{names[pid] for pid in each.get("pids", ()) if pid in names} for each in answers]
        known = any(owners)
        for before, answer, own in zip(self._before, answers, owners, strict=False):
            for who in own if known else {JOB}:
                share = passed * PER_SECOND if _computes(before, answer, passed) else 0.0
                self._work[who] = self._work.get(who, 0.0) + share
        self._before = answers
        return {who: int(work) for who, work in self._work.items()}

    def end(self) -> None:
        """Let the child end."""
        self.there = False
        if self._child is not None:
            self._child.end()

    def _ask(self) -> list[dict[str, Any]]:
        try:
            if self._child is None:
                spec = importlib.util.find_spec("pynvml")
                folders = (
                    [str(Path(spec.origin).parent)] if spec is not None and spec.origin else []
                )
                command = [sys.executable, "-I", nvml_child.__file__, "counters", *folders]
                self._child = AnsweringChild(command, PATIENCE)
            self._child.send({})
            answer, _ = self._child.answer(PATIENCE)
        except (OSError, EOFError, ValueError):  # it is late, has ended, or says what is no answer
            self.end()
            return []
        return [each for each in answer.get("gpus", ()) if isinstance(each, dict)]


def _computes(before: Mapping[str, Any], now: Mapping[str, Any], passed: float) -> bool:
    """Return whether a GPU worked between two answers, as far as it tells."""
    if now.get("traffic", 0) > TRAFFIC:
        return True
    first, last, limit = before.get("energy"), now.get("energy"), now.get("limit")
    if first is None or last is None or not limit or passed <= 0:
        return False
    return bool((last - first) / passed > COMPUTES * limit)
