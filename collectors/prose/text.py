"""What people write of a hang, told from what programs print: paragraphs, sentences, doubts.

Which phrase means what stands in ``phrases.toml``.
"""

import bisect
import functools
import itertools
import re
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from whyhang.analyzer.facts import Deed, Record, Subject
from whyhang.analyzer.reading import Document
from whyhang.collectors import limits, tables
from whyhang.collectors.logs.text.clock import time_of
from whyhang.collectors.logs.text.line import Voice, take_apart

Pattern: TypeAlias = limits.Pattern[str]

LARGEST_BYTES = 64 << 10
LONGEST_PARAGRAPH = 4000
NO_PROSE = (".py", ".sh", ".toml", ".json", ".yaml", ".yml", ".cfg", ".ini", ".cpp", ".cu", ".h")
MANY = 4  # lines that are alike
CELLS = 2  # bars from which on a line is the row of a table
WRAPPED = 50  # characters from which on a line may be broken within a sentence

_NUMBER = re.compile(r"\d+")
_ITEM = re.compile(r"\s*(?:[-*•#]|\d+[.)]) ")
_MARKUP = str.maketrans("\u2013", "-", '*`"“”')
_PARTS = re.compile(r"\n|(?<=[.!?;])(?<!\.\.\.)\s+|(?<=[\u3002\uff01\uff1f\uff1b])")
_ENDS = re.compile(r"[.?!][\"')]?\s+|\n")
_CODE = re.compile(
    r"\s*(?:File \"|Traceback \(|frame #\d|#\d+ +0x|\w+ \([\w./<>]+\.\w+:\d+\)"
    r"|.{0,20}\[[VIWEF]\d{0,4} (?:[\d:.]+ )?\w+\.cpp:\d+\]"  # torch's own loggers
    r"|[\w.]+(?:Error|Exception): |\w+ +: |\w+: [A-Z]{4,} |[^|]*\d% ?[|#=]"
    r"|.*(?:\b\w+=[\d.e+-]+, ){2}"
    r"|.{0,200}\b(?:mpirun|mpiexec|orterun|srun|torchrun) --?[a-z]"
    r"|(?:\"\"\"|'''|//|#(?=\s*[a-z]))|(?:if|for|while|def|class|with|elif) [^.]*:\s*(?:#.*)?$"
    r"|(?:return|raise|assert) \S*[(\"']|[\w.]+(?:\[\w+\])? ?[-+*/]?= |[\w.]+\(.*[(),]\s*$)"
)
"""Comments, statements, commands, which tell what a program does, not what it did; stacks."""
_LEVEL = re.compile(
    r"\W*(?:INFO|DEBUG|WARN(?:ING)?|ERROR|FATAL|CRITICAL|NOTICE|TRACE)\b|\W*\d+\.\d{3,}\]"
)
"""The level of a logger, or the clock of a kernel."""
_GRAMMAR = re.compile(
    r"(?i)\b(?:the|an?|and|but|or|while|whereas|because|so|since|when|then|after|before|until"
    r"|others?|another|rest|remaining|all|every\w*|both|each|it|its|this|that|which|who|there"
    r"|here|never|yet|also|only|still|always|nothing|i|we|my|our|they|them)\b|n't\b"
)
"""Words that programs, which print statements, leave out as a rule."""
_MARKS = re.compile(r"^\W*[-*>#•] |^\s*\d+[.)] |`|\*\*")
_STOPS = re.compile(r"[.!?,;)]\W|[.!?,;:)\"'*`]+\s*$")
_GOES_ON = re.compile(r"\s*[a-z0-9,*`]")
_PROGRESS = re.compile(r"(?i)\W*(?:step|epoch|iter(?:ation)?)\W{0,2}\d+\b")
"""What a program prints of its steps: a line just above it is of the program, too."""


_MANUAL = re.compile(r"(?i)(?:^|/)(?:readme|changes|changelog|contributing|faq)\b|(?:^|/)docs?/")


class Phrases(Record):
    """The patterns of each part of the table, by what they mean; its comments say more."""

    doubt: dict[str, Pattern]
    signs: dict[str, Pattern]
    deeds: dict[Deed, Pattern]
    beside_others: dict[Deed, Pattern]
    numbers: dict[str, Pattern]
    contrasts: dict[str, Pattern]
    places: dict[str, Pattern]
    functions: dict[str, Pattern]
    reasons: dict[Subject, Pattern]
    topics: dict[Subject, Pattern]


@functools.cache
def phrases() -> Phrases:
    """Read the table, once."""
    return tables.patterns(__package__, "phrases.toml", Phrases, re.IGNORECASE)


