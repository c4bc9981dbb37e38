"""Whose a log is that tells no rank, by the others of its kind.

Logs of one job have names that differ in a number ("trainer_02-stderr.log", "worker-0a1b2.out"),
and most of them tell their rank: their lines are labelled, or a statement that all of them print
has it ("world_rank=2"). The number is the rank, or as far from it as in the others, where that goes
together, or where there are as many files as ranks; of a single one that tells nothing the rank is
the one that is left.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from whyhang.analyzer.facts import (
    Fact,
    LastLine,
    LogLine,
    LogTail,
    SignOfLife,
    StackDump,
    Trust,
    replace,
)
from whyhang.analyzer.job.world import size_in

LEAST = 2  # files of a kind
NUMBER = re.compile(r"(?<![a-z0-9])(?=[a-f]*\d)[0-9a-f]{4,}(?![a-z0-9])|\d+")
"""A number, or the hash that Ray gives each worker."""
_NO_RANKS = re.compile(
    r"(?i)(?:run|attempt|try|epoch|step|round|look|snap(?:shot)?|part|shard|batch|test|exp|job|v"
    r"|day|time|node|host|server|\.log|\.out|\.txt)[-_. ]?$"
)
"""Before a number that counts something else."""
_SAYS_RANK = re.compile(
    r"(?<![A-Za-z_])(?:(?:global|world)[_ ])?(?:rank|task|process|proc)[ =:#]{1,2}"
    r"(?P<rank>\d{1,6})\b",
    re.IGNORECASE,
)
_OF_ALL = re.compile(
    r"(?<![\w./:])(?P<rank>\d{1,5}) ?(?:/|of|von|sur|de|из|中) ?(?P<size>\d{1,5})(?![\w./:])"
)
"""A number, and of how many it is one."""
_OF_ONE = LogLine | LogTail | LastLine | StackDump | SignOfLife


def with_ranks_of_siblings(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Fill in the rank of facts from files that name none, where their siblings tell it."""
    spoken: dict[str, set[int | None]] = defaultdict(set)
    for fact in facts:
        if isinstance(fact, _OF_ONE):
            spoken[fact.source.file].add(fact.who.rank)
    nameless = [f for f in facts if isinstance(f, LogTail) and f.who.rank is None]
    printed, numbered = printed_ranks(nameless), _numbers_of_all(nameless)
    twice = {file for files in printed.values() if claimed_twice(files) for file in files}
    families: dict[str, list[str]] = defaultdict(list)
    for file in spoken:
        for kind in _kinds(file):
            families[kind].append(file)
    size = size_in(facts)
    ranks: dict[str, int] = {}
    for files in families.values():
        silent = any(spoken[file] == {None} for file in files)
        if silent and len(files) >= LEAST and not twice & {*files}:
            own = {file: spoken[file] - {None} or _printed_in(file, printed) for file in files}
            may_count = [*map(counts_ranks, NUMBER.split(files[0])[:-1])]
            ranks |= _ranks_of(files, own, may_count, size or _size_by(files, numbered))
    return [
        replace(fact, who=replace(fact.who, rank=ranks[fact.source.file], trust=Trust.INFERRED))
        if isinstance(fact, _OF_ONE)
        and fact.source.file in ranks
        and fact.who.rank is None
        and fact.who.local_rank is None
        else fact
        for fact in facts
    ]


def _numbers_of_all(tails: Iterable[LogTail]) -> Mapping[str, set[tuple[int, int]]]:
    """Return which numbers of how many each file tells: "Rang 2/4", "process 2 of 4"."""
    stated: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for tail in tails:
        for line in tail.lines:
            for number in _OF_ALL.finditer(line.text):
                stated[tail.source.file].add((int(number["rank"]), int(number["size"])))
    return stated


def _size_by(files: Sequence[str], stated: Mapping[str, set[tuple[int, int]]]) -> int | None:
    """Return how many files there are if each says to be one of so many, by its own number."""
    size = len(files)
    own = [[number for number, total in stated.get(file, ()) if total == size] for file in files]
    alone = all(
        len(numbers) == 1 and str(*numbers) in NUMBER.findall(f)
        for numbers, f in zip(own, files, strict=True)
    )
    return size if alone and len({*map(tuple, own)}) == size else None


def _kinds(file: str) -> set[str]:
    """Return a path without all of its numbers, and without each of them."""
    numbers = NUMBER.finditer(file)
    each = {f"{file[: number.start()]}#{file[number.end() :]}" for number in numbers}
    return {NUMBER.sub("#", file), *each}


def counts_ranks(front: str) -> bool:
    """Return whether a number behind this part of a name may be a rank."""
    return _NO_RANKS.search(front) is None


def printed_ranks(tails: Iterable[LogTail]) -> Mapping[str, Mapping[str, set[int]]]:
    """Return the ranks that statements of programs tell, by template and place."""
    printed: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for tail in tails:
        for line in tail.lines:
            if rank := _SAYS_RANK.search(line.text):
                printed[line.template][place_of(tail)].add(int(rank["rank"]))
    return printed


def place_of(tail: LogTail) -> str:
    """Return where a log was printed: its file, of one of several hosts that host, too."""
    return f"{tail.source.file} ({tail.who.host})" if tail.who.host else tail.source.file


def claimed_twice(files: Mapping[str, set[int]]) -> set[int]:
    """Return the ranks that several files say to be theirs, where each says one."""
    if any(len(ranks) > 1 for ranks in files.values()):
        return set()
    claims = Counter(rank for ranks in files.values() for rank in ranks)
    return {rank for rank, count in claims.items() if count > 1 and len(claims) > 1}


def _printed_in(file: str, printed: Mapping[str, Mapping[str, set[int]]]) -> set[int | None]:
    """Return the rank that a file tells in a statement that others make, each with its own."""
    known: set[int | None] = set()
    for files in printed.values():
        alike = [ranks for other, ranks in files.items() if other != file]
        if alike and all(len(ranks) == 1 and ranks != files.get(file) for ranks in alike):
            known |= files.get(file, set())
    return known


def _ranks_of(
    files: Sequence[str],
    own: Mapping[str, set[int | None]],
    may_count: Sequence[bool],
    size: int | None,
) -> dict[str, int]:
    """Return the ranks of the files of one kind; none where they hold several or contradict."""
    known = {file: rank for file in files for rank in own[file] if rank is not None}
    if any(len(own[file]) > 1 for file in files) or len(set(known.values())) < len(known):
        return {}
    rest = [file for file in files if file not in known]
    for may, column in zip(may_count, zip(*map(NUMBER.findall, files), strict=True), strict=True):
        number = {f: int(n) for f, n in zip(files, column, strict=True) if n.isdecimal()}
        everyone = set(number.values()) == set(range(len(files)))
        offsets = {rank - number.get(file, -1) for file, rank in known.items()}
        if not may:
            continue
        if everyone and (offsets == {0} or (not known and size == len(files))):
            return {file: number[file] for file in rest} | known
        if len(offsets) == 1 and len(set(number.values())) == len(files) and len(known) >= LEAST:
            return {file: number[file] + min(offsets) for file in rest} | known  # of a further node
    left = set(range(size or len(files))) - set(known.values())
    if len(rest) == len(left) == 1 and (size or len(known) >= LEAST):
        return {rest[0]: left.pop()} | known
    return known
