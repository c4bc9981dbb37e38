r"""How far ranks are, as people compare them: whose number is not that of the others.

``Rank 3 prints step 41, all the others step 42.``  ``Rank 0 at sequence 30, other ranks at 18``
``The last collective is 512 on rank 3 and 513 on everyone else.``  Who is behind did not come to
what the others did; who is ahead of all others made calls that they did not. Of two ranks none is
the odd one, and of a rank with two numbers a course of events is told.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from whyhang.analyzer.facts import Account, Deed, Trust, Who
from whyhang.analyzer.reading import Document
from whyhang.collectors import limits
from whyhang.collectors.stacks import heading
from whyhang.collectors.stacks.prose import RANKS, Prose, is_doubted, paragraphs, sentence_of

MOST_ODD = 8
FEWEST = 3  # ranks with numbers of which most have the same, where no "others" are named
FURTHER = 200  # characters from one number to the next that is compared with it

_UNITS = r"(?:ranks?|process(?:es)?|workers?|gpus?)"
_OTHERS = (
    rf"(?P<others>(?:all |every )?(?:of )?(?:the )?(?:others?|remaining|rest)(?: {_UNITS})?\b"
    r"|every(?:one|body) else|every other \w+)"
)
_WHO = rf"(?:(?<![\w.-])ranks?[-# ]?(?P<ranks>{RANKS})(?![\w.:/-])|\b{_OTHERS})"
_ONE = _WHO.replace(RANKS, r"\d{1,5}")  # "512 on rank 3 and 513 on rank 4"
_COUNTER = (
    r"(?:(?:global |training )?steps?|iter(?:ation)?s?|seq(?:uence)?s?|SeqNum|epochs?|collectives?"
    r"|op ?counts?|batch(?:es)?)"
)
_NO_OTHER = r"(?:(?!\branks? ?\d|\b(?:others?|rest|remaining|else)\b)[^.;\n]){0,40}?"
_NUMBER = r"(?<![\w.])#?(?P<number>\d{1,9})(?![\w.]*\d|[\w%])"
_SAYS = limits.compile(
    rf"{_WHO}{_NO_OTHER}\b(?:{_COUNTER}\W{{0,2}}(?:number |id |is |was |at |of |=)?|at ){_NUMBER}",
    re.IGNORECASE,
)
_TURNED = limits.compile(rf"{_NUMBER} (?:on|for|in|at|by) (?:the )?{_ONE}", re.IGNORECASE)
_COUNTS = re.compile(rf"\b{_COUNTER}\b", re.IGNORECASE)


def _accounts(document: Document) -> Iterator[Account]:
    for line, text in paragraphs(document):
        for pattern in (_SAYS, _TURNED) if _COUNTS.search(text) else ():
            numbers = list(pattern.finditer(text))
            near = [
                match
                for match in numbers
                if len(numbers) > 1 and match.start() - numbers[0].end() < FURTHER
            ]
            if any(is_doubted(text, match.start(), match.end()) for match in near):
                continue
            for rank, deed in _odd([match.groupdict() for match in near]):
                begin, _ = sentence_of(text, near[0].start())
                _, end = sentence_of(text, near[-1].start())
                yield Account(
                    who=Who(rank=rank, trust=Trust.CONTENT),
                    source=document.source(line),
                    deed=deed,
                    text=" ".join(text[begin:end].split()),
                )


def _odd(matches: Sequence[Mapping[str, str | None]]) -> Iterator[tuple[int, Deed]]:
    """Yield the ranks with another number than the others, and whether it is less or more."""
    of_ranks: dict[int, set[int]] = {}
    of_others = set[int]()
    for match in matches:
        number = int(match["number"] or 0)
        if match["others"]:
            of_others.add(number)
        for rank in heading.numbers(match["ranks"] or ""):
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


READER = Prose(name="how far ranks are, as people compare them", words=(b"rank",), facts=_accounts)
