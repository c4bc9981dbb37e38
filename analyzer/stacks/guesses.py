"""What a thread may wait for where no frame tells: the kernel's word and the line of source.

A call into C leaves no frame: ``time.sleep``, ``lock.acquire``, ``work.wait()`` and
``input()`` all look like the user's line itself. The kernel names the function a thread sleeps
in (``/proc/PID/wchan``), and the text of the line often names the call.
"""

import functools
import re
from importlib.resources import files
from typing import Any

from whyhang.analyzer.facts import Record, replace
from whyhang.analyzer.stacks.kinds import Scope, WaitKind, scope_of
from whyhang.analyzer.toml import tomllib


class Guess(Record):
    """A likely wait.

    ``firm``: the kernel's word leaves no other reading of the line. ``certain``: the kernel and the
    line say the same.
    """

    kind: WaitKind
    says: str
    scope: Scope
    op: str | None = None
    mechanism: str | None = None
    firm: bool = False
    certain: bool = False


class _Line(Record):
    """What a line of source may wait for; ``spins``: it may burn CPU while it waits."""

    pattern: re.Pattern[str]
    guess: Guess
    spins: bool = False


@functools.cache
def _tables() -> tuple[tuple[tuple[tuple[str, ...], Guess], ...], tuple[_Line, ...]]:
    text = files(__package__).joinpath("guesses.toml").read_text(encoding="utf-8")
    tables = tomllib.loads(text)
    kernel = tuple((tuple(entry.pop("names")), _guess(**entry)) for entry in tables["kernel"])
    lines = tuple(
        _Line(
            pattern=re.compile(entry.pop("pattern")),
            spins=entry.pop("spins", False),
            guess=_guess(**entry),
        )
        for entry in tables["line"]
    )
    return kernel, lines


def _guess(kind: str, scope: str | None = None, **fields: Any) -> Guess:
    wait = WaitKind[kind.replace("-", "_").upper()]
    return Guess(kind=wait, scope=Scope(scope) if scope else scope_of(wait), **fields)


@functools.lru_cache(maxsize=1024)
def from_kernel(wchan: str | None) -> Guess | None:
    """Read the kernel function that a thread sleeps in; None where it says nothing."""
    name = (wchan or "").strip().lstrip("_") if wchan not in {None, "", "0"} else ""
    if not name:
        return None
    guesses = (guess for names, guess in _tables()[0] if name.startswith(names))
    guess = next(guesses, None)
    return None if guess is None else replace(guess, mechanism=wchan)


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
