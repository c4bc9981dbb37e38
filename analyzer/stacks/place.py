"""From what was read off a stack to the place where its thread stands.

A call into C leaves no frame: ``time.sleep``, ``lock.acquire``, ``work.wait()`` and ``input()`` all
look like the user's line itself. What a thread may wait for then is guessed: the kernel names the
function it sleeps in (``/proc/PID/wchan``), and the text of the line often names the call.
"""

import functools
import re
from typing import Any

from whyhang.analyzer.facts import Frame, Record, replace
from whyhang.analyzer.stacks.kinds import (
    Manner,
    Phrase,
    Place,
    Scope,
    WaitKind,
    last_name,
    phrase,
    scope_of,
)
from whyhang.analyzer.stacks.rule_match import STRONG_KINDS, Match, Reading, deciding_purpose
from whyhang.analyzer.toml import table


class Guess(Record):
    """A likely wait.

    ``firm``: the kernel's word leaves no other reading of the line. ``certain``: the kernel and the
    line say the same.
    """

    kind: WaitKind
    says: str
    scope: Scope
    op: str | None = None
    firm: bool = False
    certain: bool = False


class _Line(Record):
    """What a line of source may wait for; ``spins``: it may burn CPU while it waits."""

    pattern: re.Pattern[str]
    guess: Guess
    spins: bool = False


@functools.cache
def _tables() -> tuple[tuple[tuple[tuple[str, ...], Guess], ...], tuple[_Line, ...]]:
    tables = table(__package__, "guesses.toml")
    kernel = tuple((tuple(entry.pop("names")), _guess(**entry)) for entry in tables["kernel"])
    patterns = ((re.compile(e.pop("pattern")), e.pop("spins", False), e) for e in tables["line"])
    lines = (_Line(pattern=p, spins=spins, guess=_guess(**e)) for p, spins, e in patterns)
    return kernel, tuple(lines)


def _guess(kind: str, scope: str | None = None, **fields: Any) -> Guess:
    wait = WaitKind[kind.replace("-", "_").upper()]
    return Guess(kind=wait, scope=Scope(scope) if scope else scope_of(wait), **fields)


@functools.lru_cache(maxsize=1024)
def from_kernel(wchan: str | None) -> Guess | None:
    """Read the kernel function that a thread sleeps in; None where it says nothing."""
    name = (wchan or "0").strip().lstrip("_")
    guesses = (guess for names, guess in _tables()[0] if name.startswith(names))
    return next(guesses, None)


@functools.lru_cache(maxsize=8192)
def from_line(text: str, *, running: bool = False, gpu: bool = True) -> Guess | None:
    """Read a line of source; a ``running`` thread can only be in a wait that burns CPU.

    ``gpu``: there may be a GPU to wait for.
    """
    code = text.partition("  #")[0].strip()
    for line in _tables()[1]:
        match = line.pattern.search(code)
        no_gpu = line.guess.kind is WaitKind.CUDA_SYNC and not gpu
        if match is None or no_gpu or (running and not line.spins):
            continue
        guess = line.guess
        if guess.kind is WaitKind.MPI:
            op = match.group(1).lower()
            guess = replace(guess, op=op, says=f"in MPI {op}")
        # A line is a hint: what it says of other ranks is only "perhaps".
        return replace(guess, scope=Scope.MAYBE) if guess.scope is Scope.RANKS else guess
    return None


# Sources of the C library, of MPI and of the system, which debuggers know when symbols are there.
_BUILT_IN = ("/sysdeps/", "/nptl/", "/csu/", "/ompi/", "/opal/", "/mpich", "/ucx", "/libfabric")

# Work in which user code does not wait for other ranks as a rule.
_SELF_CONTAINED = frozenset({WaitKind.DATASET, WaitKind.IMPORT, WaitKind.COMPILE})
_VAGUE = frozenset({WaitKind.POLL, WaitKind.WORK})


_MPI = re.compile(r"P?(?P<name>MPI_(?P<op>\w+?))(?:_c)?")
"""A function of MPI's own, by whichever of its names."""


def _op(match: Match) -> str | None:
    if match.rule.op == "=":
        of_mpi = _MPI.fullmatch(last_name(match.frame))
        return of_mpi["op"].lower() if of_mpi else last_name(match.frame)
    return match.rule.op


def _phrase(match: Match) -> Phrase:
    if match.rule.says is not None:
        return phrase(match.rule.says)
    of_mpi = _MPI.fullmatch(last_name(match.frame))
    op = of_mpi["name"] if of_mpi else _op(match)
    return phrase(match.rule.kind.value) if op is None else Phrase(manner=Manner.IN, text=op)


