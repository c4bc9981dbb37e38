"""What a thread waits for, read off its stack with a table of frames.

The table itself is knowledge and lives in ``signatures/frames.py``; it is handed in. Three
layers are told apart, because a stack says several things at once:

* a *purpose* is what the wait is for ("in all_reduce", "waits for its DataLoader");
* a *context* is the larger piece of work around it ("inside the dataset", "saving a
  checkpoint"), in which user code may well run;
* a *mechanism* is how one waits ("on a lock", "in select"), and only speaks when nothing
  better does.

Where no frame tells, the kernel's word and the line of source are guessed from, and the place
says so. Here the process as a whole is placed; ``reading`` reads one stack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from whyhang.analyzer.model import Frame, Process, StackDump, Thread, replace
from whyhang.analyzer.roles import main_thread
from whyhang.analyzer.waits.guesses import Guess, from_kernel, from_line
from whyhang.analyzer.waits.index import FrameIndex, index_of
from whyhang.analyzer.waits.kinds import (
    SCOPES,
    Layer,
    Place,
    Scope,
    WaitKind,
    WaitRule,
    last_name,
    names,
    scope_of,
)
from whyhang.analyzer.waits.reading import Reading, place, read

__all__ = [
    "SCOPES",
    "Layer",
    "LineText",
    "Place",
    "Scope",
    "WaitKind",
    "WaitRule",
    "classify",
    "last_name",
    "names",
    "place_of",
    "places_of",
    "scope_of",
    "undecided",
]

LineText = Callable[[Frame], str | None]

# Kinds of wait that another thread of the process may be behind.
_HANDED_OVER = frozenset({WaitKind.QUEUE, WaitKind.LOCK, WaitKind.IDLE, WaitKind.BACKWARD})
# A thread in one of these waits itself: it is not what holds the main thread up.
_AIMLESS = frozenset({WaitKind.QUEUE, WaitKind.IDLE})
WAITS_FOR_RANKS = 4
"""The score of a thread that is in a collective; others that may be waited for have less."""

# Waits that a thread cannot end without the GIL, where no native stack says what it is at.
_NEEDS_GIL = frozenset({WaitKind.LOCK, WaitKind.QUEUE, WaitKind.JOIN, WaitKind.FUTURE})


def classify(frames: Sequence[Frame], rules: tuple[WaitRule, ...]) -> Place:
    """Say what a stack alone tells: the place of a thread of which nothing else is known."""
    return place(read(tuple(frames), index_of(rules)), None, "")


def place_of(
    dump: StackDump,
    process: Process | None,
    rules: tuple[WaitRule, ...],
    line_text: LineText | None = None,
) -> Place:
    """Say where a process stands: its main thread, or the thread that this one waits for.

    ``process`` is what /proc said at the same look, ``line_text`` gives a line of source where
    it was kept. Both only speak where no frame tells. Never fails: a dump without threads gives
    an uncertain place.
    """
    index = index_of(rules)
    main = main_thread(dump) or Thread(frames=(), tid=dump.who.pid)
    found = _thread_place(main, dump, process, index, line_text)
    if found.scope is Scope.THREAD or found.kind in _HANDED_OVER:
        found = _follow(found, main, dump, process, index, line_text)
    if found.through is None:
        found = _with_gil_holder(found, main, dump)
    if process is not None and process.state in {"T", "t"}:
        found = replace(found, stopped=True)
    return found


def places_of(
    dump: StackDump,
    process: Process | None,
    rules: tuple[WaitRule, ...],
    line_text: LineText | None = None,
) -> tuple[Place, ...]:
    """Say where each thread of a process stands, in the order of the dump."""
    index = index_of(rules)
    return tuple(_thread_place(t, dump, process, index, line_text) for t in dump.threads)


def undecided(found: Place) -> bool:
    """Say whether a native stack could tell more about this place."""
    if found.native:
        return False
    return not found.certain or found.kind in {WaitKind.BACKWARD, WaitKind.CUDA_SYNC}


# --- one thread -----------------------------------------------------------------------------


def _thread_place(
    thread: Thread,
    dump: StackDump,
    process: Process | None,
    index: FrameIndex,
    line_text: LineText | None,
) -> Place:
    reading = read(thread.frames, index)
    running, wchan = _kernel_state(thread, dump, process)
    guess = None
    if not reading.purposes:
        guess = _guess(reading, running, wchan, process, line_text)
    if running == "R" and thread.holds_gil is False:
        running = "N"
    found = place(reading, guess, running)
    if found.kind is WaitKind.FILE and running == "R":
        # Reading modules or files while on the CPU is work, not a wait for storage.
        says = "running library code"
        found = replace(found, kind=WaitKind.WORK, scope=Scope.WORK, says=says, certain=False)
    return replace(found, thread=thread.name, tid=thread.tid)


def _kernel_state(
    thread: Thread, dump: StackDump, process: Process | None
) -> tuple[str, str | None]:
    """Give the thread's state letter and the kernel function it sleeps in, where known."""
    guess = {None: "", True: "R", False: "S"}[thread.active]
    letter, wchan = "", None
    if process is not None:
        is_main = thread.tid in {None, process.who.pid, dump.who.pid} or len(dump.threads) == 1
        known = next((s for s in process.threads if s.tid == thread.tid), None)
        if known is not None:
            letter, wchan = _letter(known.state), known.wchan
        elif is_main and process.state is not None:
            letter, wchan = _letter(process.state), process.wchan
    if letter == "R" and guess == "S":
        return "", None  # seen on the CPU once and off it once: it does both
    return letter or guess, wchan


