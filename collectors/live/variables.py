"""Variables of the job's frames, of which py-spy is asked for all and no more is kept than named.

``py-spy dump --locals`` prints every variable of a process. What each question keeps of that is
told in ``touched``, and the rest is dropped before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterable

from whyhang.collectors.live import counters, spots
from whyhang.collectors.live.job import spawned
from whyhang.collectors.live.programs import Command, Outcome, Plan, run_all
from whyhang.collectors.live.snapshot import Dump, Look
from whyhang.collectors.stacks import pyspy
from whyhang.collectors.stacks.peers import peers_only


class Variables:
    """Asks processes that a look has seen; ``touched`` says what was done."""

    def __init__(self, look: Look, limit: float) -> None:
        self._look = look
        self._plan = _DumpLocals(look, limit)
        self.touched: list[str] = []

    def peers(self, pids: Iterable[int]) -> list[Dump]:
        """Ask for the rank at the other end of a send, a broadcast and their like."""
        kept = "of the variables only the ranks that torch's send, recv or broadcast named were"
        return [
            Dump(
                pid=outcome.command.pid,
                look=self._look.number,
                taken_at=outcome.began,
                data=peers_only(outcome.output),
                peers=True,
            )
            for outcome in self._ask(pids, kept)
        ]

    def counters(self, pids: Iterable[int]) -> list[counters.Counter]:
        """Ask ranks that stand at one line for the step of their loops."""
        kept = "of the variables only whole numbers with the name of a step or counter were"
        asked = list(pids)[: counters.MOST]
        return [
            counter
            for outcome in self._ask(asked, kept)
            for counter in counters.read_counters(outcome.command.pid, outcome.output)
        ]

    def spots(self, pids: Iterable[int]) -> list[spots.Spot]:
        """Ask ranks in ``init_process_group`` where they were told to meet."""
        kept = "of the variables only address, rank and world size of init_process_group were"
        told = [spots.read_spot(o.command.pid, o.output) for o in self._ask(pids, kept)]
        return [spot for spot in told if spot is not None]

    def numbers(self, pids: Iterable[int]) -> dict[int, spawned.Numbers]:
        """Ask spawned processes for the number of their rank."""
        kept = "of the variables only the number of the rank was"
        return {o.command.pid: spawned.read_numbers(o.output) for o in self._ask(pids, kept)}

    def _ask(self, pids: Iterable[int], kept: str) -> list[Outcome]:
        answered = [o for o in run_all(pids, self._plan) if o.code == 0]
        self.touched.append(f"py-spy dump --locals paused {len(answered)} processes; {kept} kept")
        return answered


class _DumpLocals(Plan):
    """Dumps the variables of a process as its look took its stacks: paused, or not."""

    def __init__(self, look: Look, limit: float) -> None:
        self._look = look
        self._limit = limit

    def begin(self, pid: int) -> Command:
        quiet = self._look.was_quiet(pid)
        arguments = pyspy.command(pid, locals_=True, nonblocking=quiet)
        return Command(pid=pid, arguments=tuple(arguments), limit=self._limit)

    def killed(self, pid: int) -> None:
        self._look.let_go(pid)
