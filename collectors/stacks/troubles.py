r"""What people write that a job's trouble is about, where they name no rank.

``save_checkpoint stands under is_main_process, so the others never get to its barrier.``
``Training deadlocks in the DataLoader after 3 hours.``  ``It hangs unless P2P is disabled.``  Of
ranks that somebody saw, ``accounts`` and ``one_and_others`` read; this is of what they say in
general: why ranks differ, and what else a trouble is about. Of what the sentences near words of
trouble name the most specific counts; a text that names many things is a guide, and tells nothing.
"""

import functools
import re
from collections.abc import Iterator
from typing import TypeAlias

from whyhang.analyzer.facts import NOBODY, Record, Subject, Trouble
from whyhang.analyzer.reading import Document
from whyhang.collectors import limits, tables
from whyhang.collectors.stacks.prose import CELLS, Prose, paragraphs, sentences

LONGEST_SENTENCE = 500
MOST_TOPICS = 6  # of one text; more are those of a guide
NEAR = 2  # sentences between what they name and words of trouble

_DOUBTED = re.compile(
    r"(?i)\b(?:if you|you (?:can|may|could|should|need)|please|recommend\w*"
    r"|last (?:week|month|year)|yesterday|either|at first|(?:may|might|could) (?:\w+ ){0,2}"
    r"(?:hang|dead-?lock|block|fail|stall|time|crash|freeze)|make sure|ensure"
    r"|avoids?|prevents?|no longer|old(?:er)? versions?"
    r"|never hang\w*|(?:not|n't) (?:hang|deadlock|block))\b"
    r"|made no difference|no effect|(?:did|does) ?(?:n't|not) help|things (?:I|we) (?:have )?tried"
    r"|无用|没用|无效|^\W*(?:warning|unless|if(?! (?:one|an?|any|some) ))\b"
)
"""What is advised or supposed, is told of another time, or does not hang."""
_SUPPOSED = re.compile(r"(?i)\b(?:whether|may|might|could(?! ?n[o']t)|should|must)\b")
"""A mere supposition where it stands before the words."""
_FUNCTION_WORD = re.compile(
    r"(?i)\b(?:the|an?|is|are|was|it|this|that|when|while|and|we|i|my|on|to|of|for|in|with|but|not|can)\b"
    r"|[\u4e00-\u9fff]"
)
_NEGATED = re.compile(
    r"(?i)(?:\b(?:no|not|isn't|wasn't|aren't|without|rules? out|ruled out|instead of)"
    r" (?:[\w-]+ ){0,2}"
    r"|non-)$"
)
_MANUAL = re.compile(r"(?i)(?:^|/)(?:readme|changes|changelog|contributing|faq)\b|(?:^|/)docs?/")
"""What explains how a program works, not why a job hung."""


class _Table(Record):
    """The words of trouble, those of reasons and topics, and parts of theirs that have a name."""

    trouble: tuple[str, ...]
    words: dict[str, tuple[str, ...]]
    reasons: dict[Subject, tuple[str, ...]]
    topics: dict[Subject, tuple[str, ...]]


_Patterns: TypeAlias = dict[Subject, limits.Pattern[str]]


@functools.cache
def _patterns() -> tuple[limits.Pattern[str], _Patterns, _Patterns]:
    table = tables.read("stacks", "troubles.toml", _Table)

    def compiled(words: tuple[str, ...]) -> limits.Pattern[str]:
        return limits.compile(tables.any_of(words, table.words), re.IGNORECASE)

    reasons, topics = (
        {about: compiled(words) for about, words in each.items()}
        for each in (table.reasons, table.topics)
    )
    return compiled(table.trouble), reasons, topics


def _named(sentence: str, patterns: _Patterns) -> Iterator[Subject]:
    """Yield what a sentence names and does not take back."""
    if not _FUNCTION_WORD.search(sentence) or _DOUBTED.search(sentence):
        return
    for about, words in patterns.items():
        for match in words.finditer(sentence):
            start, end = match.span()
            if not _NEGATED.search(sentence, 0, start) and not _SUPPOSED.search(sentence, 0, end):
                yield about
                break


def _troubles(document: Document) -> Iterator[Trouble]:
    """Yield the most specific of what a text names, where that is not too much."""
    if _MANUAL.search(document.path):
        return
    written = [
        (number, sentence.strip())
        for number, text in paragraphs(document)
        for sentence in sentences(text)
        if len(sentence) <= LONGEST_SENTENCE and sentence.count("|") <= CELLS
    ]
    trouble, reasons, topics = _patterns()
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
        yield Trouble(who=NOBODY, source=document.source(number), subject=about, text=sentence)


READER = Prose(name="what people say that a trouble is about", facts=_troubles)
