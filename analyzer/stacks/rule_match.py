"""Reads one stack: which rules of the table speak, and which of them is meant.

An index over the table, built once for each, finds the rules that speak of a frame.

Frames are walked from the innermost outward. A purpose counts only if no frame of the user's
own lies inside it: ``backward`` with a user's hook in it is a place in the hook. A context
counts with the user's code inside it.
"""

import functools
import posixpath
import re
from collections import defaultdict
from itertools import pairwise

from whyhang.analyzer.facts import Frame, Record
from whyhang.analyzer.stacks.kinds import CRASH, SCOPES, Layer, Scope, WaitKind, WaitRule, last_name
from whyhang.analyzer.stacks.usercode import Origin, origin, origin_of_file, user_frame

_LIBC = re.compile(r"^_*(?:GI_+)?_*(?:libc_|new_)?")
_TAIL = re.compile(r"(?:@|\.(?:constprop|isra|cold|part|lto_priv)\b).*$")
_WIDE = re.compile(r"(?:_time)?64$")
# Order of the rules of one frame: what it is for, then what it is part of, then how it waits.
_ORDER = {Layer.PURPOSE: 0, Layer.CONTEXT: 1, Layer.MECHANISM: 2}


class FrameIndex:
    """Rules by function name. Results are kept by frame: most stacks of a job are alike."""

    def __init__(self, rules: tuple[WaitRule, ...]) -> None:
        self.rules = rules
        self._python: dict[str, list[WaitRule]] = defaultdict(list)
        self._anywhere: list[WaitRule] = []  # any function of a file or folder
        self._exact: dict[str, list[WaitRule]] = defaultdict(list)
        self._prefixes: list[tuple[str, WaitRule]] = []
        self._classes: list[tuple[str, WaitRule]] = []  # any method of a class
        for rule in sorted(rules, key=lambda r: _ORDER[r.layer]):
            for function in rule.functions:
                if not rule.native and function == "*":
                    self._anywhere.append(rule)
                elif not rule.native and function.endswith(".*"):
                    self._classes.append((function[:-1].removeprefix("*"), rule))
                elif not rule.native:
                    self._python[function].append(rule)
                elif function.endswith("*"):
                    self._prefixes.append((symbol(function[:-1]), rule))
                else:
                    self._exact[symbol(function)].append(rule)
        self._native = functools.lru_cache(maxsize=65536)(self._find_native)
        self._by_file = functools.lru_cache(maxsize=65536)(self._find_python)

    def find(self, frame: Frame) -> tuple[WaitRule, ...]:
        """Return the rules that speak of this frame: purposes, then contexts, then mechanisms."""
        if frame.native:
            return self._native(frame.function, frame.file)
        name = last_name(frame)
        rules = self._by_file(name if name in self._python else "", frame.file)
        methods = [r for tail, r in self._classes if frame.function[: -len(name)].endswith(tail)]
        return (*rules, *methods) if methods else rules

    def _find_python(self, name: str, file: str) -> tuple[WaitRule, ...]:
        # A user's folder may be called "requests" as well.
        anywhere = [] if origin_of_file(file) is Origin.USER else self._anywhere
        rules = [*self._python.get(name, ()), *anywhere]
        return tuple(rule for rule in rules if _in_file(file, rule.file))

    def _find_native(self, function: str, file: str) -> tuple[WaitRule, ...]:
        name = symbol(function)
        rules = list(self._exact.get(name, ()))
        rules += [rule for prefix, rule in self._prefixes if name.startswith(prefix)]
        return tuple(rule for rule in rules if rule.file in file)


_INDEXES: dict[int, FrameIndex] = {}


def index_of(rules: tuple[WaitRule, ...]) -> FrameIndex:
    """Return the index of a table. Tables are compared by identity: hashing one is slow."""
    index = _INDEXES.get(id(rules))
    if index is None or index.rules is not rules:
        index = _INDEXES[id(rules)] = FrameIndex(rules)
    return index


@functools.lru_cache(maxsize=65536)
def symbol(function: str) -> str:
    """Reduce a native name to what rules are written in.

    ``__GI___poll``, ``poll@@GLIBC_2.2.5`` and ``__libc_poll`` are ``poll``, ``open64`` is
    ``open``; arguments and template parameters at the end go, as do marks of the compiler
    (``.constprop.0``).
    """
    name = function.partition("(")[0] if not function.startswith("(") else function
    name = _TAIL.sub("", name).rstrip()
    if "::" not in name:
        return _WIDE.sub("", _LIBC.sub("", name)) or name
    return name.partition("<")[0] or name


def _in_file(file: str, tail: str) -> bool:
    if tail.endswith("/"):
        return file.startswith(tail) or f"/{tail}" in file
    return not tail or file == tail or file.endswith("/" + tail)


# Waits on other ranks: they outrank what they are made of (queues, polls, synchronizes).
STRONG_KINDS = frozenset(kind for kind, scope in SCOPES.items() if scope is Scope.RANKS)

