r"""What people write that a job's trouble is about, where they name no rank.

``save_checkpoint stands under is_main_process, so the others never get to its barrier.``
``Training deadlocks in the DataLoader after 3 hours.``  ``It hangs unless P2P is disabled.``  Of
ranks that somebody saw, ``accounts`` reads; this is of what they say in
general: why ranks differ, and what else a trouble is about. Of what the sentences near words of
trouble name the most specific counts; a text that names many things is a guide, and tells nothing.
"""

import re
from collections.abc import Iterator, Mapping

from whyhang.analyzer.facts import NOBODY, Subject, Trouble, Trust, Who
from whyhang.analyzer.reading import Document
from whyhang.collectors.prose.text import CELLS, Pattern, is_manual, paragraphs, phrases

LONGEST_SENTENCE = 500
MOST_TOPICS = 6  # of one text; more are those of a guide
NEAR = 2  # sentences between what they name and words of trouble

_SUBJECT = re.compile(
    r"(?:\W|\d+[.)] |(?:only|but|then|so|here|meanwhile|while)\b){0,6}"
    r"(?i:global )?[Rr]ank[- ]?(?P<rank>\d{1,6})(?![\w.:]|,? ?(?:-|\u2013|and|&|to|,) ?\d)",
    re.IGNORECASE,
)
_FUNCTION_WORD = re.compile(
    r"(?i)\b(?:the|an?|is|are|was|it|this|that|when|while|and|we|i|my|on|to|of|for|in|with|by|but|not|can)\b"
    r"|[\u4e00-\u9fff]"
)


def _named(sentence: str, patterns: Mapping[Subject, Pattern]) -> Iterator[Subject]:
    """Yield what a sentence names and does not take back."""
    doubt = phrases().doubt
    if not _FUNCTION_WORD.search(sentence) or doubt["advised"].search(sentence):
        return
    for about, words in patterns.items():
        for match in words.finditer(sentence):
            start, end = match.span()
            if not doubt["denied"].search(sentence, 0, start) and not doubt["possible"].search(
                sentence, 0, end
            ):
                yield about
                break


def troubles(document: Document) -> Iterator[Trouble]:
    """Yield the most specific of what a text names, where that is not too much."""
    if is_manual(document):
        return
    written = [
        (paragraph.first, sentence.strip())
        for paragraph in paragraphs(document)
        for sentence in paragraph.sentences()
        if len(sentence) <= LONGEST_SENTENCE and sentence.count("|") <= CELLS
    ]
    if not written:
        return
    trouble, reasons, topics = phrases().signs["trouble"], phrases().reasons, phrases().topics
    of_trouble = [at for at, (_, sentence) in enumerate(written) if trouble.search(sentence)]
    around = {near for at in of_trouble for near in range(at - NEAR, at + NEAR + 1)}
    firsts: dict[Subject, tuple[int, str]] = {}
    for of_topics in (of_trouble, around):  # the further ones where the nearest name nothing
        for at in sorted(around & {*range(len(written))}):
            number, sentence = written[at]
            for about in _named(sentence, reasons | topics if at in of_topics else reasons):
                firsts.setdefault(about, (number, sentence))
        if firsts:
            break
    if 0 < len(firsts) <= MOST_TOPICS:
        about = min(firsts, key=[*reasons, *topics].index)
        number, sentence = firsts[about]
        rank, who = _SUBJECT.match(sentence), NOBODY
        if rank and not phrases().contrasts["waits"].search(sentence):  # what it does, not awaits
            who = Who(rank=int(rank["rank"]), trust=Trust.CONTENT)
        yield Trouble(who=who, source=document.source(number), subject=about, text=sentence)
