r"""What is written of few ranks beside many: the few that do not do as the many.

``Ranks 1-7 last printed "post-S2", rank 0 last printed "enter-X".``
``Six ranks report SeqNum=1, ranks 0 and 2 are already at SeqNum=2.``
``Rank 0 state: in MPI_Allreduce`` beside ``Rank 1 state: no logs.``
What is said of each is compared in kind only (it waits, it is away, or something else), so that
sentences of any words count; what they mean is left to the reader, and the few are a possibility.
"""

import re
from collections.abc import Iterator

from whyhang.analyzer.facts import Account, Deed, Record, Trust, Who, unfold
from whyhang.analyzer.reading import Document
from whyhang.collectors.prose.phrases import phrases
from whyhang.collectors.prose.text import Paragraph, is_manual, paragraphs

MOST_FEW = 8  # ranks
TIMES = 3  # as many ranks as the few, the many have
LONGEST_CLAUSE = 240
_NUMBER = re.compile(r"\d+")
NUMBERS = "one two three four five six seven eight nine ten eleven twelve"
OTHERS = 1 << 14  # how many "the others" are


class _Clause(Record):
    """What is written of some ranks: ``kind`` is "waits", "away" or ""."""

    ranks: tuple[int, ...]
    size: int
    kind: str
    numbers: frozenset[str]
    start: int


def contrasts(document: Document) -> Iterator[Account]:
    """Yield the ranks of which something else is written than of the many beside them."""
    for paragraph in () if is_manual(document) else paragraphs(document):
        if not phrases().signs["ranks"].search(paragraph.text):
            continue
        clauses = list(_clauses(paragraph))
        for clause in _few(clauses) if _in_trouble(paragraph, clauses) else ():
            for rank in clause.ranks:
                yield Account(
                    who=Who(rank=rank, trust=Trust.CONTENT),
                    source=document.source(paragraph.line(clause.start)),
                    deed=Deed.CONTRASTED,
                    text=paragraph.quote(clause.start),
                )


def _in_trouble(paragraph: Paragraph, clauses: list[_Clause]) -> bool:
    """Return whether a paragraph is of a hang: some wait, or do not come, or it says so."""
    return any(clause.kind for clause in clauses) or bool(
        phrases().signs["trouble"].search(paragraph.text)
    )


def _clauses(paragraph: Paragraph) -> Iterator[_Clause]:
    """Yield what is stated of ranks, from the words that name them to the next that do."""
    table = phrases().contrasts
    subjects = list(table["whom"].finditer(paragraph.text))
    ends = [*(match.start() for match in subjects[1:]), len(paragraph.text)]
    for match, end in zip(subjects, ends, strict=False):
        over = min(end, match.end() + LONGEST_CLAUSE)
        stop = table["stop"].search(paragraph.text, match.end(), over)
        over = stop.start() if stop else over
        if paragraph.is_doubted(match.start(), over):
            continue
        kinds = [
            kind
            for kind in ("away", "waits")
            if table[kind].search(paragraph.text, match.end(), over)
        ]
        ranks, count = unfold(match["ranks"] or ""), match["count"]
        yield _Clause(
            ranks=ranks,
            size=len(ranks) or (_number(count) if count else OTHERS),
            kind=kinds[0] if kinds else "",
            numbers=frozenset(_NUMBER.findall(paragraph.text, match.end(), over)),
            start=match.start(),
        )


def _number(word: str) -> int:
    return int(word) if word.isdecimal() else NUMBERS.split().index(word.lower()) + 1


def _few(clauses: list[_Clause]) -> list[_Clause]:
    """Return the clause of the few, where all that is written is of them and of one other set."""
    sets: dict[object, list[_Clause]] = {}
    for clause in clauses:
        sets.setdefault(clause.ranks or clause.size, []).append(clause)
    if len(sets) != 2:
        return []
    few, many = sorted(sets.values(), key=lambda each: each[0].size)
    kinds = [{clause.kind for clause in each} - {""} for each in (few, many)]
    if few[0].size == many[0].size == 1:
        if kinds == [{"waits"}, {"away"}]:
            return many[:1]
        return few[:1] if kinds == [{"away"}, {"waits"}] else []
    is_small = few[0].size <= MOST_FEW and TIMES * few[0].size <= many[0].size
    is_part = set(few[0].ranks) <= set(many[0].ranks)
    is_alike = {each.numbers for each in few} & {each.numbers for each in many if each.numbers}
    is_odd = "waits" not in kinds[0] and "away" not in kinds[1] and not is_alike
    return few[:1] if is_small and is_odd and not is_part else []
