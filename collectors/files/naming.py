"""Names: the one place where a file or folder name becomes a ``Who`` (prefixes: ``prefix.py``).

A name is a guess, so each says its trust. A number is a rank only where a
word says so ("rank3", "r03"); a bare number may be a date, a port, a job or a count, and stays
one unless its neighbours make it clear (``together``). "worker-7", "gpu3" and a launcher's
role name are not global ranks for sure, and are kept as what they are.
"""

import functools
import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from whyhang.analyzer import toml
from whyhang.analyzer.facts import NOBODY, Record, Trust, Who, replace


class _Table(Record):
    """What names may hold: ``forms`` of ranks, hosts, processes; words beside a bare number."""

    before_ranks: frozenset[str]
    moments: frozenset[str]
    never_evidence: frozenset[str]
    ordinary: frozenset[str]
    forms: dict[str, str]


_TABLE = toml.read(__package__, "naming.toml", _Table)
_FORMS = {name: re.compile(form, re.VERBOSE) for name, form in _TABLE.forms.items()}
NEVER_EVIDENCE, ORDINARY = _TABLE.never_evidence, _TABLE.ordinary


def from_path(path: str) -> Who:
    """Say whom a file is about, from its name and the folders it is in.

    A rank that a word spells out has ``Trust.FILE_NAME``; one that only a number or "worker"
    hints at has ``Trust.INFERRED``, and ``together`` decides whether the neighbours bear it out.
    """
    if torchrun := _FORMS["torchrun"].search(path):
        above = _of_folders(path[: torchrun.start()])
        return replace(above, local_rank=int(torchrun[1]))
    folders, _, name = path.rpartition("/")
    return join(_of_part(_FORMS["suffixes"].sub("", name) or name), _of_folders(folders))


def join(*sources: Who) -> Who:
    """Join what several sources say of one process: the most trusted rank, first of the rest."""
    best = max(sources, key=lambda who: who.trust if who.rank is not None else -1)
    rest = {
        name: next((own for who in sources if (own := getattr(who, name)) is not None), None)
        for name in ("host", "pid", "local_rank", "label")
    }
    return Who(rank=best.rank, trust=best.trust if best.rank is not None else Trust.NONE, **rest)


@functools.lru_cache(maxsize=4096)
def _of_folders(folders: str) -> Who:
    return join(*(_of_folder(part) for part in reversed(folders.split("/")) if part), NOBODY)


def _of_folder(part: str) -> Who:
    who = _of_part(part)
    if who.trust is Trust.INFERRED:  # "run7/", "0/": a number alone says even less of a folder
        return replace(who, rank=None, trust=Trust.NONE)
    return who


def _of_part(stem: str) -> Who:
    if last := _FORMS["rank-behind-host"].search(stem):
        return Who(rank=int(last["rank"]), trust=Trust.FILE_NAME, host=last["host"])
    if nccl := _FORMS["nccl-file"].match(stem):
        return Who(host=nccl["host"], pid=int(nccl["pid"]))
    host, pid = _host_and_pid(stem)
    rank, local_rank = _ranks(stem)
    trust = Trust.NONE if rank is None else Trust.FILE_NAME
    worker = _FORMS["worker"].search(stem)
    label = _label(stem, worker)
    if rank is None and pid is None:
        if worker is not None:
            rank, trust = int(worker["rank"]), Trust.INFERRED
        elif local_rank is None and host is None and label is None:
            rank = _bare_number(stem)
            trust = Trust.NONE if rank is None else Trust.INFERRED
    return Who(rank=rank, trust=trust, host=host, pid=pid, local_rank=local_rank, label=label)


def _ranks(stem: str) -> tuple[int | None, int | None]:
    ranks = {bool(word["local"]): int(word["rank"]) for word in _FORMS["rank"].finditer(stem)}
    if False not in ranks and (letter := _FORMS["r"].search(stem)):
        ranks[False] = int(letter["rank"])
    if True not in ranks and (gpu := _FORMS["gpu"].search(stem)):
        ranks[True] = int(gpu["local"])
    return ranks.get(False), ranks.get(True)


def _label(stem: str, worker: re.Match[str] | None) -> str | None:
    if mesh := _FORMS["mesh"].search(stem):
        return mesh[0]
    if worker is not None:
        return worker["label"]
    leader = _FORMS["leader"].search(stem)
    return leader[0] if leader else None


