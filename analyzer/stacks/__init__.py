"""What a thread waits for, read off its stack with a table of frames.

The table itself is knowledge and lives in ``signatures/frames``; it is handed in. Three
layers are kept separate, because a stack says several things at once:

* a *purpose* is what the wait is for ("in all_reduce", "waits for its DataLoader");
* a *context* is the larger piece of work around it ("inside the dataset", "saving a
  checkpoint"), in which user code may well run;
* a *mechanism* is how one waits ("on a lock", "in select"), and only speaks when nothing
  better does.

Where no frame tells, the kernel's word and the line of source are guessed from, and the place
says so. Here the process as a whole is placed; ``rule_match`` reads one stack.
"""

from collections.abc import Callable

from whyhang.analyzer.facts import Process, StackDump, Thread, replace
from whyhang.analyzer.facts.stacks import main_thread
from whyhang.analyzer.stacks.awaited_thread import follow_wait
from whyhang.analyzer.stacks.kinds import (
    BLOCKED_POOL,
    EXIT,
    FILE_LOCK,
    PROCESS_POOL,
    UNNAMED,
    Layer,
    LineText,
    Phrase,
    Place,
    Scope,
    WaitKind,
    WaitRule,
    phrase,
)
from whyhang.analyzer.stacks.rule_match import index_of, read
from whyhang.analyzer.stacks.threads import PlacedSnapshot, source_lines, thread_place
from whyhang.analyzer.stacks.usercode import is_called_at_exit

PlaceOf = Callable[[StackDump, Process | None], Place]
"""``place_of`` with the rules and lines of source of a job."""

PlacesOf = Callable[[StackDump, Process | None], tuple[Place, ...]]
"""``places_of`` with these."""


def place_of(
    dump: StackDump,
    process: Process | None,
    rules: tuple[WaitRule, ...],
    line_text: LineText | None = None,
) -> Place:
    """Return the place of a process: of its main thread, or of the thread that this one waits for.

    ``process`` is what /proc held in the same snapshot, ``line_text`` gives a line of source where
    it was kept. Both only count where no frame decides. Never fails: a dump without threads gives
    an uncertain place.
    """
    at = PlacedSnapshot(dump, process, index_of(rules), line_text)
    main = main_thread(dump) or Thread(frames=(), tid=dump.who.pid)
    place = follow_wait(thread_place(main, at), main, at)
    if process is not None and process.stopped:
        place = replace(place, stopped=True)
    if process is not None and place.main_op is None and is_called_at_exit(main.frames):
        place = replace(place, main_op=EXIT)
    return place


def places_of(
    dump: StackDump,
    process: Process | None,
    rules: tuple[WaitRule, ...],
    line_text: LineText | None = None,
) -> tuple[Place, ...]:
    """Return the place of each thread of a process, in the order of the dump."""
    at = PlacedSnapshot(dump, process, index_of(rules), line_text)
    return tuple(thread_place(thread, at) for thread in dump.threads)


def undecided(place: Place) -> bool:
    """Return whether a native stack could say more about this place."""
    if place.native:
        return False
    return not place.certain or place.kind in {WaitKind.BACKWARD, WaitKind.CUDA_SYNC}