# Ways to wait that mostly serve something else: a DataLoader waits on a queue.
_WEAK = frozenset(
    {
        WaitKind.QUEUE,
        WaitKind.JOIN,
        WaitKind.FUTURE,
        WaitKind.SUBPROCESS,
        WaitKind.BACKWARD,
        WaitKind.CUDA_SYNC,
    }
)
_WORKERS = ("data/_utils/worker.py", "stateful_dataloader/worker.py")
SIGNAL_HANDLER = "<signal handler called>"
_CRASHES = frozenset(
    {"free", "int_free", "malloc", "int_malloc", "malloc_consolidate", "malloc_printerr"}
    | {"realloc", "calloc", "unlink_chunk", "abort", "raise", "gsignal", "pthread_kill"}
    | {"pthread_kill_implementation", "memcpy", "memmove", "memset", "strlen"}
)
_INTERPRETER = re.compile(r"(?:lib)?python\d")
_TIMED_CONDITIONS = frozenset({"pthread_cond_timedwait", "pthread_cond_clockwait"})
_GIL = WaitRule(
    kind=WaitKind.GIL,
    functions=tuple(_TIMED_CONDITIONS),
    native=True,
    says=WaitKind.GIL.value,
    verified="run 3.11",
)


class Match(Record):
    """A frame and the rule that speaks of it."""

    rule: WaitRule
    frame: Frame


class Reading(Record):
    """What the table finds on one stack. Depends on the frames alone, so it is kept."""

    purposes: tuple[Match, ...]
    context: Match | None
    mechanism: Match | None
    user: Frame | None  # of no use for a program without Python
    frames: tuple[Frame, ...]
    top: Frame | None  # the innermost Python frame
    in_user: bool  # the innermost Python frame is the user's own
    native: bool


@functools.lru_cache(maxsize=65536)
def read(frames: tuple[Frame, ...], index: FrameIndex) -> Reading:
    """Find what the table says of a stack."""
    own = _cut_at_signal(_cut_at_fork(frames))
    purposes: list[Match] = _gil_wait(own)
    context: Match | None = None
    mechanism: Match | None = None
    blocked = fenced = left_library = in_function = False
    for frame in own:
        for rule in index.find(frame):
            match = Match(rule=rule, frame=frame)
            if rule.layer is Layer.PURPOSE and not blocked and not fenced:
                if not purposes or purposes[-1].frame is not frame:  # the most exact rule
                    purposes.append(match)
            elif rule.layer is Layer.CONTEXT and context is None:
                if rule.kind is WaitKind.IMPORT and in_function:
                    continue  # the import has come as far as running the program
                context = match
                # Inside the dataset there is no waiting for it: what lies outside is not meant.
                fenced = not purposes
            elif rule.layer is Layer.MECHANISM and not left_library:
                mechanism = match
        whose = origin(frame)
        blocked = blocked or whose is Origin.USER
        in_function = in_function or (whose is Origin.USER and frame.function != "<module>")
        left_library = left_library or whose is not Origin.LIBRARY
    python = [frame for frame in own if not frame.native]
    return Reading(
        purposes=tuple(purposes),
        context=context,
        mechanism=mechanism,
        user=user_frame(own),
        frames=own,
        top=python[0] if python else None,
        in_user=bool(python) and origin(python[0]) is not Origin.LIBRARY,
        native=len(python) < len(own),
    )


def _cut_at_fork(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Leave out what a forked child inherited: below the fork lies the parent's past."""
    for index, frame in enumerate(frames):
        if frame.native:
            continue
        name = last_name(frame)
        if name == "_worker_loop" and frame.file.endswith(_WORKERS):
            return frames[: index + 1]
        forked = name == "_bootstrap" and frame.file.endswith("multiprocessing/process.py")
        launched = frames[index + 1 : index + 3]
        if forked and any(last_name(f) == "_launch" for f in launched if not f.native):
            return frames[: index + 1]
    return frames


def _cut_at_signal(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Leave out a signal's handler: the thread stands where the signal came.

    One that came in the middle of an allocation or an abort is a crash; there the mark is kept.
    """
    for index, frame in enumerate(frames[:-1]):
        if frame.native and frame.function == SIGNAL_HANDLER:
            crashed = symbol(frames[index + 1].function) in _CRASHES
            return frames[index if crashed else index + 1 :]
    return frames


def _gil_wait(frames: tuple[Frame, ...]) -> list[Match]:
    """Find a wait for the GIL in py-spy's native stacks, which leave ``take_gil`` itself out.

    CPython waits for the GIL with a timed condition and for nothing else on Linux, so this
    symbol directly under Python or under a function of its library is that wait.
    """
    for frame, caller in pairwise(frames):
        if not frame.native:
            break
        if symbol(frame.function) in _TIMED_CONDITIONS:
            interpreter = _INTERPRETER.match(posixpath.basename(caller.file)) is not None
            lock = symbol(caller.function).startswith("PyThread_acquire_lock")
            if not caller.native or (interpreter and not lock):
                return [Match(rule=_GIL, frame=frame)]
    return []


def deciding_purpose(purposes: tuple[Match, ...]) -> Match | None:
    """Choose among the purposes of one stack, which are innermost first."""
    if first := [m for m in purposes if m.rule.kind is WaitKind.GIL or m.rule.op == CRASH]:
        return first[0]
    strong = [m for m in purposes if m.rule.kind in STRONG_KINDS]
    for kind in (WaitKind.INIT, WaitKind.GROUP):
        # Both run collectives and store waits of their own.
        if opening := [m for m in strong if m.rule.kind is kind and not m.frame.native]:
            return opening[0]
    python = [m for m in strong if not m.frame.native]
    if python:
        return next((m for m in python if m.rule.op is not None), python[0])
    if strong:
        return strong[-1]  # c10d::Work::wait inside c10d::Reducer::finalize_backward
    middling = [m for m in purposes if m.rule.kind not in _WEAK]
    chosen = middling or list(purposes)
    return chosen[0] if chosen else None