class Paragraph(Record):
    """What stands together of a person, without marks.

    ``first`` is the number of its first line in the document. Of each of its lines: where it begins
    in the text, and the line as it stands there; the last one is what comes behind the paragraph.
    """

    text: str
    first: int
    starts: tuple[int, ...]
    lines: tuple[str, ...]

    def line(self, at: int) -> int:
        """Return on which line of the document a place of the text lies."""
        return self.first + bisect.bisect(self.starts, at) - 1

    def is_stated(self, start: int, end: int) -> bool:
        """Return whether the words at a place stand in a sentence, and are stated in it."""
        place = bisect.bisect(self.starts, start) - 1
        return _is_sentence(*self.lines[place : place + 2]) and not self.is_doubted(start, end)

    def is_doubted(self, start: int, end: int) -> bool:
        """Return whether the words at a place are not stated: supposed, asked, taken back."""
        doubt = phrases().doubt
        begin, over = self._sentence(start)
        sentence = self.text[begin:over].strip()
        if sentence.endswith("?") and doubt["asked"].search(self.text, begin, start):
            return doubt["supposed"].search(self.text, begin, end) is not None
        before = doubt["supposed"].search(self.text, begin, end)
        return bool(before or doubt["taken-back"].search(sentence))

    def quote(self, start: int, end: int | None = None) -> str:
        """Return the sentence around a place, or those from one to another."""
        begin = self._sentence(start)[0]
        return " ".join(self.text[begin : self._sentence(end or start)[1]].split())

    def sentences(self) -> list[str]:
        """Return its sentences, and the parts of those with a semicolon."""
        return _PARTS.split(self.text)

    def _sentence(self, at: int) -> tuple[int, int]:
        """Return where the sentence begins and ends in which a place lies."""
        ends = [match.end() for match in _ENDS.finditer(self.text)]
        begin = max((end for end in ends if end <= at), default=0)
        return begin, min((end for end in ends if end > at), default=len(self.text))


def is_prose(document: Document) -> bool:
    """Return whether a file may be what a person wrote: it is short, and no program."""
    return document.size <= LARGEST_BYTES and not document.path.endswith(NO_PROSE)


def is_manual(document: Document) -> bool:
    """Return whether a file tells how a program works, not why a job hung."""
    return _MANUAL.search(document.path) is not None


@functools.lru_cache(maxsize=4)
def paragraphs(document: Document) -> tuple[Paragraph, ...]:
    """Return what a person wrote in a short text.

    Lines with a header, a label or a time are a program's, and part paragraphs.
    """
    if not is_prose(document):
        return ()
    return tuple(_paragraphs(document.head.decode("utf-8", "replace")))


def _paragraphs(text: str) -> Iterator[Paragraph]:
    lines = [*text.split("\n"), ""]
    has_title, printed = not lines[1].strip(), _printed(lines)
    first, length = 0, 0
    for at, line in enumerate(lines):
        own = line.removeprefix("# ") if has_title and at == 0 else line
        is_own = bool(line.strip()) and len(line) <= LONGEST_PARAGRAPH and _is_persons(own)
        is_own = is_own and _template(line) not in printed
        length = length + len(line) if is_own else length
        if first < at + is_own and (not is_own or length > LONGEST_PARAGRAPH):
            yield _paragraph(lines, first, at + is_own)
        if not is_own or length > LONGEST_PARAGRAPH:
            first, length = at + 1, 0


def _printed(lines: Iterable[str]) -> frozenset[str]:
    """Return the templates of lines that are alike but for numbers, the first of which comes again.

    So ranks print their steps; a person says one thing of each.
    """
    numbers: dict[str, list[str]] = {}
    for line in lines:
        if number := _NUMBER.search(line):
            numbers.setdefault(_template(line), []).append(number[0])
    many = {each: own for each, own in numbers.items() if len(own) >= MANY}
    return frozenset(each for each, own in many.items() if len({*own}) < len(own))


def _template(line: str) -> str:
    return _NUMBER.sub("#", line.strip())


def _paragraph(lines: list[str], first: int, end: int) -> Paragraph:
    texts = [line.strip().lstrip(">#*-• ").translate(_MARKUP) for line in lines[first:end]]
    starts = [0]
    for text in texts[:-1]:
        starts.append(starts[-1] + len(text) + 1)
    joints = [  # a sentence may go on in the next line, which is no item of a list
        "\n" if _ITEM.match(after) or not (len(line) >= WRAPPED or _GOES_ON.match(after)) else " "
        for line, after in itertools.pairwise(lines[first:end])
    ]
    return Paragraph(
        text=texts[0] + "".join(map(str.__add__, joints, texts[1:])),
        first=first + 1,
        starts=tuple(starts),
        lines=(*lines[first : end + 1], "")[: end - first + 1],
    )


def _is_sentence(line: str, after: str) -> bool:
    """Return whether a line of a person is a sentence: it has the grammar, and is punctuated.

    ``after`` is the next line, in which a sentence may go on. Marks of Markdown are a person's;
    but a row of a table tells what may be as often as what was.
    """
    after = after.strip()
    if line.count("|") > CELLS or _PROGRESS.match(after):
        return False
    whole = len(line) >= WRAPPED or _STOPS.search(line) or _GOES_ON.match(after)
    return bool(_MARKS.search(line) or (whole and _GRAMMAR.search(f"{line} {after}")))


def _is_persons(line: str) -> bool:
    """Return whether a person may have written a line: no header, label or time is before it.

    Nor is it code.
    """
    if _CODE.match(line) or _LEVEL.match(line) or time_of(line, None) is not None:
        return False
    first, *others = take_apart(line, Voice())
    return not others and first.time is None and first.who.rank is None and first.who.pid is None
