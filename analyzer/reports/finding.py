"""One finding as blocks, for every face: the one renderer of a finding.

A line of evidence is quoted once on a page; lines that differ only in whose they are, as one.
"""

import re
from collections.abc import Sequence

from whyhang.analyzer.facts import grouped, ranks_in_words
from whyhang.analyzer.report import Collective, Evidence, Finding
from whyhang.analyzer.reports.blocks import Block, Code, Commands, Items, Para, Quotes, Section

NO_COLLECTIVES = {"send", "recv", "isend", "irecv", "comm_init"}
"""Calls of two ranks, or of the set-up."""

MAX_EVIDENCE = 4
MAX_QUOTE = 240
MAX_RANKS = 5


class Shown:
    """What stands above on the page, and need not stand there twice."""

    def __init__(self) -> None:
        self.places: set[tuple[str, ...]] = set()
        self.pieces: set[Evidence] = set()


def finding_blocks(
    number: int, finding: Finding, shown: Shown, headline: str, *, full: bool
) -> list[Block]:
    """Lay one finding out. What stands above is not said again."""
    heading, name = known(finding), f"finding-{number + 1}"
    said = headline.rstrip(".") == finding.title
    title = f"{number + 1}. {heading if said else finding.title}"
    blocks: list[Block] = [Section(title=title, level=2, name=name)]
    blocks += [] if said else [Para(text=heading)]
    explanation = finding.explanation.removeprefix(f"{finding.title}.").strip()
    if explanation:
        blocks.append(Para(text=explanation))
    if finding.collective is not None:
        blocks.append(Para(text=_collective(finding.collective)))
    if finding.location is not None:
        lines = (str(finding.location), *finding.location.excerpt)
        blocks += [
            Section(title="Where", level=3, name="where"),
            Code(lines=lines[:1] if lines in shown.places else lines),
        ]
        shown.places.add(lines)
    if not full:
        _pass_over_quoted(finding, shown)
    blocks += _evidence(finding.evidence, shown, full=full)
    if finding.caused_by is None:
        if finding.remedies:
            blocks += [Section(title="Do now", level=3, name="now"), Items(items=finding.remedies)]
        if finding.next_steps:
            blocks += [
                Section(title="To confirm", level=3, name="confirm"),
                Commands(items=finding.next_steps),
            ]
        if finding.owner:
            blocks.append(Para(text=f"Owner: {finding.owner}"))
        if finding.runbook_url:
            blocks.append(Para(text=f"Runbook: {finding.runbook_url}"))
    return blocks


def _pass_over_quoted(finding: Finding, shown: Shown) -> None:
    """Do not cite what the title quotes, where something else says where to look."""
    title = " ".join(finding.title.split())
    quoted = {piece for piece in finding.evidence if " ".join(piece.quote.split()) in title}
    if finding.location is not None or len(quoted) < len({*finding.evidence}):
        shown.pieces |= quoted


_INCIDENTAL = re.compile(
    r"0x[0-9a-f]+"  # addresses, threads
    r"|\b\d{4}[-/]\d\d[-/]\d\d\b|\b[EWIF]\d{4}(?=\s\d)|\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?"  # times
    r"|\b\d+(?:\.\d+)?(?=\s?(?:ms|milliseconds|s|sec|seconds|context switches)\b)"
    r"|(?<=\bpid[ =:])\s?\d+|(?<=\bprocess )\d+|(?<=\brecord )\d+"
    r"|(?<=\w):\d+:\d+(?= \[)"  # NCCL's host:pid:thread
    r"|\b[\d.]+:\d+(?= -> )",  # the near end of a connection
    re.IGNORECASE,
)
"""What differs between lines that say the same; other numbers may be what is wrong."""


def alike_key(piece: Evidence) -> str:
    """Return the same text for pieces that differ in times, processes and whose they are only."""
    text = _INCIDENTAL.sub("0", piece.quote)
    if piece.rank is None:
        return text
    own = rf"(?:(?<=\brank)|(?<=\brank[ =:])){piece.rank}\b"
    return re.sub(own, "0", text, flags=re.IGNORECASE)


def _evidence(pieces: Sequence[Evidence], shown: Shown, *, full: bool) -> list[Block]:
    """Quote evidence that does not stand above; of lines alike but for whose they are one."""
    alike = grouped(pieces, lambda piece: piece.quote if full else alike_key(piece))
    rows = []
    for same in alike.values():
        new = [piece for piece in same if piece not in shown.pieces]
        if new:  # quote one that is new; ranks and the count are those of all
            rows.append(list(dict.fromkeys((new[0], *same))))
    shown.pieces.update(pieces)
    if not rows:
        return []
    kept = rows if full else rows[:MAX_EVIDENCE]
    more = sum(map(len, rows[len(kept) :]))
    title = "Evidence" if not more else f"Evidence ({more} more with --full)"
    quotes = [(places_of(same), cut(same[0].quote)) for same in kept]
    cited = tuple((same[0].source, same[0].line) for same in kept)
    return [
        Section(title=title, level=3, name="evidence"),
        Quotes(items=tuple(quotes), cited=cited),
    ]


KINDS = {"cause": "cause", "consequence": "an effect; the cause is not known", "noise": "harmless"}


def known(finding: Finding) -> str:
    """Return in one line what a finding is, how sure, and whether it is the cause."""
    name = finding.signature
    if finding.category != name:
        name += f" ({finding.category})"
    known = f"{name} · {sureness(finding.confidence)}"
    if finding.category == "healthy":
        return known
    cause = finding.caused_by
    return f"{known} · {KINDS[finding.kind] if cause is None else f'effect of {cause + 1}'}"


def sureness(confidence: float) -> str:
    """Format a confidence in a word and a figure; certain is 0.9 and more, likely 0.5."""
    word = "certain" if confidence >= 0.9 else "likely" if confidence >= 0.5 else "possible"
    return f"{word} ({confidence:.0%})"


def cut(text: str, size: int = MAX_QUOTE) -> str:
    """Shorten a quote to a readable size, saying that it was cut."""
    return text if len(text) <= size else text[: size - 2] + " …"


def is_command(item: str) -> bool:
    """Return whether an item is a command; a sentence starts with a capital letter."""
    return not item[:1].isupper()


def _collective(call: Collective) -> str:
    text = f"{'Call' if call.op in NO_COLLECTIVES else 'Collective'}: {call.op}"
    if call.seq is not None:
        text += f" #{call.seq}"
    if call.group:
        text += f" of {call.group}"
    if not call.others:
        return text
    named = call.others.startswith("rank")  # who called what, on all sides
    return f"{text}; {call.others}" if named else f"{text}; the others called {call.others}"


def places_of(alike: list[Evidence]) -> str:
    """Say where a line was read, and of which ranks and how often there are others like it."""
    piece = alike[0]
    where = f"{piece.place}{f' and {len(alike) - 1} more' if len(alike) > 1 else ''}"
    ranks = {each.rank for each in alike if each.rank is not None}
    if not ranks:
        return where
    return f"{ranks_in_words(ranks, MAX_RANKS)} · {where}"
