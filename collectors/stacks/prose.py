"""What people write of a hang, told from what programs print, and the shell of its readers."""

import re
from collections.abc import Callable, Iterator

from whyhang.analyzer.facts import NOBODY, Fact, Frame, Record, StackDump, Thread, Who
from whyhang.analyzer.facts.stacks import SUMMARY
from whyhang.analyzer.reading import Document
from whyhang.collectors import limits
from whyhang.collectors.logs.text.line import Voice, take_apart
from whyhang.collectors.stacks.frames import MAIN

LARGEST_BYTES = 64 << 10
LONGEST_PARAGRAPH = 4000
MARKUP = str.maketrans("", "", '*`"“”')
NO_PROSE = (".py", ".sh", ".toml", ".json", ".yaml", ".yml", ".cfg", ".ini", ".cpp", ".cu", ".h")
RANKS = r"\d{1,5}(?:(?:\s*(?:,|/|&|and|-|,\s*and)\s*)\d{1,5}){0,64}"
"""The pattern of a list of ranks: "0-4, 6 and 7"."""
DOUBTED = re.compile(
    r"(?i)\b(?:if|when|whenever|suppose|e\.g|for example|must|may|might|can|could(?! ?n[o']t)"
    r"|would|should|will(?! be \w+ing)|whether|unless|perhaps|maybe|either|(?:not |un)sure"
    r"|no idea|wonder(?:ed)?|thought|believed|suspected|assumed|makes? sure|ensures?|expected"
    r"|used to|no longer|avoids?|prevents?|yesterday's|responsible for|in charge of|usually"
    r"|(?:old(?:er)?|earlier|previous) (?:versions?|releases?|runs?|jobs?)"
    r"|fix(?:e[sd])?(?=:| an? | the | where ))\b"
)
"""What is supposed, wished, asked for or of another time, where it stands before the words."""
_TAKEN_BACK = re.compile(r"(?i)\bat first\b|\botherwise\b|\blast (?:week|month|year)\b|\?\W*$")
_ASKS_MORE = re.compile(r"(?i)\b(?:why|what|how|where)\b")
_PARTS = re.compile(r"(?<=[.!?;])(?<!\.\.\.)\s+|(?<=[\u3002\uff01\uff1f\uff1b])")
_ENDS = re.compile(r"[.?!][\"')]?\s+")
_CODE = re.compile(
    r"\s*(?:File \"|Traceback \(|frame #\d|#\d+ +0x|\w+ \([\w./<>]+\.\w+:\d+\)"
    r"|[\w.]+(?:Error|Exception): |\w+ +: |\w+: [A-Z]{4,} |[^|]*\d% ?[|#=]"
    r"|.*(?:\b\w+=[\d.e+-]+, ){2}"
    r"|(?:\"\"\"|'''|//|#(?=\s*[a-z]))|(?:if|for|while|def|class|with|elif) [^.]*:\s*(?:#.*)?$"
    r"|(?:return|raise|assert) \S*[(\"']|[\w.]+(?:\[\w+\])? ?[-+*/]?= |[\w.]+\(.*[(),]\s*$)"
)
"""Comments and statements, which tell what a program does, not what it did; stacks."""


class Prose(Record):
    """Reads one kind of sentences; ``facts`` yields what a text says.

    If there are ``words``, one of them is in every text, in lower case, that holds such sentences.
    """

    name: str
    facts: Callable[[Document], Iterator[Fact]]
    words: tuple[bytes, ...] = ()

    def sniff(self, document: Document) -> bool:
        """Return whether it is a short text that says something."""
        if document.size > LARGEST_BYTES or document.path.endswith(NO_PROSE):
            return False
        low = document.head.lower() if self.words else b""
        if self.words and not any(word in low for word in self.words):
            return False
        try:
            return any(True for _ in self.facts(document))
        except limits.TooSlowError:  # no text of a person
            return False

    def read(self, document: Document) -> Iterator[Fact]:
        """Yield what it says."""
        yield from self.facts(document)


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
CELLS = 2  # bars from which on a line is the row of a table
WRAPPED = 50  # characters from which on a line may be broken within a sentence


def is_sentence(line: str, after: str) -> bool:
    """Return whether a line that may be a person's is one: it has the grammar, and is punctuated.

    ``after`` is the next line, in which a sentence may go on. Marks of Markdown are a person's;
    but a row of a table tells what may be as often as what was.
    """
    if not is_persons(line) or line.count("|") > CELLS:
        return False
    whole = len(line) >= WRAPPED or _STOPS.search(line) or _GOES_ON.match(after)
    return bool(_MARKS.search(line) or (whole and _GRAMMAR.search(f"{line} {after}")))


def is_persons(line: str) -> bool:
    """Return whether a person may have written a line: no header, label or time is before it.

    Nor is it code.
    """
    if _CODE.match(line) or _LEVEL.match(line):
        return False
    first, *others = take_apart(line, Voice())
    return not others and first.time is None and first.who.rank is None and first.who.pid is None


def sentence_of(text: str, start: int) -> tuple[int, int]:
    """Return where the sentence begins and ends in which a place lies."""
    ends = [match.end() for match in _ENDS.finditer(text)]
    begin = max((end for end in ends if end <= start), default=0)
    return begin, min((end for end in ends if end > start), default=len(text))


def is_doubted(text: str, start: int, end: int) -> bool:
    """Return whether the words at a place are not stated: supposed, asked, taken back."""
    begin, over = sentence_of(text, start)
    sentence = text[begin:over].strip()
    if sentence.endswith("?") and _ASKS_MORE.search(text, begin, start):
        return DOUBTED.search(text, begin, end) is not None
    return bool(DOUBTED.search(text, begin, end) or _TAKEN_BACK.search(sentence))


def paragraphs(document: Document) -> Iterator[tuple[int, str]]:
    """Yield what a person wrote, by paragraphs, without marks: the number of its line, the text.

    Lines with a header, a label or a time are a program's, and part paragraphs.
    """
    first, own = 0, list[str]()
    lines = document.head.decode("utf-8", "replace").split("\n")
    title = lines[0].removeprefix("# ")
    for number, line in enumerate([title, *lines[1:], ""], 1):
        is_own = bool(line.strip()) and len(line) <= LONGEST_PARAGRAPH and is_persons(line)
        if is_own:
            first = first if own else number
            own.append(line.strip().lstrip(">#*-• ").translate(MARKUP))
        if own and (not is_own or sum(map(len, own)) > LONGEST_PARAGRAPH):
            yield first, " ".join(own)
            own = []


def sentences(text: str) -> list[str]:
    """Return the sentences of a paragraph, and the parts of those with a colon or semicolon."""
    return _PARTS.split(text)


def standing(
    document: Document, who: Who, frames: tuple[Frame, ...], line: int, copies: int
) -> StackDump:
    """Return that ``copies`` processes are said to stand in a place."""
    return StackDump(
        who=who if who != NOBODY else document.who,
        tool=SUMMARY,
        threads=(Thread(frames=frames, name=MAIN, line=line),),
        source=document.source(line),
        look=document.look or 0,
        taken_at=document.taken_at,
        main_only=True,
        copies=copies,
    )