def _host_and_pid(stem: str) -> tuple[str | None, int | None]:
    host = _FORMS["host"].search(_FORMS["tools"].sub("", stem))
    rest = stem.replace(host["host"], "") if host else stem
    pid = _FORMS["pid"].search(rest) or _FORMS["pid-behind-tool"].search(rest)
    return (
        host["host"] if host else None,
        int(pid["pid"]) if pid and not _is_date(pid["pid"]) else None,
    )


def _bare_number(stem: str) -> int | None:
    if (task := _FORMS["behind-job"].match(stem)) and not _is_date(task["job"]):
        return int(task["rank"])
    bare = _FORMS["bare"].match(stem)
    if bare is None or _is_date(bare["rank"]):
        return None
    return int(bare["rank"]) if _are_before_ranks(bare["stem"]) else None


def _are_before_ranks(stem: str) -> bool:
    return _TABLE.before_ranks.issuperset(re.split(r"[-_. ]+", stem.lower()))


def _is_date(digits: str) -> bool:
    """Tell digits that are rather a date or a time of day: 20241011, 241011, 2024."""
    if len(digits) == 8:
        return digits[:2] in ("19", "20")
    if len(digits) == 6:
        return digits[:2] in ("22", "23", "24", "25", "26", "27", "28") and digits[2:4] <= "12"
    return len(digits) == 4 and digits[:2] == "20"


def together(paths: Sequence[str]) -> list[Who]:
    """Read many paths at once, so that their neighbours settle what one alone leaves open.

    A bare number ("stack_3.txt") is a rank where the files beside it count from 0 without a
    hole, a local rank where several folders each do so, else it is dropped. "worker-7" is
    dropped where a master stands beside it: Kubeflow's worker 0 is then rank 1. Of several log
    folders of torchrun each is that of one node, and is called by its own name.
    """
    owners = [from_path(path) for path in paths]
    _distinguish_agents(paths, owners)
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    leaders: set[str] = set()
    for number, (path, who) in enumerate(zip(paths, owners, strict=True)):
        folder, _, name = path.rpartition("/")
        if who.label is not None and _FORMS["leader"].fullmatch(who.label):
            leaders.add(folder)
        elif who.trust is Trust.INFERRED:
            groups[folder, re.sub(rf"(?<!\d)0*{who.rank}(?!\d)", "#", name, count=1)].append(number)
    shapes = Counter(shape for _, shape in groups)
    for (folder, shape), numbers in groups.items():
        ranks = sorted(owners[number].rank or 0 for number in numbers)
        if owners[numbers[0]].label is not None:
            is_settled = folder not in leaders
        else:
            is_settled = len(ranks) > 1 and ranks == list(range(len(ranks)))
        if is_settled and shapes[shape] == 1:
            continue
        for number in numbers:
            owners[number] = _without_rank(owners[number], paths[number], is_local=is_settled)
    return owners


def _distinguish_agents(paths: Sequence[str], owners: list[Who]) -> None:
    """Put the name of torchrun's log folder for the host, where there are several of them."""
    agents = {
        number: path[: torchrun.start()]
        for number, path in enumerate(paths)
        if owners[number].host is None and (torchrun := _FORMS["torchrun"].search(path))
    }
    if len(set(agents.values())) > 1:
        for number, agent in agents.items():
            owners[number] = replace(owners[number], host=agent.rpartition("/")[2] or None)


def _without_rank(who: Who, path: str, *, is_local: bool) -> Who:
    """Take back a rank that the neighbours speak against."""
    return replace(
        who,
        rank=None,
        trust=Trust.NONE,
        local_rank=who.rank if is_local and who.label is None else who.local_rank,
        label=who.label or _FORMS["suffixes"].sub("", path.rpartition("/")[2]),
    )


def title(path: str) -> str | None:
    """Give the telling part of a file name ("slaves" of gdb-slaves.txt), if it has one."""
    stem = _FORMS["suffixes"].sub("", path.rpartition("/")[2])
    bare = _FORMS["tools"].sub("", stem).strip("-_. ")
    return None if not bare or _are_before_ranks(bare) else bare


def may_be_host(name: str) -> bool:
    """Return whether a folder may be named after a host: "gpu-a", "n1"; not "look1" or "30s"."""
    words = re.findall(r"[a-z]+", name.lower())
    return any(len(word) > 1 and word not in _TABLE.moments for word in words) or bool(
        re.fullmatch(r"n\d+", name)
    )


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Order names as people do: rank9 before rank10."""
    return tuple(
        (1, int(part), part) if part.isdecimal() and part.isascii() else (0, 0, part)
        for part in re.split(r"([0-9]+)", name)
    )
