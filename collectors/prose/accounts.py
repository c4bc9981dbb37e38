r"""What people write of ranks: what each did, how far it is, and how few differ from many.

*Deeds*: ``Ranks 1 and 2 never print that line.``  ``All GPUs except rank 0 raise a timeout.``
``Whichever rank has the least data leaves the loop; the remaining ranks block in the all-reduce.``
What one rank does beside others counts without its number, too, in a paragraph where the others
wait.

*Comparisons*: ``Rank 3 prints step 41, all the others step 42.``  ``Rank 0 at sequence 30, other
ranks at 18``. Who is behind did not come to what the others did; who is ahead of all others made
calls that they did not. Of two ranks none is the odd one, and of a rank with two numbers a course
of events is told.

*Contrasts*: ``Ranks 1-7 last printed "post-S2", rank 0 last printed "enter-X".``  ``Six ranks
report SeqNum=1, ranks 0 and 2 are already at SeqNum=2.`` What is said of each is compared in kind
only (it waits, it is away, or something else), so that sentences of any words count; what they mean
is left to the reader, and the few are a possibility.

Stacks tell more, and ``places`` reads those; here only words count, said of something that has
happened: neither what may happen nor what a program does as a rule.
"""

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from whyhang.analyzer.facts import NOBODY, Account, Deed, Record, Trust, Who, unfold
from whyhang.analyzer.reading import Document
from whyhang.collectors.prose.text import Paragraph, is_manual, paragraphs, phrases

MOST_DEEDS = 64  # of one text
MOST_ODD = 8
FEWEST = 3  # ranks with numbers of which most have the same, where no "others" are named
FURTHER = 200  # characters from one number to the next that is compared with it
MOST_FEW = 8  # ranks
TIMES = 3  # as many ranks as the few, the many have
LONGEST_CLAUSE = 240
OTHERS = 1 << 14  # how many "the others" are
NUMBERS = "one two three four five six seven eight nine ten eleven twelve"
_NUMBER = re.compile(r"\d+")


def accounts(document: Document) -> Iterator[Account]:
    """Yield what is said of ranks, in the order of the text."""
    of_ranks = (each for text in paragraphs(document) for each in _deeds(document, text))
    yield from itertools.islice(of_ranks, MOST_DEEDS)
    for paragraph in paragraphs(document):
        yield from _comparisons(document, paragraph)
    for paragraph in () if is_manual(document) else paragraphs(document):
        yield from _contrasts(document, paragraph)


def _account(
    document: Document, text: Paragraph, rank: int | None, deed: Deed, start: int, end: int = 0
) -> Account:
    """Return what is said of a rank in the sentence at a place, or up to that at another one."""
    return Account(
        who=NOBODY if rank is None else Who(rank=rank, trust=Trust.CONTENT),
        source=document.source(text.line(start)),
        deed=deed,
        text=text.quote(start, end or start),
    )


def _deeds(document: Document, paragraph: Paragraph) -> Iterator[Account]:
    signs = phrases().signs
    deeds = [*phrases().deeds.items()] if signs["ranks"].search(paragraph.text) else []
    if signs["others-wait"].search(paragraph.text):
        deeds += phrases().beside_others.items()
    for deed, pattern in deeds:
        for match in pattern.finditer(paragraph.text):
            if paragraph.is_stated(match.start(), match.end()):
                for rank in unfold(match["ranks"] or "") or [None]:
                    yield _account(document, paragraph, rank, deed, match.start())


def _comparisons(document: Document, paragraph: Paragraph) -> Iterator[Account]:
    """Yield who is behind the others or ahead of them."""
    patterns = phrases().numbers
    if not patterns["counter"].search(paragraph.text):
        return
    for pattern in (patterns["of-ranks"], patterns["on-ranks"]):
        numbers = list(pattern.finditer(paragraph.text))
        near = [
            match
            for match in numbers
            if len(numbers) > 1 and match.start() - numbers[0].end() < FURTHER
        ]
        if any(paragraph.is_doubted(*match.span()) for match in near):
            continue
        lines = {paragraph.line(match.start()) for match in near}
        if len(lines) > 1 and len({_NUMBER.sub("#", match[0]) for match in near}) == 1:
            continue  # a program's own lines, alike but for their numbers
        for rank, deed in _odd([match.groupdict() for match in near]):
            yield _account(document, paragraph, rank, deed, near[0].start(), near[-1].start())


def _odd(matches: Sequence[Mapping[str, str | None]]) -> Iterator[tuple[int, Deed]]:
    """Yield the ranks with another number than the others, and whether it is less or more."""
    of_ranks: dict[int, set[int]] = {}
    of_others = set[int]()
    for match in matches:
        number = int(match["number"] or 0)
        if match["others"]:
            of_others.add(number)
        for rank in unfold(match["ranks"] or ""):
            of_ranks.setdefault(rank, set()).add(number)
    if any(len(numbers) > 1 for numbers in of_ranks.values()) or len(of_others) > 1:
        return
    numbers = {rank: number for rank, (number,) in of_ranks.items()}
    usual, count = Counter(numbers.values()).most_common(1)[0] if numbers else (0, 0)
    if of_others:
        (usual,) = of_others
    elif len(numbers) < FEWEST or 2 * count <= len(numbers):
        return
    odd = {rank: number for rank, number in numbers.items() if number != usual}
    if len(odd) <= MOST_ODD:
        for rank, number in odd.items():
            yield rank, Deed.ABSENT if number < usual else Deed.AHEAD


class _Clause(Record):
    """What is written of some ranks: ``kind`` is "waits", "away" or ""."""

    ranks: tuple[int, ...]
    size: int
    kind: str
    numbers: frozenset[str]
    start: int


def _contrasts(document: Document, paragraph: Paragraph) -> Iterator[Account]:
    """Yield the ranks of which something else is written than of the many beside them.

    Only in a paragraph that is of a hang: some wait, or do not come, or it says so.
    """
    signs = phrases().signs
    clauses = list(_clauses(paragraph)) if signs["ranks"].search(paragraph.text) else []
    if any(clause.kind for clause in clauses) or signs["trouble"].search(paragraph.text):
        for clause in _few(clauses):
            for rank in clause.ranks:
                yield _account(document, paragraph, rank, Deed.CONTRASTED, clause.start)


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
        kinds = (k for k in ("away", "waits") if table[k].search(paragraph.text, match.end(), over))
        ranks, count = unfold(match["ranks"] or ""), match["count"]
        yield _Clause(
            ranks=ranks,
            size=len(ranks) or (_number(count) if count else OTHERS),
            kind=next(kinds, ""),
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
    named = sorted((key for key in sets if isinstance(key, tuple)), key=len)
    if OTHERS in sets and len(named) == 2 and set(named[0]).isdisjoint(named[1]):
        sets[named[1]] += sets.pop(OTHERS)  # they have been counted
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
