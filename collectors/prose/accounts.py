r"""What people write of ranks: who did not come, ended, waits or works, and why the others wait.

``Ranks 1 and 2 never print that line.``  ``All GPUs except rank 0 raise a timeout.``  ``Whichever
rank has the least data leaves the loop; the remaining ranks block in the all-reduce.``  Stacks tell
more, and ``places`` reads those; here only words count, said of something that has happened:
neither what may happen nor what a program does as a rule. What one rank does beside others counts
without its number, too, in a paragraph where the others wait.
"""

import itertools
from collections.abc import Iterator

from whyhang.analyzer.facts import NOBODY, Account, Trust, Who, unfold
from whyhang.analyzer.reading import Document
from whyhang.collectors.prose.phrases import phrases
from whyhang.collectors.prose.text import Paragraph, paragraphs

MOST = 64  # accounts of one text


def accounts(document: Document) -> Iterator[Account]:
    """Yield what is said of ranks, in the order of the text."""
    of_ranks = (each for text in paragraphs(document) for each in _of_ranks(document, text))
    return itertools.islice(of_ranks, MOST)


def _of_ranks(document: Document, paragraph: Paragraph) -> Iterator[Account]:
    signs = phrases().signs
    deeds = [*phrases().deeds.items()] if signs["ranks"].search(paragraph.text) else []
    if signs["others-wait"].search(paragraph.text):
        deeds += phrases().beside_others.items()
    for deed, pattern in deeds:
        for match in pattern.finditer(paragraph.text):
            if paragraph.is_stated(match.start(), match.end()):
                ranks = unfold(match["ranks"] or "")
                for who in [Who(rank=rank, trust=Trust.CONTENT) for rank in ranks] or [NOBODY]:
                    yield Account(
                        who=who,
                        source=document.source(paragraph.line(match.start())),
                        deed=deed,
                        text=paragraph.quote(match.start()),
                    )
