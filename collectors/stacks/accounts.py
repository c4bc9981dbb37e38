r"""What people write of ranks that did not come, ended, wait or work, beside where they stand.

``Ranks 1 and 2 never print that line.``  ``rank 1 has not yet joined the all-reduce``  ``The
process with a rank of 3 leaves, the others stay.``  ``All GPUs except rank 0 raise a timeout.``
Stacks tell more, and ``sentences`` reads those; here only words count, said of something that has
happened: neither what may happen nor what a program does as a rule. Lines of programs are left to
the readers of logs.
"""

import re
from collections.abc import Iterator

from whyhang.analyzer.facts import Account, Deed, Trust, Who
from whyhang.analyzer.reading import Document
from whyhang.collectors import limits
from whyhang.collectors.stacks import heading
from whyhang.collectors.stacks.prose import RANKS, Prose, is_doubted, is_sentence, sentence_of

LONGEST_LINE = 1500
MOST = 64  # accounts of one text

_RANKS = (
    r"(?:process(?:es)? with (?:the |a )?(?:global )?ranks?(?: of)? "
    r"|(?<![\w.-])(?:(?:global|local|world) )?(?:ranks?(?:=\[?|[-# ]?)"
    r"|ranks \[(?=[\d, ]+\] (?!stopped at \S+:\d)[a-z])|(?:TP|gpus? #?|process #?)(?=\d{1,3}\b)))"
    r"(?P<ranks>" + RANKS + r")\]?(?![\w.:=/-])(?: (?:gpu )?process(?:es)?)?(?:'s [a-z]+)?"
    r"(?: (?:on|of) \w+| \([^()]{1,40}\))?"
)
"""Whom a sentence is about. GPUs and processes are counted as ranks are, where others are said to
wait; what only a label begins ("rank 3: …") is not a sentence."""

_NOT_TOWARDS = r"(?<!\bto )(?<!\bwith )(?<!\bfrom )"
"""What fails on the way to a rank is not the rank's end ("connecting to rank 5 failed")."""
_ALL_BUT = (
    r"\b(?:(?:all|every) (?:of the )?(?:other )?(?:\d+ )?"
    r"(?:ranks?|gpus?|process(?:es)?|workers?|devices?)"
    r"|(?:all|every(?:one|body))(?= \w+(?: \w+){0,2} ranks? ?#?\d)),?"
    r" (?:except|but|other than|apart from)(?: for)?(?: the)?(?: ranks?)? ?#?"
    r"(?P<but>" + RANKS + r")(?![\w.])"
)
_COME = (
    r"(?:join|enter|reach|arriv|call|print|post|start|submit|pass|participat|com(?:e|ing)\b|came"
    r"|show|beg[aiu]n|g[eo]t (?:to|past|there)|log\b|logged|launch|issu"
    r"|hit\b(?! (?:\w+ ){0,3}(?:errors?|exceptions?|oom|limits?|timeouts?))|finish|complet|return"
    r"|respond|answer|report|reply|repli|appear|output|produc|ma[dk]e|exist|there\b|send|execut"
    r"|run\b|broadcast|regist|take part|schedul|enqueu|creat)"
)
_NOT = (
    r"(?:(?:ha[sd]|have|did|do(?:es)?|is|are|was|were|could|can)(?:n.t| ?not| never)"
    r"(?: (?:yet|even|ever|actually|all))?|never|not|fail(?:s|ed)? to) "
)
_THE_ONE = (
    r"(?:(?:is|was) (?:\w+ )?the (?:only )?(?:one|rank|gpu|process|worker) "
    r"(?:that |which |who )?)?"
)
_OF_OTHERS = (
    r"(?![^.;]{0,60}\b(?:tim(?:e|ed|es|ing)[- ]?outs?|nccl|gloo|Dist\w+Error|connection|pipe|peers?"
    r"|watchdog|store))"
)
"""Not what a rank meets that lost others, or waited for them in vain."""

