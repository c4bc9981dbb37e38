"""Whose stack it is: what the dump, its heading, its file and its line prefix say, joined.

A file called rank3.txt may hold rank 3 alone, rank 3 with its DataLoader workers, or all the
processes of the node that rank 3 runs on. The name counts only where one process in it can be
that rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from whyhang.analyzer.facts import NOBODY, Frame, Record, StackDump, Thread, Trust, Who, replace
from whyhang.analyzer.reading import Document
from whyhang.collectors.files.naming import join, title
from whyhang.collectors.stacks.text import WHOLE_BYTES, Passage

MAIN = "MainThread"

# Processes that work for a rank, or start it, told by a file their main thread is in.
CHILD_FILES = (
    "torch/utils/data/_utils/worker.py",
    "torch/_inductor/compile_worker/__main__.py",
    "multiprocessing/resource_tracker.py",
    "multiprocessing/forkserver.py",
)
LAUNCHER_FILES = (
    "torch/distributed/elastic/agent/server/api.py",
    "torch/distributed/elastic/agent/server/local_elastic_agent.py",
    "torch/distributed/launcher/api.py",
    "torch/distributed/run.py",
    "deepspeed/launcher/launch.py",
    "accelerate/commands/launch.py",
)


class Found(Record):
    """One process at one moment as a text shows it; ``who`` is what the dump itself says."""

    threads: tuple[Thread, ...]
    line: int
    who: Who = NOBODY
    parent: int | None = None
    command: str | None = None
    main_only: bool = False
    copies: int = 1
    ranks: tuple[int, ...] = ()  # "ranks 0-6:" stood above it


def dumps(
    document: Document, passage: Passage, tool: str, section: Who, found: Sequence[Found]
) -> Iterator[StackDump]:
    """Make dumps of what was found under one heading, each with all that is known of its owner.

    ``section`` is what the heading says.
    """
    outer = _leader(document.who)
    if section is not NOBODY or passage.who is not NOBODY:
        outer = join(section, passage.who, outer)
    alone = len({_identity(one) for one in found}) == 1 and document.size <= WHOLE_BYTES
    for one, who in zip(found, _owners(outer, found), strict=True):
        for owner in _each(one, _named(who, document, None if alone else one)):
            yield StackDump(
                who=owner,
                tool=tool,
                threads=one.threads,
                source=document.source(one.line),
                look=document.look or 0,
                taken_at=document.taken_at,
                command=one.command,
                main_only=one.main_only,
                copies=one.copies,
            )


def main_thread(found: Found) -> Thread | None:
    """Find the main thread: its id is the pid, it is called so, or it is the first."""
    for thread in found.threads:
        if thread.name == MAIN or (thread.tid is not None and thread.tid == found.who.pid):
            return thread
    return found.threads[0] if found.threads else None


def outermost(frames: Sequence[Frame]) -> str:
    """Name the outermost Python function: "<module>" on a main thread."""
    for frame in reversed(frames):
        if not frame.native:
            return frame.function
    return ""


def name_main(threads: Sequence[Thread]) -> tuple[Thread, ...]:
    """Name the main thread in a list where the tool does not, and no pid tells.

    It is the thread whose outermost frame is the module; else one that was not started as a
    thread. Interpreters list the newest thread first (CPython keeps thread states so), so of
    several it is the last one.
    """
    if any(thread.name == MAIN for thread in threads):
        return tuple(threads)
    numbers = range(len(threads))
    main = [n for n in numbers if outermost(threads[n].frames) == "<module>"]
    main = main or [n for n in numbers if threads[n].frames and not is_started(threads[n])]
    if not main:
        return tuple(threads)
    return (*threads[: main[-1]], replace(threads[main[-1]], name=MAIN), *threads[main[-1] + 1 :])


def is_started(thread: Thread) -> bool:
    """Tell a thread that the threading module started: it cannot be the main thread."""
    for frame in reversed(thread.frames):
        if not frame.native:
            return frame.function.endswith("_bootstrap") and frame.file.endswith("threading.py")
    return False


def _leader(who: Who) -> Who:
    """Take the one process in a file called "master" for rank 0, as MPI and Kubeflow have it."""
    if who.rank is None and who.label is not None and who.label.lower() in ("master", "chief"):
        return replace(who, rank=0, trust=Trust.INFERRED)
    return who


def _named(who: Who, document: Document, one: Found | None) -> Who:
    """Call a process by the name of its file where nothing else tells it from others.

    ``one`` is given where there are several such in the file: the id of their main thread tells
    them apart; without one they stay nameless, because equal names would make them one process.
    """
    if who.rank is not None or who.pid is not None or who.label is not None:
        return who
    if who.local_rank is not None:
        return replace(who, label=f"local rank {who.local_rank}")
    name = title(document.path)
    if one is not None:
        tid = _identity(one)
        name = None if tid is None else f"{name or 'process'} (main thread {tid:#x})"
    return who if name is None else replace(who, label=name)


def _each(one: Found, who: Who) -> Iterator[Who]:
    """Give the owners of a stack that is said to be that of several ranks."""
    if len(one.ranks) < 2:
        yield who
        return
    for rank in one.ranks:
        yield replace(who, rank=rank, trust=Trust.CONTENT, pid=None)


def _owners(outer: Who, found: Sequence[Found]) -> list[Who]:
    """Decide which of several processes the file's name, heading or prefix speaks of."""
    if outer is NOBODY:
        return _inherited([one.who for one in found], found)
    launchers = [_is_in(one, LAUNCHER_FILES) for one in found]
    candidates = {
        _identity(one)
        for one, launcher in zip(found, launchers, strict=True)
        if not launcher and not _is_in(one, CHILD_FILES)
    }
    if outer.pid is not None and outer.pid in candidates:
        candidates = {outer.pid}
    single = len(candidates) <= 1
    owners = [
        _owner(one, outer, is_it=single and not launcher)
        for one, launcher in zip(found, launchers, strict=True)
    ]
    return owners if single else _inherited(owners, found)


def _inherited(owners: list[Who], found: Sequence[Found]) -> list[Who]:
    """Give the child of a rank, a DataLoader worker, the number of its parent."""
    ranks = {who.pid: who for who in owners if who.rank is not None}
    return [
        replace(who, rank=parent.rank, trust=parent.trust)
        if who.rank is None and one.parent is not None and (parent := ranks.get(one.parent))
        else who
        for who, one in zip(owners, found, strict=True)
    ]


def _is_in(found: Found, files: tuple[str, ...]) -> bool:
    thread = main_thread(found)
    return thread is not None and any(frame.file.endswith(files) for frame in thread.frames)


def _identity(one: Found) -> int | None:
    """Tell processes apart: by pid, else by the main thread's id; None: not to be told."""
    if one.who.pid is not None:
        return one.who.pid
    thread = main_thread(one)
    return thread.tid if thread is not None else None


def _owner(one: Found, outer: Who, *, is_it: bool) -> Who:
    if not is_it:
        outer = Who(host=outer.host)
    return outer if one.who is NOBODY else join(one.who, outer)
