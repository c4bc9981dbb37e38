"""Where one thread of a process is: its stack, the kernel's word, the line of source."""

from collections.abc import Iterable
from typing import NamedTuple

from whyhang.analyzer.facts import SHARED_FUTEX, Excerpt, Frame, Process, StackDump, Thread, replace
from whyhang.analyzer.stacks.kinds import (
    AWAITED_FILE,
    FILE_LOCK,
    PIPE,
    SHARED_LOCK,
    LineText,
    Place,
    Scope,
    WaitKind,
    phrase,
)
from whyhang.analyzer.stacks.place import Guess, from_kernel, from_line, place_from
from whyhang.analyzer.stacks.polls import (
    asked_of_mpi,
    awaited_file,
    one_of_each_rank,
    waits_for_removal,
)
from whyhang.analyzer.stacks.rule_match import FrameIndex, Reading, read

_GPU_DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri", "/dev/dxg", "/dev/accel", "/dev/habana")


_MAY_POLL = {WaitKind.SLEEP, WaitKind.WORK, WaitKind.FILE}
"""What a thread does that may look for a file: it sleeps, or does what takes no time."""


class PlacedSnapshot(NamedTuple):
    """A process at one moment, with what its threads are placed by.

    ``process`` is what /proc held then, ``rules`` finds the rules of frames, ``line_text`` gives a
    line of source where it was kept.
    """

    dump: StackDump
    process: Process | None
    rules: FrameIndex
    line_text: LineText | None


def thread_place(thread: Thread, at: PlacedSnapshot) -> Place:
    """Place one thread of a process."""
    reading = read(thread.frames, at.rules)
    running, wchan = _kernel_state(thread, at)
    guess = None if reading.purposes else _guess(reading, running, wchan, at)
    if running == "R" and thread.holds_gil is False:
        running = "N"
    place = place_from(reading, guess, running)
    if place.kind is WaitKind.FILE and running == "R":
        # Reading modules or files while on the CPU is work, not a wait for storage.
        says = phrase("running library code")
        place = replace(place, kind=WaitKind.WORK, scope=Scope.WORK, says=says, certain=False)
    if place.user is not None and at.line_text is not None and place.kind in _MAY_POLL:
        place = _polling(place, place.user, at.line_text)
    known = at.process.threads if at.process is not None else ()
    call = next((state.syscall for state in known if state.tid == thread.tid), None)
    if place.kind is WaitKind.LOCK and call == SHARED_FUTEX:
        says = phrase("waiting for a lock that it shares with other processes")
        place = replace(place, says=says, op=SHARED_LOCK)
    return replace(place, thread=thread.name, tid=thread.tid)


def _polling(place: Place, user: Frame, text: LineText) -> Place:
    """Return the place with what it waits for, where the lines of a loop tell that."""
    sleeps = place.kind is WaitKind.SLEEP
    if sleeps and waits_for_removal(user, text):
        says = phrase("waiting for a lock file to be removed")
        return replace(place, kind=WaitKind.LOCK, says=says, op=FILE_LOCK)
    if (loop := awaited_file(user, text)) is not None:
        of_ranks = one_of_each_rank(loop, text)
        says = phrase(f"waiting for a file {'of each rank' if of_ranks else 'to appear'}")
        scope = Scope.MAYBE if of_ranks else Scope.LOCAL
        return replace(place, kind=WaitKind.SLEEP, scope=scope, says=says, op=AWAITED_FILE)
    if sleeps and (call := asked_of_mpi(user, text)):
        says = phrase(f"waiting for a request of MPI ({call}, again and again)")
        kind = WaitKind.MPI
        return replace(place, kind=kind, scope=Scope.RANKS, says=says, op=call.lower())
    return place


def _kernel_state(thread: Thread, at: PlacedSnapshot) -> tuple[str, str | None]:
    """Return the thread's state letter and the kernel function it sleeps in, where known."""
    dump, process = at.dump, at.process
    guess = {None: "", True: "R", False: "S"}[thread.active]
    letter, wchan = "", None
    if process is not None:
        is_main = thread.tid in {None, process.who.pid, dump.who.pid} or len(dump.threads) == 1
        known = next((s for s in process.threads if s.tid == thread.tid), None)
        if known is not None:
            names = (known.wchan, *known.kernel)
            wchan = next((name for name in names if from_kernel(name) is not None), known.wchan)
            letter = _letter(known.state)
        elif is_main and process.state is not None:
            letter, wchan = _letter(process.state), process.wchan
    if letter == "R" and guess == "S":
        return "", None  # seen on the CPU once and off it once: it does both
    return letter or guess, wchan


def _letter(state: str) -> str:
    """Keep the states that tell what the program does; a stopped process may do anything."""
    return {"R": "R", "S": "S", "D": "D", "I": "S"}.get(state[:1], "")


def _guess(reading: Reading, running: str, wchan: str | None, at: PlacedSnapshot) -> Guess | None:
    kernel = from_kernel(wchan) if running != "R" else None
    text = at.line_text(reading.top) if at.line_text and reading.top and reading.in_user else None
    if kernel is not None and kernel.firm:
        line = from_line(text) if text else None
        return replace(kernel, certain=line is not None and line.kind is kernel.kind)
    opened = at.process.descriptors if at.process is not None else ()
    has_gpu = not opened or any(target.startswith(_GPU_DEVICES) for target in opened)
    elsewhere = kernel is not None and (kernel.op == PIPE or kernel.kind is WaitKind.NETWORK)
    gpu = has_gpu and not elsewhere
    line = from_line(text, running=running == "R", gpu=gpu) if text else None
    if line is not None and line.kind is WaitKind.FILE and kernel is not None and kernel.op == PIPE:
        return replace(line, says=kernel.says, op=kernel.op)
    if line is not None:
        return line
    if kernel is not None and wchan == "wait_woken" and _reads_terminal(reading, at.process):
        return replace(kernel, kind=WaitKind.INPUT, scope=Scope.LOCAL, says="waiting for input")
    if kernel is None and running == "D":
        says = "in uninterruptible I/O"
        return Guess(kind=WaitKind.FILE, says=says, scope=Scope.LOCAL)
    return kernel


def _reads_terminal(reading: Reading, process: Process | None) -> bool:
    """Return whether a read is of the terminal: the kernel's wait_woken may be of a socket, too."""
    if reading.native:
        deepest = reading.mechanism
        return deepest is not None and deepest.frame.function.endswith("read")
    opened = process.descriptors if process is not None else ()
    return any(target.startswith(("/dev/pts/", "/dev/tty")) for target in opened)


def source_lines(excerpts: Iterable[Excerpt]) -> LineText:
    """Make a lookup from a frame to its line of source, where a collector kept it."""
    texts = {
        (excerpt.file, excerpt.first_line + offset): text
        for excerpt in excerpts
        for offset, text in enumerate(excerpt.lines)
    }

    def line_text(frame: Frame) -> str | None:
        return texts.get((frame.file, frame.line)) if frame.line is not None else None

    return line_text
