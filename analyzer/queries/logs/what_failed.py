"""What failed in words that no signature knows, as the reader of such lines names it.

What a signature knows about the same line is better. What a job went on after was no cause.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Literal, get_args

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import LogLine, ranks_in_words, unfold
from whyhang.analyzer.facts.logs import FAILED
from whyhang.analyzer.findings.signature import CLEAR, GUESSED, INDIRECT, Hit
from whyhang.analyzer.queries.hits import cite_lines, members_of, when_printed
from whyhang.analyzer.queries.logs.failures import has_no_ranks_to_blame, raised_by
from whyhang.analyzer.queries.registry import query
from whyhang.analyzer.rank_state.from_logs.ends import IN_VAIN
from whyhang.analyzer.rank_state.from_logs.log_ends import have_ended, unanswered

Failing = Literal[
    "rdma",
    "links",
    "peer access",
    "lost gpu",
    "gpu",
    "device memory",
    "shared memory",
    "host memory",
    "port",
    "name",
    "lock",
    "storage",
    "call",
    "placement",
    "members",
    "coordinator",
    "service",
    "transport",
    "peer",
    "address",
    "process",
]

NAMES = (*(FAILED + what for what in get_args(Failing)), IN_VAIN)
"""All names of such lines."""
MOST_COMPARED = 200
_NUMBERS = re.compile(r"\d+")
_GOT_OVER = re.compile(
    r"(?i)(?<!<)\bwarn|\bretry(?! count)|\bretries|attempt|\bskip|fall(?:ing|s)?[ -]?back"
    r"|\bdisabl|\bignor|\binfo\b|\bdebug\b|deprecat|\bcancel|aborted by|\bwill be|\bmay be\b"
    r"|\bif you|optional"
)
_OF_PEER = re.compile(
    r"(?i)timed? ?out|timeout|\bretr|reachable|refused|\breset\b|remote|\bpeer\b|disconnect|respons"
)
"""Words of who could not get through to another one, which may be at fault as well."""
_SEVERE = re.compile(r"\[?E\d{3,4} ")
"""The header of an error of c10d and of devices, whose message may give advice as well."""
_ENDS = re.compile(r"(?i)error|exception|fatal|critical|abort|terminat|^\[?E\d{3,4} |what\(\):")


def failed_lines(case: Case, *names: str) -> list[LogLine]:
    """List lines so named that no signature looks for, and that nobody went on after."""
    lines = case.job.lines_with(names)
    if not lines or have_ended(case.job):
        return []
    known = {
        _alike(line.text)
        for line in case.job.lines
        if any(not name.startswith(FAILED) for name in line.matched)
    }
    return unanswered(case.job, (line for line in lines if _alike(line.text) not in known))


def _alike(text: str) -> str:
    """Return what lines have in common that differ in numbers only."""
    return _NUMBERS.sub("N", text)[:MOST_COMPARED]


def _strength_of(text: str) -> float:
    """Return how surely a line tells of what nobody got over."""
    if _GOT_OVER.search(text) and not _SEVERE.match(text):
        return GUESSED
    return CLEAR if _ENDS.search(text) else INDIRECT


_AWAITED = re.compile(
    r"(?i)(?:(?:message|response|reply|answer|data|results?|heartbeat|tensors?|gradients?|tokens?"
    r"|sen[dt]|sending|recv|receiv\w+|link|connection|channel|socket|stream|session|exchange"
    r"|transfer|wait\w*)(?: \w+){0,2}? (?:from|for|on|to|with)|missing|absent|without) (?:global )?"
    r"(?:peer )?(?:ranks?|(?<!loader )workers?|process|peer|task)\W{0,4}"
    r"(?P<from>\d{1,6}(?:(?:, ?| and |, and |-)\d{1,6})*)"
    r"|(?:等待|接收|收到|来自|从) ?(?:来自 ?)?(?:global )?(?:peer )?ranks?\W{0,4}(?P<zh>\d{1,6})"
    r"|\branks?\W{0,3}(?P<who>\d{1,6}(?:(?:, ?| and |, and |-)\d{1,6})*)\W{0,2} "
    r"(?:(?:did|has|have|does|do|is|are) ?n[o']t|never|is late|is missing|are missing)\b"
)
"""Ranks that did not come, in the words of who waited for them."""
_COMMA = re.compile(r",? and |, ")
_WAITS_ON = re.compile(r"(?i)\b(?:yet|still)\b|\bwaiting\W*$")
"""Words of who has not given up: whom it waits for may still come."""


@query
def awaited(case: Case, *, named: bool) -> Iterator[Hit]:
    """Yield one hit for the lines in which ranks gave up waiting for others, in their own words.

    ``named``: for those lines that say for whom, which is not who says so.
    """
    lines = failed_lines(case, IN_VAIN)
    speakers = {line.who.rank for line in lines if line.who.rank is not None}
    ranks = _awaited_by(lines)
    if not lines or bool(ranks) is not named:
        return
    first = min(lines, key=when_printed)
    yield Hit(
        ranks=tuple(sorted(ranks)),
        affected=members_of(case, speakers) if named else (),
        evidence=cite_lines(lines),
        strength=max(
            GUESSED if _WAITS_ON.search(line.text) else _strength_of(line.text) for line in lines
        ),
        fields={
            "who": ranks_in_words(ranks or speakers) if ranks or speakers else "the ranks",
            "others": ranks_in_words(speakers) if speakers else "others",
            "what": first.fields["what"],
        },
        names_culprit=named,
        at=first.time,
    )


def _awaited_by(lines: Iterable[LogLine]) -> set[int]:
    """Return the ranks that lines name as those that did not come, without who says so."""
    lines = tuple(lines)
    return {
        rank
        for line in lines
        for match in _AWAITED.finditer(line.text)
        for rank in unfold(_COMMA.sub(",", match["from"] or match["zh"] or match["who"]))
    } - {line.who.rank for line in lines if line.who.rank is not None}


@query
def failed(case: Case, what: Failing, *, of_speaker: bool = False) -> Iterator[Hit]:
    """Yield one hit for the lines that say that something failed about this object.

    ``of_speaker``: it is the fault of who says so, or of its host, as long as others do not. Whom
    an exception of these words ended is named as with any other exception.
    """
    lines = failed_lines(case, FAILED + what)
    if not lines:
        return
    ends = {line.source for line in case.job.lines if line.raised is not None}
    last = [line for line in lines if line.source in ends]
    ranks = raised_by(case, last or lines) if last or of_speaker else ()
    if has_no_ranks_to_blame(case, ranks):
        ranks = ()
    ranks = ranks or _named_by_others(lines)
    if not ranks and what == "members":
        ranks = tuple(sorted(_awaited_by(lines)))
    quotes = {line.text: line for line in sorted(lines, key=when_printed)}
    first = next(iter(quotes.values()))
    yield Hit(
        ranks=ranks,
        evidence=cite_lines(quotes.values()),
        names_culprit=bool(ranks) or not any(_OF_PEER.search(line.text) for line in lines),
        strength=max(_strength_of(line.text) for line in lines),
        fields={"what": first.fields["what"]},
        at=first.time,
    )


def _named_by_others(lines: list[LogLine]) -> tuple[int, ...]:
    """Return the ranks that lines name, unless these say such things themselves."""
    words = (line.fields.get("ranks") or line.fields.get("rank", "") for line in lines)
    named = {int(word) for word in words if word}
    return () if named & {line.who.rank for line in lines} else tuple(sorted(named))