def _letter(state: str) -> str:
    """Keep the states that tell what the program does; a stopped process may do anything."""
    return {"R": "R", "S": "S", "D": "D", "I": "S"}.get(state[:1], "")


def _guess(
    reading: Reading,
    running: str,
    wchan: str | None,
    process: Process | None,
    line_text: LineText | None,
) -> Guess | None:
    """Guess what a thread does that no frame speaks for."""
    kernel = from_kernel(wchan) if running != "R" else None
    if kernel is not None and kernel.firm:
        return kernel
    text = line_text(reading.top) if line_text and reading.top and reading.in_user else None
    line = from_line(text, running=running == "R") if text else None
    if line is not None:
        return line
    if kernel is not None and wchan == "wait_woken" and _reads_terminal(reading, process):
        return replace(kernel, kind=WaitKind.INPUT, scope=Scope.LOCAL, says="waiting for input")
    if kernel is None and running == "D":
        says = "in uninterruptible I/O"
        return Guess(kind=WaitKind.FILE, says=says, scope=Scope.LOCAL, mechanism=says)
    return kernel


def _reads_terminal(reading: Reading, process: Process | None) -> bool:
    """Tell a read of the terminal from one of a socket: the kernel calls both wait_woken."""
    if reading.native:
        deepest = reading.mechanism
        return deepest is not None and deepest.frame.function.endswith("read")
    return process is not None and any(
        target.startswith(("/dev/pts/", "/dev/tty")) for target in process.descriptors
    )


# --- the thread behind the main thread ------------------------------------------------------


def _with_gil_holder(found: Place, main: Thread, dump: StackDump) -> Place:
    """Say who holds the GIL, if the main thread waits for it or may do so.

    A thread that holds the GIL and yet sleeps lets no other thread run any Python.
    """
    holder = next((t for t in dump.threads if t.holds_gil and t is not main), None)
    if holder is None:
        # Threads that run take turns at it: one look at such a wait proves nothing.
        return replace(found, certain=False) if found.kind is WaitKind.GIL else found
    through = f'which thread "{holder.name or holder.tid}" holds'
    if found.kind is WaitKind.GIL:
        return replace(found, through=through, certain=holder.active is False)
    if holder.active is False and (not found.certain or found.kind in _NEEDS_GIL):
        return replace(
            found,
            kind=WaitKind.GIL,
            scope=Scope.LOCAL,
            says=WaitKind.GIL.value,
            certain=False,
            through=f"{through} while it sleeps",
        )
    return found


