r"""What people write of one rank beside the others: what it does while they wait, and why.

``Whichever rank has the least data leaves the loop; the remaining ranks block in the all-reduce.``
``One worker stalled in its read of the checkpoint and the other 31 waited in the barrier.``  Its
number is mostly not there; what it does tells the kind of hang. Only what stands in one paragraph
with words that the others wait counts, and what all ranks ran into ("every rank OOM'd").
"""

import re
from collections.abc import Iterator

from whyhang.analyzer.facts import NOBODY, Account, Deed, Trust, Who
from whyhang.analyzer.reading import Document
from whyhang.collectors import limits
from whyhang.collectors.stacks import heading
from whyhang.collectors.stacks.prose import DOUBTED, MARKUP, Prose, paragraphs, sentences

LONGEST_SENTENCE = 400

_UNIT = r"(?:ranks?|process(?:es)?|workers?|nodes?|gpus?|tasks?|hosts?)\b"
_NUMBERED = (
    r"(?<![\w.-])(?:global )?ranks?[-# ]?(?P<ranks>\d{1,5}(?:(?:, | and |,)\d{1,5}){0,8})"
    r"(?![\w.:/-])"
)
_UNNUMBERED = (
    r"(?<![\w.-])(?:exactly |only )?(?:(?:one|1|a single|some|whichever)(?: of the)?"
    r"(?: [\w-]+){0,2}?"
    r"|(?:the|a) (?:remote|last|slow\w*|fast\w*|first|odd|lagging|straggling|same|shortest|other)) "
    + _UNIT
)
_ONE = f"(?:{_NUMBERED}|{_UNNUMBERED})"
_ALL = r"\b(?:all|every|each|both) (?:single |of the )?(?:\d+ )?(?:\w+ )?" + _UNIT
_BETWEEN = r"(?:(?!\branks? ?\d|\b(?:others?|rest|remaining)\b)[^.;\n]){0,80}?"
_OTHERS_WAIT = limits.compile(
    r"\b(?:others?|remaining|rest|all but (?:one|1)|everyone else|ranks? \d[\d, -]*(?:and \d+)?)\b"
    r"[^.;]{0,80}?"
    r"\b(?:wait|block|hang|hung|stuck|stall|tim(?:e|ing)|freez|froze|deadlock|never return)",
    re.IGNORECASE,
)
_DATA = (
    r"(?:data|batch\w*|shards?|samples?|steps?|rows?|examples?|inputs?|iterations?|minibatch\w*)"
)
_FILES = (
    r"(?:reads?|writes?|reading|writing|sav(?:e|es|ing)|load(?:s|ing)?|disks?|nfs|lustre|s3|gcs"
    r"|bucket|storage|file ?systems?|files?|checkpoints?)\b"
)
_STANDS = r"\b(?:stall\w*|stuck|block\w*|hang\w*|hung|wait\w*|sat|sits|sitting|is|was)\b"
_RAN_OUT = (
    r"\b(?:exhaust\w*|r[au]n(?:s|ning)? out of"
    r"|(?:ha[sd]|holds|gets|got|receives) (?:no more|(?:one|\d+) (?:more|fewer|less)"
    r"|(?:the )?(?:fewer|fewest|less|least)))(?: \w+){0,2}? "
) + _DATA
_LEFT_LOOP = (
    r"\b(?:leav(?:es|ing)|left|exit(?:s|ed|ing)?|br(?:ea|o)ks? out of|quits?) (?:the|its)\b"
    r"(?: \S+){0,2}? (?:loop|epoch)\b|\bstart\w* (?:on )?(?:a |the |its )?(?:new|next) epoch\b"
)
_SPINS = (
    r"\b(?:at|with|of|uses?) ~?1\d\d(?:[-\u2013]\d+)? ?% (?:of )?(?:a |one )?(?:CPU|core)"
    r"|\b(?:spins|spinning|busy[- ]loop\w*|(?:infinite|endless) loop)"
)
_DOES: tuple[tuple[Deed, str], ...] = (
    (Deed.RAN_OUT, f"{_RAN_OUT}|{_LEFT_LOOP}"),
    (Deed.IN_FILES, _STANDS + r"(?: \w+){0,2}? (?:in|on|for|at|by) (?:\S+ ){0,4}?" + _FILES),
    (Deed.SPINS, _SPINS),
)
_OUT_OF_MEMORY = limits.compile(
    f"(?:{_ALL}|{_ONE})[^.;\\n]{{0,30}}?"
    r"\b(?:OOM(?:'?ed|'d|s|\b)"
    r"|(?:r[au]ns? out of|hits? an? out[- ]of[-]) ?(?:cuda |gpu |device )?memory)"
    r"(?!.{0,20}kill)",
    re.IGNORECASE,
)
_SAYS = tuple(
    (deed, limits.compile(f"{_ONE}{_BETWEEN}(?:{verb})", re.IGNORECASE)) for deed, verb in _DOES
)
_WORDS = (b"other", b"remaining", b"rest", b"all but", b"rank", b"oom")


def _accounts(document: Document) -> Iterator[Account]:
    whole = document.head.decode("utf-8", "replace").translate(MARKUP)
    if not (_OTHERS_WAIT.search(whole) or _OUT_OF_MEMORY.search(whole)):
        return
    for number, text in paragraphs(document):
        waits = _OTHERS_WAIT.search(text) is not None
        for sentence in sentences(text):
            if not 12 < len(sentence) <= LONGEST_SENTENCE or DOUBTED.search(sentence):
                continue
            match = _OUT_OF_MEMORY.search(sentence)
            deed = Deed.OUT_OF_MEMORY
            for other, pattern in _SAYS if waits and match is None else ():
                match = pattern.search(sentence)
                if match is not None:
                    deed = other
                    break
            if match is not None:
                ranks = heading.numbers(match.groupdict().get("ranks") or "")
                for who in [Who(rank=rank, trust=Trust.CONTENT) for rank in ranks] or [NOBODY]:
                    source = document.source(number)
                    yield Account(who=who, source=source, deed=deed, text=sentence.strip())


READER = Prose(name="what people say of one rank and the others", words=_WORDS, facts=_accounts)
