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

from whyhang.analyzer.facts import NOBODY, Trust, Who, replace
from whyhang.collectors.files.naming import join

LONGEST_NUMBER = 10  # digits

_ANSI = r"(?:\x1b\[[0-9;]*m)*"
_CLOCK = re.compile(
    r"(?:\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\d]*(?:Z|[+-]\d\d:?\d\d)?\]? "
    r"(?:std(?:out|err) [FP] )?"  # container runtimes
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]+ [\w./-]+(?:\[\d+\])?: )"
)
_RANKS = ("rank", "composer", "rank2", "mpi", "ompi", "horovod", "petsc", "gdb4hpc")
_AXIS = r"(?:(?:ATTN|MOE)_)?(?:[DTPEC]P|[dtpc]p)"
_NUMBER = r"(?:(?:[_ ]?[Rr]ank)?[= :])?\d{1,4}"
_MESH = rf"(?:{_AXIS}{_NUMBER}[ _,|/.-]{{0,2}}){{1,6}}(?<![ _,|/.-])"
_MESH_PLACE = re.compile(rf"(?<![A-Za-z])({_AXIS})(?:(?:[_ ]?[Rr]ank)?[= :])?(\d{{1,4}})(?!\d)")
# Each alternative names its kind; the longest and surest come first.
_PREFIX = re.compile(
    _ANSI + r"(?:"
    # torch 2.2+, Lightning; of so many; Composer has process and thread behind it
    r"\[(?:rank|RANK|Rank)[ :=-]{0,2}(?P<rank>\d{1,6})(?:/\d{1,6})?\](?:: ?| \|\| ?| ?)"
    r"|rank(?P<composer>\d{1,6})\[\d+\]\[[^\]\n]{1,40}\]: (?:[A-Z]{4,8}: (?:[\w.]{1,80}: )?)?"
    r"|(?:rank|RANK|Rank)[ =]?(?P<rank2>\d{1,6})(?:: ?| ?\| ?)"
    # mpirun --tag-output, and SageMaker's
    r"|\[(?:[\w.-]+@)?\d+,(?:mpirank:)?(?P<mpi>\d{1,6})(?:,[\w.-]+)?\](?:<std\w+>:? ?|: ?)"
    # a component of Open MPI: host, job and rank; job 0 are its daemons, 2 and on are spawned
    r"|(?:\[(?P<on>[\w.-]{1,80})\])?\[\[\d+,1\],(?P<ompi>\d{1,6})\](?=\[|$)"
    r"|(?:[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})?"
    r"\[(?P<horovod>\d{1,6})\]<std\w+>:? ?"
    r"|\[(?P<petsc>\d{1,6})\]PETSC ERROR: ?"
    r"|[A-Za-z]\w{0,30}\{(?P<gdb4hpc>\d{1,6})\}: ?"  # gdb4hpc
    r"|(?P<mesh>\[" + _MESH + r"\]:? ?|" + _MESH + r"(?:: ?| \| ?))"  # programs that serve models
    r"|\[(?P<role>[A-Za-z_]+)(?P<local>\d{1,3})\]:"  # torchrun --tee: [default3]:
    r"|\[(?:gpu|GPU|(?i:local)(?:[ _-]?(?i:rank))?|lr)[ :=]?(?P<gpu>\d{1,3})\]:? ?"
    r"|\[pod/(?P<pod>[\w.-]+)/[\w.-]+\] "  # kubectl logs --prefix
    # SkyPilot, which counts nodes
    r"|\((?P<node>head|worker\d+), rank=\d+, pid=(?P<pid>\d+)(?:, ip=(?P<ip>[\w.:]+))?\) "
    r"|\((?P<actor>[\w.:<>-]{1,100}(?:\([^()]{0,100}\)|\[rank=\d{1,6}\])?"
    r"(?: [A-Z]{2}\d{1,4}){0,4})?"
    r"(?P<facts>(?:[ ,]*(?:pid|ip|rank|repeated|[dtpc]p(?:_rank)?)[= ][\w.:]+)+)\)"
    + _ANSI
    + r" ?"  # Ray, vLLM
    r"|(?P<host>localhost|(?:[a-z]{1,30}-){0,8}(?:worker|node|host|nid|master)"
    r"[\w.-]{0,60}?\d[\w.-]{0,60}): "  # pdsh, DeepSpeed
    r")"
)
_NUMBERED = re.compile(
    r" {0,5}(?P<rank>\d{1,6}): ?(?![\d:])| {0,4}\[(?P<rank2>\d{1,6})\](?::? (?!\d)|(?=[A-Za-z]))"
    r"|\[(?:r|rk|p|w|proc|worker|trainer|task)[-_ ]?(?P<rank4>\d{1,4})\]:? "
    r"|(?:(?:rank|Rank|RANK)[= ]|(?:[Pp]rocess|[Ww]orker) )(?P<rank3>\d{1,6})(?:: ?| +(?![\w]+=))"
)
OF_HOST = re.compile(
    r"(?!(?:rank|gpu|cuda|device|local|step|epoch|iter\w*|batch|stage|layer|part|shard|test|phase|task"
    r"|proc\w*|line|loss|[eprt])[-_ ]?\d+:)(?P<host>[A-Za-z][\w.-]{0,60}?\d[\w.-]{0,30}):(?: |$)",
    re.IGNORECASE,
)
_CONTAINER = re.compile(r"(?:> )?(?:\[[0-9a-f]{0,8}\]|[0-9a-f]{8}) (?=\[rank=)")  # of Determined
_SLURM = ("srun: ", "slurmstepd: ")  # speak for themselves between the lines of the tasks
_STARTS = frozenset("[(rRwnhm\x1bcigtpslabdDTPECSFMW")
_PIECES = re.compile(r"(?m)^(?P<tag>\[\d+,\d+\]<std\w+>:)(?P<rest>.*(?P=tag).*)$")
_OVERSEES = re.compile(r"(?:Controller|Driver|Coordinator|Supervisor)$")
"""Actors that are no rank: one in brackets behind their name is spoken of."""
_FACT = re.compile(r"(pid|ip|rank)[= ]([\w.:]+)")
_ROLES_THAT_ARE_NOT = frozenset(("gpu", "cuda", "node", "host", "epoch", "step", "iter", "e", "w"))


