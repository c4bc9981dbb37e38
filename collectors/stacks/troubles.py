r"""What people write that a job's trouble is about, where they name no rank.

``Training deadlocks in the DataLoader after 3 hours.``  ``It hangs unless P2P is disabled.``
``Slow loading of weights from NFS causes the timeout.``  Of the sentences of a person the one
counts that names a topic next to words of trouble; a text that names many topics is a guide, and
tells nothing.
"""

import functools
import re
from collections.abc import Iterator
from importlib.resources import files

import msgspec

from whyhang.analyzer.facts import NOBODY, Record, Subject, Trouble
from whyhang.analyzer.reading import Document
from whyhang.analyzer.toml import tomllib
from whyhang.collectors import limits
from whyhang.collectors.stacks.prose import Prose, paragraphs

LONGEST_SENTENCE = 500
MOST_TOPICS = 6  # of one text; more are those of a guide
NEAR = 200  # characters between a topic and words of trouble

_ENDS = re.compile(r"(?<=[.!?;])\s+|(?<=[\u3002\uff01\uff1f\uff1b])")
_ADVICE = re.compile(
    r"(?i)\bif you\b|\byou (?:can|may|could|should|need)\b|\bplease\b|\brecommended\b"
    r"|\blast (?:week|month|year)\b|\byesterday\b|\beither\b|\bat first\b"
    r"|^\W*(?:warning|if|unless)\b|\bolder version"
    r"|\b(?:may|might|could|would) (?:\w+ ){0,2}"
    r"(?:hang|dead-?lock|block|fail|stall|time|crash|freeze)"
)
"""What a program tells everybody beforehand, and what is supposed."""
_FUNCTION_WORD = re.compile(
    r"(?i)\b(?:the|an?|is|are|was|it|this|that|when|while|and|we|i|my|on|to|of|for|in|with|but|not)\b"
    r"|[\u4e00-\u9fff]"
)
_NEGATED = re.compile(
    r"(?i)(?:\b(?:no|not|isn't|wasn't|aren't|without|rules? out|ruled out|instead of) (?:\w+ ){0,3}"
    r"|non-)$"
)


class _Words(Record):
    """The words of trouble, and those of each topic, the specific before the general."""

    trouble: tuple[str, ...]
    topics: dict[Subject, tuple[str, ...]]


@functools.cache
def _patterns() -> tuple[limits.Pattern[str], dict[Subject, limits.Pattern[str]]]:
    text = files("whyhang.collectors.stacks").joinpath("troubles.toml").read_text(encoding="utf-8")
    words = msgspec.convert(tomllib.loads(text), _Words)
    return _any(words.trouble), {topic: _any(each) for topic, each in words.topics.items()}


def _any(words: tuple[str, ...]) -> limits.Pattern[str]:
    return limits.compile("|".join(words), re.IGNORECASE)


def _topics_of(sentence: str) -> Iterator[Subject]:
    """Yield the topics that a sentence names near words of trouble."""
    if not _FUNCTION_WORD.search(sentence) or _ADVICE.search(sentence):
        return
    trouble, topics = _patterns()
    troubles = [match.span() for match in trouble.finditer(sentence)]
    for topic, words in topics.items() if troubles else ():
        for match in words.finditer(sentence):
            near = any(
                begin - match.end() <= NEAR and match.start() - end <= NEAR
                for begin, end in troubles
            )
            if near and not _NEGATED.search(sentence, 0, match.start()):
                yield topic
                break


def _troubles(document: Document) -> Iterator[Trouble]:
    """Yield the most specific of the topics, where there are not too many."""
    firsts: dict[Subject, tuple[int, str]] = {}
    for number, text in paragraphs(document):
        for sentence in _ENDS.split(text):
            if 12 < len(sentence) <= LONGEST_SENTENCE:
                for topic in _topics_of(sentence):
                    firsts.setdefault(topic, (number, sentence.strip()))
    if 0 < len(firsts) <= MOST_TOPICS:
        topic = min(firsts, key=[*_patterns()[1]].index)
        number, sentence = firsts[topic]
        yield Trouble(who=NOBODY, source=document.source(number), subject=topic, text=sentence)


READER = Prose(name="what people say that a trouble is about", facts=_troubles)
