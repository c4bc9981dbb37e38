"""What must be the same on all ranks, compared in one place: versions, libraries, settings.

Values come from settings, libraries and variables that collectors report (in live processes,
lines of NCCL's log, recorder dumps), and from the environment of processes, whose variables are
keys as well.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import (
    GpuAddress,
    Library,
    Record,
    Setting,
    Source,
    Variable,
    Who,
    grouped,
    ranks_in_words,
    short_host,
)

_FEW = 3

FAMILIES = ("GLOO_", "MASTER_", "NCCL_", "OMP_", "TORCH_", "WORLD_SIZE")
"""Variables that mostly are the same on all ranks."""

OF_RANK_0 = frozenset({"MASTER_ADDR", "MASTER_PORT"})

MOST_SETTINGS = 8

QUIET = ("driver", "cuda", "torch", "nccl")
"""Keys whose differences go into a note where no signature is about them."""


class Value(Record):
    """What one member has. ``build`` is that of a library: where it lies matters to nobody."""

    member: int
    text: str
    source: Source
    build: str | None = None


class Difference(Record):
    """Members differ in ``key``. ``usual`` is what the most have; ``odd`` have something else.

    ``tie``: no value has a majority.
    """

    key: str
    usual: str
    odd: tuple[Value, ...]
    most: tuple[Value, ...]
    tie: bool


def known_keys(case: Case, keys: Iterable[str]) -> list[str]:
    """Return those of ``keys`` that some member may have: most jobs have few."""
    names = {fact.name for fact in _stated(case)}
    live = any(member.processes for member in case.job.members)
    return [key for key in keys if key in names or (live and key.isupper())]


def values(case: Case, key: str) -> list[Value]:
    """Return what each member has under a key, as far as it is known."""
    by_member: dict[int, Value] = {}
    stated = [fact for fact in _stated(case) if fact.name == key]
    on_hosts = _on_hosts(case) if any(_is_of_host(fact.who) for fact in stated) else {}
    for fact in stated:
        text, build = (str(fact), fact.build) if isinstance(fact, Library) else (fact.value, None)
        for number in _about(case, fact.who, on_hosts):
            by_member[number] = Value(member=number, text=text, source=fact.source, build=build)
    if key.startswith("NCCL_") and by_member:
        # Whoever logged the start of a communicator would have logged this setting as well.
        for gpu in case.job.of(GpuAddress):
            member = case.job.member_of(gpu.who)
            if member is not None:
                by_member.setdefault(member.id, Value(member=member.id, text="", source=gpu.source))
    if key.isupper():
        for member in case.job.members:
            if member.processes and member.processes[-1].environ:
                last = member.processes[-1]
                text = last.environ.get(key, "")
                by_member.setdefault(
                    member.id, Value(member=member.id, text=text, source=last.source)
                )
    return [by_member[number] for number in sorted(by_member)]


def _about(case: Case, who: Who, on_hosts: Mapping[str, Sequence[int]]) -> Sequence[int]:
    """Return the members that a fact is about: a rank, or all on a host."""
    if _is_of_host(who):
        return on_hosts.get(short_host(who.host or ""), ())
    member = case.job.member_of(who)
    return () if member is None else (member.id,)


def _is_of_host(who: Who) -> bool:
    return who.host is not None and who.rank is None and who.pid is None


def _on_hosts(case: Case) -> dict[str, list[int]]:
    known = ((short_host(m.host), m.id) for m in case.job.members if m.host)
    return {host: [n for _, n in own] for host, own in grouped(known, itemgetter(0)).items()}


def _stated(case: Case) -> Iterator[Setting | Variable | Library]:
    for fact in case.job.statements:
        if isinstance(fact, Setting | Variable | Library):
            yield fact


def difference(
    case: Case, key: str, same: Callable[[str], str] = lambda text: text
) -> Difference | None:
    """Compare all members that have the key; ``same`` maps values that count as equal to one.

    Where ranks are to meet, rank 0 is: what it has is right, however many have something else.
    """
    known = values(case, key)
    of_rank_0 = [value for value in known if case.member(value.member).rank == 0]
    usual = same(of_rank_0[0].text) if of_rank_0 and key in OF_RANK_0 else None
    return compared(key, known, same, usual)


def compared(
    key: str,
    values: Iterable[Value],
    same: Callable[[str], str] = lambda text: text,
    usual: str | None = None,
) -> Difference | None:
    """Compare what members have; None where all have the same.

    ``usual`` is what is right, where that is known; else it is what the most have.
    """
    by_value = grouped(values, lambda value: same(value.build or value.text))
    if len(by_value) < 2:
        return None
    counts = Counter({text: len(own) for text, own in by_value.items()}).most_common()
    most = counts[0][0] if usual is None else usual
    return Difference(
        key=key,
        usual=most,
        odd=tuple(value for text, own in by_value.items() if text != most for value in own),
        most=tuple(by_value[most]),
        tie=usual is None and counts[1][1] == counts[0][1],
    )


def leading(parts: int) -> Callable[[str], str]:
    """Count versions as equal whose first numbers are."""

    def shorten(text: str) -> str:
        numbers = re.match(r"\d+(?:\.\d+)*", text)
        return ".".join(numbers[0].split(".")[:parts]) if numbers else text

    return shorten


def notes(case: Case, shown: str = "") -> tuple[str, ...]:
    """Return a line on differences that seldom matter and are not in ``shown``, the findings."""
    keys = {fact.name for fact in _stated(case)}
    differences = [
        diff
        for key in sorted(keys & {*QUIET, "libnccl.so", "librccl.so", "libtorch_cuda.so"})
        if (diff := difference(case, key)) is not None
    ]
    differences += [diff for diff in _settings(case) if diff.key not in shown][:MOST_SETTINGS]
    if not differences:
        return ()
    return (f"Ranks differ in: {'; '.join(_words(case, diff) for diff in differences)}.",)


def _settings(case: Case) -> list[Difference]:
    """List the settings in the environment that differ; not those that each rank has for itself."""
    keys = {
        key
        for member in case.job.members
        for process in member.processes[-1:]
        for key in process.environ
        if key.startswith(FAMILIES)
    }
    differences = [diff for key in sorted(keys) if (diff := difference(case, key)) is not None]
    return [diff for diff in differences if len(diff.most) > 1 or len(diff.odd) == 1]


def _words(case: Case, diff: Difference) -> str:
    by_value = grouped((*diff.odd, *diff.most), lambda value: value.text)
    parts = [
        f"{text or 'not set'} on {ranks_in_words(case.ranks(value.member for value in own))}"
        for text, own in list(by_value.items())[:_FEW]
    ]
    more = f" and {len(by_value) - _FEW} more" if len(by_value) > _FEW else ""
    return f"{diff.key} ({', '.join(parts)}{more})"
