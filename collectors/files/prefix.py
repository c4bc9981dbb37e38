"""Launcher prefixes: whom a line of a log speaks of, and the line without them.

The shapes are those of torchrun (``--tee``, ``[default3]:``, a local rank), torch 2.2 and newer
(``[rank3]:``), ``srun -l`` (``3: ``), ``mpirun --tag-output`` (``[1,3]<stderr>:``), Ray and vLLM
(``(RayTrainWorker pid=12, ip=10.0.0.1)``), pdsh as DeepSpeed starts it (``worker-3: ``) and
``kubectl logs --prefix``. "[Rank 3]" behind the header of a c10d line is no prefix: that number
counts within a group.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from whyhang.analyzer.model import NOBODY, Trust, Who

_ANSI = r"(?:\x1b\[[0-9;]*m)*"
_CLOCK = (
    r"(?:\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\d]*(?:Z|[+-]\d\d:?\d\d)?\]? "
    r"(?:std(?:out|err) [FP] )?"  # container runtimes
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]+ [\w./-]+(?:\[\d+\])?: )"
)
# Each alternative names its kind; the longest and surest come first.
_PREFIX = re.compile(
    _ANSI + r"(?:"
    r"\[(?:rank|RANK|Rank)[ :=]{0,2}(?P<rank>\d{1,6})\](?:: ?| \|\| ?| ?)"  # torch 2.2+, Lightning
    r"|(?:rank|RANK|Rank)[ =]?(?P<rank2>\d{1,6}): ?"
    r"|\[(?:[\w.-]+@)?\d+,(?P<mpi>\d{1,6})\](?:<std\w+>:? ?|: ?)"  # mpirun --tag-output
    r"|\[(?P<role>[A-Za-z_]+)(?P<local>\d{1,3})\]:"  # torchrun --tee: [default3]:
    r"|\[(?:gpu|GPU)[ :]?(?P<gpu>\d{1,3})\]:? ?"
    r"|\[pod/(?P<pod>[\w.-]+)/[\w.-]+\] "  # kubectl logs --prefix
    r"|\((?P<actor>[\w.:<>-]{1,100}(?:\([^()]{0,100}\))?)?"
    r"(?P<facts>(?:[ ,]*(?:pid|ip|rank|repeated)[= ][\w.:]+)+)\)" + _ANSI + r" ?"  # Ray, vLLM
    r"|(?P<host>(?:[a-z]{1,30}-){0,8}(?:worker|node|host|nid|master)"
    r"[\w.-]{0,60}?\d[\w.-]{0,60}): "  # pdsh, DeepSpeed
    r")"
)
_NUMBERED = re.compile(r" {0,5}(?P<rank>\d{1,6}): ?(?![\d:])|\[(?P<rank2>\d{1,6})\]:? (?!\d)")
_SLURM = ("srun: ", "slurmstepd: ")  # speak for themselves between the lines of the tasks
_STARTS = frozenset("[(rRwnhm\x1bcigtpslab")
_FACT = re.compile(r"(pid|ip|rank)[= ]([\w.:]+)")
_ROLES_THAT_ARE_NOT = frozenset(("gpu", "cuda", "node", "host", "epoch", "step", "iter", "e", "w"))


def split_prefix(line: str, *, numbered: bool = False) -> tuple[Who, str]:
    """Take the launcher's prefixes off a line: whom they name, and the rest of the line.

    ``numbered`` admits "3: " of ``srun -l`` and "[3] " of ``mpiexec -l``, which are prefixes only
    in a log where every line has one (``is_numbered``). With a torchrun prefix behind it, such a
    number counts nodes or tasks, not ranks.
    """
    if line[9:15] == "[rank=":  # Determined: behind the container's id
        line = line[9:]
    first = line[:1]
    if first not in _STARTS and not (numbered and (first == " " or first.isdigit())):
        return NOBODY, line
    who, end = _one_prefix(line, 0, numbered=numbered)
    if end == 0:
        return NOBODY, line
    while True:
        inner, further = _one_prefix(line, end, numbered=False)
        if further == end:
            return who, line[end:]
        who, end = _nested(who, inner), further


def is_numbered(lines: Sequence[str]) -> bool:
    """Tell a log whose lines all begin with "3: ", as ``srun -l`` and ``mpiexec -l`` write it."""
    spoken = [line for line in lines[:200] if line.strip() and not line.startswith(_SLURM)]
    if len(spoken) < 2:
        return False
    return sum(_NUMBERED.match(line) is not None for line in spoken) >= 0.9 * len(spoken)


def skip_clock(line: str) -> str:
    """Take a container's or journal's time stamp off the front of a line."""
    found = _CLOCK_AT.match(line)
    return line[found.end() :] if found else line


_CLOCK_AT = re.compile(_CLOCK)


def _one_prefix(line: str, at: int, *, numbered: bool) -> tuple[Who, int]:
    if numbered and (found := _NUMBERED.match(line, at)):
        rank = int(found["rank"] or found["rank2"])
        return _prefix_rank(rank), found.end()
    found = _PREFIX.match(line, at)
    if found is None:
        return NOBODY, at
    who = _of_prefix(found[0])
    return who, at if who is NOBODY else found.end()


@functools.lru_cache(maxsize=65536)
def _prefix_rank(rank: int) -> Who:
    return Who(rank=rank, trust=Trust.PREFIX)


@functools.lru_cache(maxsize=65536)
def _of_prefix(text: str) -> Who:
    found = _PREFIX.match(text)
    if found is None:
        return NOBODY
    if digits := found["rank"] or found["rank2"] or found["mpi"]:
        return _prefix_rank(int(digits))
    if found["local"]:
        if found["role"].lower() in _ROLES_THAT_ARE_NOT:
            return NOBODY
        return Who(local_rank=int(found["local"]))
    if found["gpu"]:
        return Who(local_rank=int(found["gpu"]))
    if found["pod"]:
        return Who(label=found["pod"], host=found["pod"])
    if found["facts"]:
        return _of_actor(found["actor"] or "", found["facts"])
    return Who(host=found["host"], label=found["host"])


def _of_actor(actor: str, facts: str) -> Who:
    """Read "(RayTrainWorker pid=12, ip=10.0.0.1)" and "(VllmWorker rank=3 pid=12)"."""
    told = dict(_FACT.findall(f"{actor} {facts}"))
    rank = told.get("rank", "")
    pid = told.get("pid", "")
    return Who(
        rank=int(rank) if rank.isdecimal() else None,
        trust=Trust.PREFIX if rank.isdecimal() else Trust.NONE,
        pid=int(pid) if pid.isdecimal() else None,
        host=told.get("ip"),
        label=actor.partition("(")[0] or None,
    )


@functools.lru_cache(maxsize=65536)
def _nested(outer: Who, inner: Who) -> Who:
    """Join a prefix with the one behind it, which stands closer to the process."""
    rank, trust = inner.rank, inner.trust
    if rank is None and inner.local_rank is None:
        rank, trust = outer.rank, outer.trust
    return Who(
        rank=rank,
        trust=trust,
        host=inner.host or outer.host,
        pid=inner.pid if inner.pid is not None else outer.pid,
        local_rank=inner.local_rank if inner.local_rank is not None else outer.local_rank,
        label=inner.label or outer.label,
    )