_ENDED = (
    r"(?:(?:has |had |was |is |got |gets |were |already ){0,2})"
    r"(?P<ended>crash(?:es|ed)?|die[sd]?|dead|killed|lost|oom[- ]?killed|preempted|ooms|oomed"
    r"|segfault(?:s|ed)?|disappear(?:s|ed)?|"
    + _OF_OTHERS
    + r"(?:abort(?:s|ed)|errors? out|errored|fail(?:s|ed)(?! to)"
    r"|(?:rais(?:es|ed)|throws?|threw|hits?|got|gets|r[au]ns? into|encounter(?:s|ed)) "
    r"(?:\S+ ){0,3}?\S*(?:errors?|exceptions?|assert\w*|oom|xid|sig[a-z]+)))\b"
)
_LEFT = (
    r"(?:(?:has |had |is |already |just |simply ){0,2})"
    r"(?:exit(?:s|ed)?\b(?! (?:normally|cleanly|with (?:exit )?(?:code|status) 0\b))|gone"
    r"|missing|absent|(?:finish(?:es|ed)?|end(?:s|ed)?) (?:early|first|before)"
    r"|left|leaves?|quits?|skip(?:s|ped)?|br(?:eaks?|oke) (?:out of|from|off)"
    r"|(?:went|goes|falls|fell) (?:silent|quiet|missing|away|behind)"
    r"|return(?:s|ed) early|stop(?:s|ped) (?:at|print|log|respond|send|answer|writ))"
)
_IS = (
    r"(?:is|are|was|were|remains?|stays?|keeps?|appears?(?: to be)?|seems?(?: to be)?) "
    r"(?:still |all |now |just |currently |busy |in the middle of ){0,2}"
)
_WAITS = (
    rf"(?:{_IS}(?:waiting|stuck|blocked|hanging|hung|stalled|sitting)"
    r"|waits|waited|blocks|blocked|hangs|hung|sits|sat|stalls|stalled)\b"
)
_WORKS = (
    _IS
    + r"(?:[a-z]+-)?(?:issuing|writing|computing|loading|running(?! collective)|mapping|processing"
    r"|reading|download|saving|compiling|compiled|generating|evaluating|tokenizing|building"
    r"|converting|preprocessing|gathering|validating|uploading|initiali[sz]ing|compressing|scanning)"
    r"|(?:[a-z]+-)?(?:compiled|loaded|wrote|saved|processed|downloaded|built|tokenized|evaluated)"
    r"\b[^.;]{0,80}? while\b|took (?:\w+ ){0,2}longer\b"
)
_STANDS = (
    r"(?:(?:is|are|was|were|g[eo]ts?|hangs?|hung|stuck|wait\w*|blocked|stop\w*|sits?|sat|stands?)"
    r" ){1,2}"
)
_OTHER_PLACE = (
    r"(?:at|in|on) (?:another|an? (?:\w+ )?(?:different|other)) (?:place|line|location|position"
    r"|point|op\b|operation|call|collective|barrier|function|step|iteration|stack|branch|frame"
    r"|all[- _]?\w+|broadcast)"
)
_ODD = (
    r"(?:to be|is|was|becomes?|became|goes|went) (?:completely |entirely )?unresponsive\b|"
    r"(?:is|was|seems?(?: to be)?|appears? to be) (?:clearly |always |indeed |probably )?the "
    r"(?:[a-z]+ )?(?:problem\w*|culprit|straggler|odd|bad|faulty|slow\w*|lagg\w*|late|broken"
    r"|divergent|offend\w*)|lag(?:s|ged) behind"
    rf"|{_STANDS}(?:{_OTHER_PLACE}|(?:somewhere )?else(?:where)?\b)"
    r"|(?:(?:is|was) (?:still |already )?(?:attempting|trying|doing|perform|call|enter|execut|issu"
    r"|in\b|evaluat|validat)|enter|call|execut|issu|evaluat)[^.;]{1,100}? (?:while|whereas|but) "
    r"(?:all )?(?:of )?(?:the )?(?:other|rest|remaining)"
)
_ONLY = (
    r"\bonly " + _RANKS + r" (?:ever |actually )?(?:enter|reach|call|arriv|execut|issu|participat"
    r"|join|hang|hung|is stuck|is wait|waits|tim(?:es|ed) out|goes|went|takes|took)"
    r"|(?<!MPI_ABORT was )(?:call|invok|execut|enter|reach|issu|run)(?:ed|s|ing)? "
    r"(?:it )?(?:only )?(?:on|by|from|in) (?:only )?(?:the )?"
    r"rank[- ]?(?P<only>\d{1,5})(?: only| alone)?\b"
)
_AWAITED = (
    r"\b(?:wait(?:s|ed|ing)?|block(?:s|ed|ing)?|stuck) (?:for|on|until) (?:the )?"
    r"(?:process (?:of|with) )?rank[- #]?(?P<ranks>\d{1,5})\b(?![.:=]\w|,? (?:and|or) | to [a-z])"
    r"|\b(?:nothing|no (?:\w+ ){1,3})(?:from|by|of) rank[- #]?(?P<only>\d{1,5})\b(?![.:=]\w)"
)
_OTHERS_WAIT = re.compile(
    r"\b(?:other|others|remaining|rest)\b.{0,40}\b(?:wait|hang|hung|stuck|block|tim(?:e|ing)|freez)",
    re.IGNORECASE,
)
_STUCK_AT = re.compile(
    r"\bstuck (?:at|on|in) (?:the )?rank ?#?(?P<ranks>\d{1,5})(?![\w.])", re.IGNORECASE
)
_SAYS: tuple[tuple[Deed, limits.Pattern[str]], ...] = tuple(
    (deed, limits.compile(pattern, re.IGNORECASE))
    for deed, pattern in (
        *(
            (
                deed,
                _NOT_TOWARDS + _RANKS + r"[ ,]{1,2}(?:itself |alone |has |had )?" + verb,
            )
            for deed, verb in (
                (Deed.ABSENT, _THE_ONE + _NOT + _COME),
                (Deed.ENDED, _THE_ONE + _ENDED),
                (Deed.LEFT, _THE_ONE + _LEFT),
                (Deed.WAITS, _WAITS),
                (Deed.WORKS, rf"(?:{_WORKS})"),
                (Deed.ODD, rf"(?:{_ODD})"),
            )
        ),
        (
            Deed.ODD,
            _ALL_BUT
            + r"[ ,]{1,2}(?:\w+ )?(?:emit|print|show|rais|report|g[eo]t|fail|tim|hang|hung|wait|are"
            r"|is|reach|enter|arriv|stuck|crash)",
        ),
        (Deed.ODD, _ONLY),
        (Deed.AWAITED, _AWAITED),
    )
)
_NAMES_ONE = re.compile(r"(?i)rank|\b(?:gpus?|process|tp) ?#?\d")
_PROGRESS = re.compile(r"(?i)\W*(?:step|epoch|iter(?:ation)?)\W{0,2}\d+\b")
"""What a program prints of its steps: a line just above it is of the program, too."""
_MARKUP = str.maketrans("", "", "*`")