def in_one_piece(text: str) -> str:
    """Join the pieces in which a rank wrote a line, each of which mpirun has tagged."""
    if "]<std" not in text:
        return text
    return _PIECES.sub(lambda line: line["tag"] + line["rest"].replace(line["tag"], ""), text)


def split_prefix(line: str, *, numbered: bool = False) -> tuple[Who, str]:
    """Take the launcher's prefixes off a line: whom they name, and the rest of the line.

    ``numbered`` admits "3: " of ``srun -l`` and "[3] " of ``mpiexec -l``, which are prefixes only
    in a log where every line has one (``is_numbered``). With a torchrun prefix behind it, such a
    number counts nodes or tasks, not ranks.
    """
    if container := _CONTAINER.match(line):
        line = line[container.end() :]
    first = line[:1]
    if first not in _STARTS and not (numbered and (first == " " or first.isdigit())):
        return NOBODY, line
    who, end = _one_prefix(line, 0, numbered=numbered)
    if end == 0:
        return NOBODY, line
    while True:
        inner, further = _one_prefix(line, end, numbered=False)
        if further == end or (who.label is not None and _OVERSEES.search(who.label)):
            return who, line[end:]
        who, end = _nested(who, inner), further


def is_numbered(lines: Sequence[str]) -> bool:
    """Tell a log whose lines all begin with "3: ", as ``srun -l`` and ``mpiexec -l`` write it."""
    printed = [line for line in lines[:200] if line.strip() and not line.startswith(_SLURM)]
    if len(printed) < 2:
        return False
    return sum(_NUMBERED.match(line) is not None for line in printed) >= 0.9 * len(printed)


def is_by_host(lines: Sequence[str]) -> bool:
    """Tell a log whose lines all begin with names of hosts, as pdsh and its like write it.

    The names differ in their number alone.
    """
    printed = [line for line in lines[:200] if line.strip()]
    names = [match["host"] for line in printed if (match := OF_HOST.match(line))]
    stems = {re.sub(r"\d+", "", name) for name in names}
    several = 2 <= len(set(names)) <= len(names) / 2
    return several and len(stems) == 1 and len(names) >= 0.9 * len(printed)


def skip_clock(line: str) -> str:
    """Take a container's or journal's time stamp off the front of a line."""
    clock = _CLOCK.match(line)
    return line[clock.end() :] if clock else line


def _one_prefix(line: str, at: int, *, numbered: bool) -> tuple[Who, int]:
    if numbered and (number := _NUMBERED.match(line, at)):
        return _of_rank(int(next(filter(None, number.groups())))), number.end()
    prefix = _PREFIX.match(line, at)
    if prefix is None:
        return NOBODY, at
    who = _of_prefix(prefix[0])
    return who, at if who is NOBODY else prefix.end()


@functools.lru_cache(maxsize=65536)
def _of_rank(rank: int) -> Who:
    return Who(rank=rank, trust=Trust.PREFIX)


@functools.lru_cache(maxsize=65536)
def _of_prefix(text: str) -> Who:
    prefix = _PREFIX.match(text)
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
        label, pid = prefix["node"], _number(prefix["pid"])
        return Who(pid=pid, host=prefix["ip"] or label, label=label)
    if prefix["facts"]:
        return _of_actor(prefix["actor"] or "", prefix["facts"])
    return Who(host=prefix["host"], label=prefix["host"])


def _of_actor(actor: str, facts: str) -> Who:
    """Read "(RayTrainWorker pid=12, ip=10.0.0.1)", "(VllmWorker rank=3 pid=12)", "(A[rank=9])"."""
    values = dict(_FACT.findall(f"{actor} {facts}"))
    rank, pid = _number(values.get("rank", "")), _number(values.get("pid", ""))
    return Who(
        rank=rank,
        trust=Trust.NONE if rank is None else Trust.PREFIX,
        pid=pid,
        host=values.get("ip"),
        label=mesh_label(f"{actor} {facts}") or re.split(r"[(\[]", actor)[0] or None,
    )


def mesh_label(text: str) -> str | None:
    """Return the places in groups that a label names, as "DP0 TP1"; None where it names none."""
    places = _MESH_PLACE.findall(text)
    return " ".join(f"{axis.upper()}{number}" for axis, number in places) or None


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= LONGEST_NUMBER else None


@functools.lru_cache(maxsize=65536)
def _nested(outer: Who, inner: Who) -> Who:
    """Join a prefix with the one behind it, which stands closer to the process."""
    if inner.local_rank is not None:
        outer = replace(outer, rank=None, trust=Trust.NONE)
    return join(inner, outer)
