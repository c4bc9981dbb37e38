r"""How far ranks are, as people compare them: whose number is not that of the others.

``Rank 3 prints step 41, all the others step 42.``  ``Rank 0 at sequence 30, other ranks at 18``
``The last collective is 512 on rank 3 and 513 on everyone else.``  Who is behind did not come to
what the others did; who is ahead of all others made calls that they did not. Of two ranks none is
the odd one, and of a rank with two numbers a course of events is told.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from whyhang.analyzer.facts import Account, Deed, Trust, Who, unfold
from whyhang.analyzer.reading import Document
from whyhang.collectors.prose.phrases import phrases
from whyhang.collectors.prose.text import paragraphs

MOST_ODD = 8
FEWEST = 3  # ranks with numbers of which most have the same, where no "others" are named
FURTHER = 200  # characters from one number to the next that is compared with it


def comparisons(document: Document) -> Iterator[Account]:
    """Yield who is behind the others or ahead of them."""
    if b"rank" not in document.head.lower():
        return
    patterns = phrases().numbers
    for paragraph in paragraphs(document):
        if not patterns["counter"].search(paragraph.text):
            continue
        for pattern in (patterns["of-ranks"], patterns["on-ranks"]):
            numbers = list(pattern.finditer(paragraph.text))
            near = [
                match
                for match in numbers
                if len(numbers) > 1 and match.start() - numbers[0].end() < FURTHER
            ]
            if any(paragraph.is_doubted(*match.span()) for match in near):
                continue
            for rank, deed in _odd([match.groupdict() for match in near]):
                yield Account(
                    who=Who(rank=rank, trust=Trust.CONTENT),
                    source=document.source(paragraph.line(near[0].start())),
                    deed=deed,
                    text=paragraph.quote(near[0].start(), near[-1].start()),
                )


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
