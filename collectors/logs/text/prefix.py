"""Launcher prefixes: whom a line of a log speaks of, and the line without them.

The shapes are those of torchrun (``--tee``, ``[default3]:``, a local rank), torch 2.2 and newer
(``[rank3]:``), ``srun -l`` (``3: ``), ``mpirun --tag-output`` (``[1,3]<stderr>:``), Ray and vLLM
(``(RayTrainWorker pid=12, ip=10.0.0.1)``), pdsh as DeepSpeed starts it (``worker-3: ``),
horovodrun (``[3]<stderr>:``) and ``kubectl logs --prefix``. "TP3: " names a rank within a group
of tensor parallel ranks and is kept as a label. "[Rank 3]" behind the header of a c10d line is no
prefix: that number counts within a group.
"""

import functools
import re
from collections.abc import Sequence

from whyhang.analyzer.facts import NOBODY, Record, Trust, Who, replace, whole
from whyhang.collectors import tables
from whyhang.collectors.files.naming import join

LONGEST_NUMBER = 10  # digits


class _Labels(Record):
    clock: re.Pattern[str]
    mesh_place: re.Pattern[str]
    prefix: re.Pattern[str]
    numbered: re.Pattern[str]
    of_host: re.Pattern[str]
    container: re.Pattern[str]
    pieces: re.Pattern[str]
    oversees: re.Pattern[str]
    fact: re.Pattern[str]


LABELS = tables.patterns(__package__, "prefix.toml", _Labels)

_RANKS = ("rank", "composer", "rank2", "mpi", "ompi", "horovod", "petsc", "gdb4hpc")
_SLURM = ("srun: ", "slurmstepd: ")  # speak for themselves between the lines of the tasks
_STARTS = frozenset("[(rRwnhm\x1bcigtpslabdDTPECSFMW")
_ROLES_THAT_ARE_NOT = frozenset(("gpu", "cuda", "node", "host", "epoch", "step", "iter", "e", "w"))


def in_one_piece(text: str) -> str:
    """Join the pieces in which a rank wrote a line, each of which mpirun has tagged."""
    if "]<std" not in text:
        return text
    return LABELS.pieces.sub(lambda line: line["tag"] + line["rest"].replace(line["tag"], ""), text)


def split_prefix(line: str, *, numbered: bool = False) -> tuple[Who, str]:
    """Take the launcher's prefixes off a line: whom they name, and the rest of the line.

    ``numbered`` admits "3: " of ``srun -l`` and "[3] " of ``mpiexec -l``, which are prefixes only
    in a log where every line has one (``is_numbered``). With a torchrun prefix behind it, such a
    number counts nodes or tasks, not ranks.
    """
    if container := LABELS.container.match(line):
        line = line[container.end() :]
    first = line[:1]
    if first not in _STARTS and not (numbered and (first == " " or first.isdigit())):
        return NOBODY, line
    who, end = _one_prefix(line, 0, numbered=numbered)
    if end == 0:
        return NOBODY, line
    while True:
        inner, further = _one_prefix(line, end, numbered=False)
        if further == end or (who.label is not None and LABELS.oversees.search(who.label)):
            return who, line[end:]
        who, end = _nested(who, inner), further


def is_numbered(lines: Sequence[str]) -> bool:
    """Tell a log whose lines all begin with "3: ", as ``srun -l`` and ``mpiexec -l`` write it."""
    printed = [line for line in lines[:200] if line.strip() and not line.startswith(_SLURM)]
    if len(printed) < 2:
        return False
    return sum(LABELS.numbered.match(line) is not None for line in printed) >= 0.9 * len(printed)


def is_by_host(lines: Sequence[str]) -> bool:
    """Tell a log whose lines all begin with names of hosts, as pdsh and its like write it.

    The names differ in their number alone.
    """
    printed = [line for line in lines[:200] if line.strip()]
    names = [match["host"] for line in printed if (match := LABELS.of_host.match(line))]
    stems = {re.sub(r"\d+", "", name) for name in names}
    several = 2 <= len(set(names)) <= len(names) / 2
    return several and len(stems) == 1 and len(names) >= 0.9 * len(printed)


def skip_clock(line: str) -> str:
    """Take a container's or journal's time stamp off the front of a line."""
    clock = LABELS.clock.match(line)
    return line[clock.end() :] if clock else line


def _one_prefix(line: str, at: int, *, numbered: bool) -> tuple[Who, int]:
    if numbered and (number := LABELS.numbered.match(line, at)):
        return _of_rank(int(next(filter(None, number.groups())))), number.end()
    prefix = LABELS.prefix.match(line, at)
    if prefix is None:
        return NOBODY, at
    who = _of_prefix(prefix[0])
    return who, at if who is NOBODY else prefix.end()


@functools.lru_cache(maxsize=65536)
def _of_rank(rank: int) -> Who:
    return Who(rank=rank, trust=Trust.PREFIX)


@functools.lru_cache(maxsize=65536)
def _of_prefix(text: str) -> Who:
    prefix = LABELS.prefix.match(text)
    if prefix is None:
        return NOBODY
    if digits := next(filter(None, map(prefix.__getitem__, _RANKS)), None):
        return replace(_of_rank(int(digits)), host=prefix["on"])
    if prefix["mesh"]:
        return Who(label=mesh_label(prefix["mesh"]))
    if prefix["local"]:
        is_other = prefix["role"].lower() in _ROLES_THAT_ARE_NOT
        return NOBODY if is_other else Who(local_rank=int(prefix["local"]))
    if prefix["gpu"]:
        return Who(local_rank=int(prefix["gpu"]))
    if prefix["pod"]:
        return Who(label=prefix["pod"], host=prefix["pod"])
    if prefix["node"]:
        label, pid = prefix["node"], whole(prefix["pid"], LONGEST_NUMBER)
        return Who(pid=pid, host=prefix["ip"] or label, label=label)
    if prefix["facts"]:
        return _of_actor(prefix["actor"] or "", prefix["facts"])
    return Who(host=prefix["host"], label=prefix["host"])


def _of_actor(actor: str, facts: str) -> Who:
    """Read "(RayTrainWorker pid=12, ip=10.0.0.1)", "(VllmWorker rank=3 pid=12)", "(A[rank=9])"."""
    values = dict(LABELS.fact.findall(f"{actor} {facts}"))
    rank, pid = (whole(values.get(name), LONGEST_NUMBER) for name in ("rank", "pid"))
    return Who(
        rank=rank,
        trust=Trust.NONE if rank is None else Trust.PREFIX,
        pid=pid,
        host=values.get("ip"),
        label=mesh_label(f"{actor} {facts}") or re.split(r"[(\[]", actor)[0] or None,
    )


def mesh_label(text: str) -> str | None:
    """Return the places in groups that a label names, as "DP0 TP1"; None where it names none."""
    places = LABELS.mesh_place.findall(text)
    return " ".join(f"{axis.upper()}{number}" for axis, number in places) or None


@functools.lru_cache(maxsize=65536)
def _nested(outer: Who, inner: Who) -> Who:
    """Join a prefix with the one behind it, which stands closer to the process."""
    if inner.local_rank is not None:
        outer = replace(outer, rank=None, trust=Trust.NONE)
    return join(inner, outer)