def place_from(reading: Reading, guess: Guess | None, running: str) -> Place:
    """Put a place together; the guess speaks only where no frame does.

    ``running`` is the kernel's letter for the thread (R, S, D), N where it runs without the GIL,
    or empty where nobody said.
    """
    decided = deciding_purpose(reading.purposes)
    if decided is not None:
        place = _place_of_purpose(reading, decided)
    elif reading.mechanism is not None and (guess is None or _is_firm(reading.mechanism)):
        place = _place_of_mechanism(reading.mechanism)
    elif guess is not None:
        place = Place(
            kind=guess.kind,
            scope=guess.scope,
            says=phrase(guess.says),
            op=guess.op,
            frame=reading.top,
            certain=guess.certain,
        )
    else:
        place = _bare_place(reading, running)
    user = reading.user if reading.top is not None else _native_caller(reading.frames, place.frame)
    return replace(_in_context(place, reading), user=user, native=reading.native)


def _native_caller(frames: tuple[Frame, ...], waits: Frame | None) -> Frame | None:
    """Find who called the wait in a program of C or Fortran: the next frame with a source line."""
    if any(frame.function.startswith(("_PyEval", "PyEval", "Py_")) for frame in frames):
        return None  # Python after all, without its frames
    outside = frames[frames.index(waits) + 1 :] if waits in frames else frames
    for frame in outside:
        built_in = frame.file.startswith("../") or any(part in frame.file for part in _BUILT_IN)
        if frame.line is not None and not built_in and not frame.file.endswith(".S"):
            return frame
    return None


def _place_of_purpose(reading: Reading, decided: Match) -> Place:
    kind = decided.rule.kind
    same = [m for m in reading.purposes if m.rule.kind is kind and not m.frame.native]
    spoken = _spokesman(same or [decided])
    family = [m for m in reading.purposes if kind in STRONG_KINDS and m.rule.kind in STRONG_KINDS]
    op = next((op for op in map(_op, (decided, *family)) if op is not None), None)
    api = _op(spoken)
    says = _phrase(spoken)
    inits = [m for m in family if m.rule.kind is WaitKind.NCCL_INIT]
    if inits and kind is WaitKind.NCCL_INIT and decided.frame.native:
        says = _phrase(inits[0])  # the innermost knows what of it takes so long
    elif inits and kind is not WaitKind.NCCL_INIT:
        says = replace(says, aside=str(_phrase(inits[0])))
    return Place(
        kind=kind,
        scope=decided.rule.scope or scope_of(kind),
        says=says,
        op=op,
        api=api if api != op else None,
        frame=decided.frame,
    )


def _spokesman(same: list[Match]) -> Match:
    """Choose who gives the phrase: of the outermost file, the innermost that has one.

    ``all_gather`` in ``all_gather_object`` in DCP's planning is best said as the last, but DDP's
    ``_sync_buffers`` in ``_pre_forward``, both in one file, as the first.
    """
    outermost = same[-1]
    beside = (m for m in same if m.frame.file == outermost.frame.file and m.rule.says)
    return next(beside, outermost)


def _is_firm(mechanism: Match) -> bool:
    """Return whether a mechanism leaves no doubt: a lock does, a poll of anything does not."""
    return mechanism.rule.scope is not Scope.MAYBE


def _place_of_mechanism(mechanism: Match) -> Place:
    kind = mechanism.rule.kind
    return Place(
        kind=kind,
        scope=mechanism.rule.scope or scope_of(kind),
        says=_phrase(mechanism),
        op=_op(mechanism),
        frame=mechanism.frame,
        certain=_is_firm(mechanism),
    )


def _bare_place(reading: Reading, running: str) -> Place:
    """Place a thread of which nothing but its being on or off the CPU is known."""
    kind, scope = WaitKind.WORK, Scope.MAYBE
    where = "its own code" if reading.in_user else "library code"
    says = f"in {where}"
    if running == "N" and reading.in_user:
        # Waits for the GPU and for MPI burn CPU without the GIL, and so does any tensor operation.
        says = "running native code called from its own code"
    elif running in {"R", "N"}:
        scope = Scope.WORK
        says = f"running {where}"
    elif running in {"S", "D"}:
        kind = WaitKind.POLL
        says = "waiting in native code"
    elif reading.top is None:
        says = "in native code" if reading.frames else "at a place that its stack does not tell"
    return Place(kind=kind, scope=scope, says=phrase(says), frame=reading.top, certain=False)


def _in_context(place: Place, reading: Reading) -> Place:
    context = reading.context
    if context is None:
        return place
    kind, says = context.rule.kind, _phrase(context)
    if kind is place.kind:
        return place
    if place.scope is Scope.MAYBE and kind in _SELF_CONTAINED and place.kind in _VAGUE:
        # Nothing in there has to do with other ranks, so "perhaps" would be too much.
        return replace(place, kind=kind, scope=Scope.LOCAL, says=says)
    return replace(place, context=kind, context_says=says)