def _accounts(document: Document) -> Iterator[Account]:
    count = 0
    for number, text, end in _lines(document):
        plain = text.translate(_MARKUP)
        for deed, pattern in _SAYS:
            for match in pattern.finditer(plain):
                if match.start() >= end or is_doubted(plain, match.start(), match.end()):
                    continue
                groups = match.groupdict()
                listed = next(
                    (groups[key] for key in ("but", "ranks", "only") if groups.get(key)), ""
                )
                for rank in heading.numbers(listed):
                    if (count := count + 1) > MOST:
                        return
                    yield _account(document, number, rank, deed, _sentence(plain, match.start()))
        if _OTHERS_WAIT.search(plain):
            for stuck in _STUCK_AT.finditer(plain):
                sentence = _sentence(plain, stuck.start())
                yield _account(document, number, int(stuck["ranks"]), Deed.ODD, sentence)


def _account(document: Document, number: int, rank: int, deed: Deed, text: str) -> Account:
    return Account(
        who=Who(rank=rank, trust=Trust.CONTENT),
        source=document.source(number),
        deed=deed,
        text=text,
    )


def _sentence(text: str, start: int) -> str:
    """Return the sentence around a place, without what marks an item of a list."""
    begin, end = sentence_of(text, start)
    return " ".join(text[begin:end].split()).lstrip("->#•. ")


def _lines(document: Document) -> Iterator[tuple[int, str, int]]:
    """Yield the lines of a person: number, text with that of the next line, where the own ends.

    A sentence goes on there.
    """
    lines = document.head.decode("utf-8", "replace").split("\n")
    for at, line in enumerate(lines):
        if not 8 < len(line) <= LONGEST_LINE or not _NAMES_ONE.search(line):
            continue
        after = lines[at + 1][:LONGEST_LINE].strip() if at + 1 < len(lines) else ""
        if is_sentence(line, after) and not _PROGRESS.match(after):
            yield at + 1, f"{line} {after}", len(line)


READER = Prose(name="what people say of ranks", facts=_accounts)
