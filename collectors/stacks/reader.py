"""The one way from a text with stacks in it to dumps; what differs is how a tool prints them.

Whose a stack is, is joined from what the dump, its heading, its file and its line prefix say. A
file called rank3.txt may hold rank 3 alone, rank 3 with its DataLoader workers, or all the
processes of the node that rank 3 runs on. The name counts only where one process in it can be that
rank.
"""

from collections.abc import Iterator, Sequence

from whyhang.analyzer.facts import (
    MAX_RANKS,
    NOBODY,
    Fact,
    Record,
    Role,
    StackDump,
    Trust,
    Who,
    replace,
)
from whyhang.analyzer.facts.stacks import main_of
from whyhang.analyzer.job.roles import role_of_frames
from whyhang.analyzer.reading import Document
from whyhang.collectors.files.naming import join, title
from whyhang.collectors.stacks.passages import WHOLE_BYTES, holds, passages
from whyhang.collectors.stacks.peers import facts_of
from whyhang.collectors.stacks.sections import HeadedStacks, ProcessStacks, Sections


def dumps(
    document: Document, tool: str, section: HeadedStacks, of_prefix: Who = NOBODY
) -> Iterator[Fact]:
    """Yield a dump of each process under one heading, with all that is known of its owner.

    ``of_prefix`` is what the prefix of its lines says. The calls on its stack that name another
    rank follow it.
    """
    processes = section.processes
    outer = document.who
    if outer.rank is None and (outer.label or "").lower() in ("master", "chief"):
        # The one process in a file called so is rank 0, as MPI and Kubeflow have it.
        outer = replace(outer, rank=0, trust=Trust.INFERRED)
    if section.who is not NOBODY or of_prefix is not NOBODY:
        outer = join(section.who, of_prefix, outer)
    known = [_identity(process) for process in processes]
    one = len(known) == 1 or (len(set(known)) == 1 and None not in known)
    alone = one and document.size <= WHOLE_BYTES
    for process, owner in zip(processes, _owners(outer, processes), strict=True):
        named = _named(owner, document, None if alone else process)
        several = (replace(named, rank=n, trust=Trust.CONTENT, pid=None) for n in process.ranks)
        for who in several if len(process.ranks) > 1 else (named,):
            if process.threads:
                yield StackDump(
                    who=who,
                    tool=tool,
                    threads=process.threads,
                    source=document.source(process.line),
                    look=document.look or 0,
                    taken_at=document.taken_at,
                    command=process.command,
                    main_only=process.main_only,
                    copies=process.copies,
                )
            yield from facts_of(process.calls, who, document)


def _named(who: Who, document: Document, process: ProcessStacks | None) -> Who:
    """Call a process by the name of its file where nothing else tells it from others.

    ``process`` is given where there are several such in the file: the id of their main thread tells
    them apart; without one they stay nameless, because equal names would make them one process.
    """
    if who.rank is not None or who.pid is not None or who.label is not None:
        return who
    if who.local_rank is not None:
        return replace(who, label=f"local rank {who.local_rank}")
    name = title(document.path)
    if process is not None:
        tid = _identity(process)
        name = None if tid is None else f"{name or 'process'} (main thread {tid:#x})"
    return who if name is None else replace(who, label=name)


def _owners(outer: Who, processes: Sequence[ProcessStacks]) -> list[Who]:
    """Decide which of several processes the file's name, heading or prefix speaks of."""
    if outer is NOBODY:
        return _inherited([process.who for process in processes], processes)
    mains = [main_of(process.threads, process.who.pid) for process in processes]
    roles = [role_of_frames(main.frames if main is not None else ()) for main in mains]
    candidates = {
        _identity(process)
        for process, role in zip(processes, roles, strict=True)
        if role is Role.RANK
    }
    if outer.pid is not None and outer.pid in candidates:
        candidates = {outer.pid}
    single = len(candidates) <= 1
    owners = [
        join(process.who, Who(host=outer.host) if role is Role.LAUNCHER or not single else outer)
        for process, role in zip(processes, roles, strict=True)
    ]
    return owners if single else _inherited(owners, processes)


def _inherited(owners: list[Who], processes: Sequence[ProcessStacks]) -> list[Who]:
    """Give the child of a rank, a DataLoader worker, the number of its parent."""
    ranks = {who.pid: who for who in owners if who.rank is not None}
    return [
        replace(who, rank=parent.rank, trust=parent.trust)
        if who.rank is None and process.parent is not None and (parent := ranks.get(process.parent))
        else who
        for who, process in zip(owners, processes, strict=True)
    ]


def _identity(process: ProcessStacks) -> int | None:
    """Tell processes apart: by pid, else by the main thread's id; None: not to be told."""
    if process.who.pid is not None:
        return process.who.pid
    thread = main_of(process.threads, None)
    return thread.tid if thread is not None else None


class StackText(Record):
    """Reads what one tool prints, alone or inside logs.

    A text with one of ``marks`` in it is for this reader. ``sections`` is what takes the stacks
    out of a passage.
    """

    name: str
    tool: str
    marks: tuple[bytes, ...]
    sections: type[Sections]

    def sniff(self, document: Document) -> bool:
        """Return whether one of the marks is in the document."""
        return holds(document, self.marks)

    def read(self, document: Document) -> Iterator[Fact]:
        """Yield a dump for each process in the text, in its order."""
        garbled, ranks_left = 0, MAX_RANKS
        for passage in passages(document, self.marks):
            sections = self.sections()
            sections.ranks_left = ranks_left
            try:
                sections.read(passage)
            finally:  # what came before it took too long counts
                for section in sections.finish():
                    yield from dumps(document, self.tool, section, passage.who)
                    garbled += section.garbled
            ranks_left = sections.ranks_left
        if garbled:
            yield document.gap(
                f"{garbled} of them are garbled: several processes wrote into it at once",
                what=f"reading the stacks in {document.path}",
                cost="the processes they belong to are not placed",
                remedy="Dump one process at a time, or with py-spy",
            )
