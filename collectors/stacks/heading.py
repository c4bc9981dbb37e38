"""Lines that people and tools put above a stack, and whom they say it is about.

``=== Rank 3: http://node1:4711 ===`` (torch's debug server), ``6 processes are in:``,
``ranks 0-6:``, ``node48``, ``$ py-spy dump --pid 12``.
"""

from __future__ import annotations

import re

from whyhang.analyzer.facts import NOBODY, Record, Trust, Who, unfold
from whyhang.collectors import limits

LONGEST = 200  # characters; what is longer is a log line and no heading
FEW_WORDS = 6  # "rank 3 (node1, pid 12):" is a heading, "rank 0 saved step 10 to /data" is not

_RANK = re.compile(r"(?<![A-Za-z])(local[_ -]?)?rank[ _:=#-]{0,3}(\d{1,6})(?![\d.])", re.IGNORECASE)
_PID = re.compile(
    r"(?:(?<![A-Za-z])pid[ _:=#]{0,3}|--pid[= ]|py-spy dump -p "
    r"|\b(?:gdb|eu-stack|pstack|gstack)(?:(?: [^\n]{0,40}?)?(?: -p|--pid))? )(\d{1,7})(?![\d.])",
    re.IGNORECASE,
)
# Nothing but a number among processes: it may be a rank.
_NUMBERED = re.compile(r"\W*(process|worker|task) ?#?(\d{1,4})\W*$", re.IGNORECASE)
# ray stack puts the line of ps above each dump: "Stack dump for USER PID 0.1 0.2 …".
_RAY = re.compile(r"\s*Stack dump for \S+ +(\d{1,7}) ")
_SAYS_NOTHING = limits.compile(r"[ \t=#*_>|-]*+(?:\((?:gdb|lldb)\)[^\n]*|GNU gdb [^\n]*)?$")
_MESH = re.compile(r"(?:(?:dp|tp|pp|ep|cp|gpu|step|epoch|iter)[-_]?\d+[-_]?)+$", re.IGNORECASE)
_URL = re.compile(r"https?://([A-Za-z0-9_.-]+)(?::\d+)?")
_HOST = re.compile(
    r"(?:^\W*(?:host|hostname|node) +|(?<![A-Za-z])(?:host|hostname|node) ?[:=] ?)"
    r"([A-Za-z0-9][\w.-]*)",
    re.IGNORECASE,
)
_PROMPT = re.compile(r"^\[?[\w.-]+@([A-Za-z0-9][\w.-]*)[: \]].*[$#]")
_REMOTE = re.compile(
    r"(?<![A-Za-z])(?:ssh|kubectl exec(?: -\w+)*)\s+(?:\w+@)?([A-Za-z0-9][\w.-]*)\s"
)
_LONE_NAME = limits.compile(r"^[\W_]*([A-Za-z][\w.-]*\d[\w.-]*)[\W_]*$")
_COPIES = limits.compile(
    r"^\W*(?:the )?(?:other |all |remaining )?(\d{1,6})\s*x?\s*(?:other |more )?"
    r"(?:process(?:es)?|procs?|ranks|workers|gpus)\b",
    re.IGNORECASE,
)
_RANKS = limits.compile(
    r"^\W*(?:(?:and )?(?:all )?(?:the )?(?:other |remaining )?(?:global )?)?"
    r"ranks?[ :=(]*(\d[\d\s,&-]*(?:and \d[\d -]*)?)(?=[^\d\w]|$|\s*[a-z])",
    re.IGNORECASE,
)


class Heading(Record):
    """What the lines above a dump say of it. ``ranks``: several ranks stand there."""

    who: Who = NOBODY
    copies: int = 1
    ranks: tuple[int, ...] = ()

    def names_ranks(self) -> bool:
        """Return whether it says which ranks stand there, or how many, or on which host."""
        named = (self.who.rank, self.who.host)
        return named != (None, None) or self.copies > 1 or bool(self.ranks)

    def then(self, below: Heading, *, same: bool) -> Heading:
        """Go on to the heading below this one; ``same``: both stand above one stack.

        A host holds until the next host, a rank for one stack.
        """
        old, new = self.who, below.who
        keeps_rank = same and new.rank is None
        return Heading(
            who=Who(
                rank=old.rank if keeps_rank else new.rank,
                trust=old.trust if keeps_rank else new.trust,
                host=new.host or old.host,
                pid=old.pid if same and new.pid is None else new.pid,
                local_rank=old.local_rank if same and new.local_rank is None else new.local_rank,
                label=new.label or old.label,
            ),
            copies=self.copies if same and below.copies == 1 else below.copies,
            ranks=self.ranks if same and not below.ranks else below.ranks,
        )


def above(text: str) -> list[Heading]:
    """Read the last lines of what stands between two dumps, top to bottom."""
    lines = [line for line in text[-2000:].split("\n") if not _SAYS_NOTHING.match(line)]
    return [heading for line in lines[-3:] if (heading := read(line)) is not None]


def read(line: str) -> Heading | None:
    """Read one line; None where it says nothing about a process."""
    if ray := _RAY.match(line):
        return Heading(who=Who(pid=int(ray[1])))
    line = line.strip()
    if len(line) > LONGEST or not any(char.isalpha() for char in line):
        return None
    listed = _RANKS.match(line)
    ranks = unfold(listed[1]) if listed else ()
    if len(ranks) > 1:
        return Heading(ranks=ranks)
    copies = _COPIES.match(line)
    who = _who(line)
    if who == NOBODY and copies is None:
        return None
    return Heading(who=who, copies=max(1, int(copies[1])) if copies else 1)


def _who(line: str) -> Who:
    numbered = [(match[1] is not None, int(match[2])) for match in _RANK.finditer(line)]
    ranks = {rank for is_local, rank in numbered if not is_local}
    local_ranks = {rank for is_local, rank in numbered if is_local}
    pid = _PID.search(line)
    # Only the debug server's pages: gdb greets with the address of its manual.
    url = _URL.search(line) if numbered else None
    named = url or _PROMPT.match(line) or _REMOTE.search(line) or _HOST.search(line)
    host = named[1] if named else None
    label = None
    if numbered_line := _NUMBERED.match(line):
        label = f"{numbered_line[1].lower()} {int(numbered_line[2])}"
    elif host is None and not numbered and (lone := _LONE_NAME.match(line)):
        if _MESH.match(lone[1]):
            label = lone[1]
        else:  # "=== train-worker-3 ===": equal pids below other such lines are others
            host = lone[1]
    rank = ranks.pop() if len(ranks) == 1 else None
    trust = Trust.CONTENT if len(line.split()) <= FEW_WORDS else Trust.INFERRED
    return Who(
        rank=rank,
        trust=Trust.NONE if rank is None else trust,
        local_rank=local_ranks.pop() if len(local_ranks) == 1 else None,
        pid=int(pid[1]) if pid else None,
        host=host,
        label=label,
    )
