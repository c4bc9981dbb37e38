"""Who is absent from a list: where one process names the others, or all print the same line.

``actor joined (rank 2)``, ``worker 0 ready 3/4``: one line for each rank, in whatever order they
come. A number that is missing has not come, where nothing follows but waiting, or trouble; else it
ends for other reasons.

A job whose ranks write into one log says so, too: all have come to a line whose number stands
before it. A number that is missing among them, of as many as the highest tells, has not. Nothing is
concluded of a rank whose lines may stand elsewhere: in a file of its own, or without a label, as
rank 0 often prints for all.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from whyhang.analyzer.facts import LogTail, Outlook, OwnLine, Record, Source, grouped
from whyhang.analyzer.rank_state.from_logs.log_ends import NO_LOGS

LEAST = 2  # ranks that are named
FEW = 3  # one rank in so many may be absent, or one
MOST = 256  # ranks of a roll
DIGITS = 3
BEHIND = 2  # statements that may follow

_NAMES = re.compile(
    r"(?i)(?<![a-z])(?:rank|rank[ _]id|worker|peer|process|proc|client|member|actor|learner|replica"
    r"|participant|agent|task|trainer|partner|rang|prozess|ранг|pe)"
    r"[ _=:#(\[-]{0,3}$|(?:进程|节点|プロセス|ランク|卡) ?[:=#]? ?$"
)
_STARTS = re.compile(
    r"(?i)join|connect|regist|ready|\bup\b|online|arriv|hello|check(?:ed)?[ -]?in|came|here|attach"
    r"|start|bereit|angemeldet|已|接続|起動|参加"
)
_OTHERS = re.compile(
    r"(?i)loader|\bdata|\benv|thread|pool|exit|finish|done|end(?:ed|s)?\b|left|stop|died|lost"
    r"|disconnect|kill|fail|fertig|beendet|fini\b|termin[ée]|完成|结束|終了"
)
WAITS = re.compile(
    r"(?i)wait|still|wart|等待|待|time[d_ -]?out|elapsed|expired|retry|g[ai]v(?:e|ing) up|missing"
    r"|alive|not (?:all|every)|incomplete|deadline|quorum"
)
"""Words of a process that waits for others, or has waited in vain."""


class Absent(Record):
    """The ranks that a list of ``others`` lacks, and its last line.

    ``at_start``: it tells who comes.
    """

    ranks: tuple[int, ...]
    others: tuple[int, ...]
    line: OwnLine
    source: Source
    at_start: bool = False


def roll_call(tails: Iterable[LogTail], world_size: int | None) -> Absent | None:
    """Return the roll at the end of a log that lacks few ranks; none if there are several."""
    calls = [call for tail in tails for call in _of_tail(tail, world_size)]
    calls.sort(key=lambda call: not call.at_start)
    return calls[0] if len({call.ranks for call in calls}) == 1 else None


def _of_tail(tail: LogTail, world_size: int | None) -> Iterable[Absent]:
    if tail.outlook is Outlook.ENDED or tail.cut or tail.source.file.endswith(NO_LOGS):
        return
    statements = grouped(tail.lines, lambda line: line.template)
    for template, lines in statements.items():
        pieces = template.split("#")
        if len(pieces) != len(lines[0].values) + 1 or _OTHERS.search(template):
            continue
        for at, front in enumerate(pieces[:-1]):
            counted = pieces[at + 1].startswith("/")  # how many have come, of so many
            if not counted and _NAMES.search(front):
                call = _call(tail, lines, at, world_size)
                if call is None or _named_alike(call, template, statements, at):
                    continue
                beside = [
                    n for n, words in enumerate(pieces[:-1]) if n != at and _NAMES.search(words)
                ]
                named = {line.values[n] for line in lines for n in beside}
                if named.isdisjoint(map(str, call.ranks)):  # as the other side of a message
                    yield call


def _call(
    tail: LogTail, lines: Sequence[OwnLine], at: int, world_size: int | None
) -> Absent | None:
    numbers = [line.values[at] for line in lines]
    named = {int(number) for number in numbers if number.isdecimal() and len(number) <= DIGITS}
    if len(named) < len(numbers) or not LEAST <= len(named) <= MOST:
        return None  # numbers that come again, or are no ranks
    everyone = set(range(_size(lines, at, world_size, named)))
    if 0 not in named:
        everyone -= {0}  # who calls the roll
    absent = everyone - named - {tail.who.rank}
    if not absent or named - everyone or len(absent) > max(1, len(everyone) // FEW):
        return None
    last = lines[-1]
    follow = {line.template for line in tail.lines if line.number > last.number}
    works = tail.outlook is Outlook.STEPS and tail.lines[tail.decisive].number > last.number
    if works or sum(WAITS.search(template) is None for template in follow) > BEHIND:
        return None
    return Absent(
        ranks=tuple(sorted(absent)),
        others=tuple(sorted(named)),
        line=last,
        source=Source(file=tail.source.file, line=last.number),
        at_start=_STARTS.search(last.template) is not None,
    )


def _named_alike(
    call: Absent, template: str, statements: Mapping[str, Sequence[OwnLine]], at: int
) -> bool:
    """Return whether another line names one of the absent: of another role, or as it comes late."""
    words = template.split()
    alike = (
        line
        for other, lines in statements.items()
        if len(own := other.split()) == len(words)
        and sum(a != b for a, b in zip(own, words, strict=True)) == 1
        for line in lines
    )
    if any(line.values[at : at + 1] == (str(rank),) for line in alike for rank in call.ranks):
        return True
    name = re.search(r"(\w+)\W{0,4}$", template.split("#")[at])
    first = statements[template][0].number
    later = [line for lines in statements.values() for line in lines if line.number > first]
    return name is not None and any(
        re.search(rf"\b{re.escape(name[1])}\W{{0,4}}{rank}\b", line.text)
        and not WAITS.search(line.text)
        for rank in call.ranks
        for line in later
    )


def _size(lines: Sequence[OwnLine], at: int, world_size: int | None, named: set[int]) -> int:
    """Return how many ranks a roll should name: by the job, the line itself, or its highest."""
    columns = enumerate(zip(*(line.values for line in lines), strict=True))
    alike = (column[0] for place, column in columns if place != at and len(set(column)) == 1)
    stated = [int(value) for value in alike if value.isdecimal()]
    fitting = [size for size in stated if max(named) < size <= len(named) + len(named) // FEW + 1]
    return max(world_size or 0, max(named) + 1, *fitting, 0)


LEAST_SPEAKING = 3  # ranks
LEAST_BY_HAND = 2  # where somebody at the terminal gave up waiting for a third
FEW_ABSENT = 4  # one rank in so many may be absent, or one
MOST_SPEAKING = 64

_BY_HAND = re.compile(r"\^C|Ctrl-C|killing job")
"""Somebody stopped it, who saw that nothing more came."""


def unspoken(
    tails: Iterable[LogTail], world_size: int | None, sizes: Mapping[str, int]
) -> Absent | None:
    """Return the ranks that are absent from the line that all other ranks print in one log.

    ``sizes`` are the numbers of ranks that logs tell, by file.
    """
    by_file = grouped(tails, lambda tail: tail.source.file)
    stopped = [own for own in by_file.values() if any(map(_is_by_hand, own))]
    if len(stopped or by_file) != 1:
        return None
    (in_one,) = stopped or by_file.values()
    spoken = {tail.who.rank: tail for tail in in_one if tail.who.rank is not None and tail.whole}
    others = sorted(rank for rank in spoken if rank is not None)
    least = LEAST_BY_HAND if stopped else LEAST_SPEAKING
    troubled = any(tail.trouble and not _is_by_hand(tail) for tail in in_one)
    if not least <= len(others) <= MOST_SPEAKING or troubled:
        return None
    if any(tail.outlook in {Outlook.STEPS, Outlook.ENDED} for tail in in_one):
        return None  # they have met it there: its output is elsewhere
    size = sizes.get(in_one[0].source.file, world_size or 0)
    everyone = range(max(size, others[-1] + 1))
    absent = tuple(rank for rank in everyone if rank not in spoken)
    if not absent or len(absent) > max(1, len(others) // FEW_ABSENT):
        return None
    if 0 in absent and len(spoken) < len(in_one):
        return None  # lines without a label may be its
    templates = Counter(line.template for tail in spoken.values() for line in set(tail.lines[-1:]))
    last = spoken[others[-1]]
    conducts = len(others) >= LEAST_SPEAKING and 0 in spoken and _waits_for_all(spoken[0], last)
    alike = others[int(conducts) :]
    if max(templates.values()) < len(alike) and len(others) >= LEAST_SPEAKING:
        return None
    return Absent(ranks=absent, others=tuple(alike), line=last.lines[-1], source=last.source)


def _waits_for_all(tail: LogTail, other: LogTail) -> bool:
    """Return whether a rank that gives the others their work waits, in words of its own."""
    line = tail.lines[-1]
    return line.template != other.lines[-1].template and bool(WAITS.search(line.template))


def _is_by_hand(tail: LogTail) -> bool:
    return tail.trouble is not None and _BY_HAND.search(tail.trouble.text) is not None