def _follow(
    found: Place,
    main: Thread,
    dump: StackDump,
    process: Process | None,
    index: FrameIndex,
    line_text: LineText | None,
) -> Place:
    """Go on to the thread that the main thread waits for, if one can be told."""
    threads = [t for t in dump.threads if t is not main and _may_be_behind(found, t)]
    if found.kind is WaitKind.FUTURE:
        threads = [t for t in threads if _runs_in_pool(t)] or threads
    places = [_thread_place(t, dump, process, index, line_text) for t in threads]
    scored = [(score, p) for p in places if (score := _score(found, p)) > 0]
    if not scored or (found.kind is WaitKind.LOCK and len(scored) > 1 and _below_ranks(scored)):
        return found
    best = [p for score, p in scored if score == max(scored, key=lambda pair: pair[0])[0]]
    chosen = best[0]
    alike = len({(p.kind, p.op, p.says) for p in best}) == 1
    named = found.scope is Scope.THREAD or found.kind is WaitKind.BACKWARD
    return replace(
        chosen,
        user=chosen.user or found.user,
        certain=chosen.certain and alike and named,
        through=_through(found, chosen),
    )


def _below_ranks(scored: Sequence[tuple[int, Place]]) -> bool:
    """Tell whether no thread waits for other ranks; which of several sets an event is open."""
    return max(score for score, _ in scored) < WAITS_FOR_RANKS


def _through(found: Place, chosen: Place) -> str:
    name = chosen.thread or (str(chosen.tid) if chosen.tid else "")
    does = found.says.replace("waiting", "waits", 1)
    does = does if does.startswith("waits") else f"is {does}"
    return f'on thread "{name}" while the main thread {does}'


def _may_be_behind(found: Place, thread: Thread) -> bool:
    """Rule out threads that cannot be what the main thread waits for."""
    if found.kind is WaitKind.BACKWARD:
        return not _started_by_python(thread)  # the engine's own threads
    if found.kind is WaitKind.IDLE:
        return found.frame is not None and "asyncio" in found.frame.file
    if found.kind is WaitKind.LOCK:
        # An event or condition may be set by a thread; a bare lock leaves no such frame.
        return found.frame is not None and found.frame.file.endswith("threading.py")
    return True


def _started_by_python(thread: Thread) -> bool:
    return any(
        last_name(frame) == "_bootstrap" and frame.file.endswith("threading.py")
        for frame in thread.frames
    )


def _runs_in_pool(thread: Thread) -> bool:
    return any(
        last_name(frame) == "_worker" and frame.file.endswith("concurrent/futures/thread.py")
        for frame in thread.frames
    )


def _score(found: Place, other: Place) -> int:
    """Say how likely a thread is what the main thread waits for; 0: it is not."""
    if other.scope is Scope.RANKS and other.certain:
        return WAITS_FOR_RANKS
    if found.kind is WaitKind.LOCK and (
        other.kind is WaitKind.LOCK
        or other.scope is not Scope.LOCAL
        or not (other.certain or other.kind is WaitKind.SLEEP)
    ):
        return 0  # two locks of one process are a story of their own
    if found.kind not in {WaitKind.JOIN, WaitKind.FUTURE, WaitKind.QUEUE, WaitKind.LOCK}:
        return 0
    if other.user is None or other.kind in _AIMLESS or other.scope is Scope.THREAD:
        return 0
    if other.kind in {WaitKind.LOCK, WaitKind.SLEEP}:
        return 1  # a heartbeat that waits for its next beat looks so, and produces nothing
    return 3 if other.certain else 2
