"""Signatures over log lines or over queries, as TOML has them: those shipped, and users' cards.

A file holds one signature at its top level, or several as ``[[signature]]``. ``FIELDS`` lists
what may stand in one; ``whyhang cards new`` prints a word on each field.
"""

import re
from collections.abc import Mapping
from typing import Any

from whyhang.analyzer.findings.categories import LEVEL_OF
from whyhang.analyzer.findings.signature import Kind, Level, Signature
from whyhang.analyzer.queries.asked import Asked, question_of
from whyhang.analyzer.queries.logs.log import NAMES, Blames, Log

TEXT, TEXTS, FLAG, WORTH_OF, COUNT, TABLE, WORDS, QUESTIONS = (
    "a text in quotes",
    "a list of texts",
    "true or false",
    '"certain", "strong", "likely", "possible", "hint", or a number from 0 to 1',
    "a whole number of at least 1",
    "a table",
    'a table of words for each value of a group, such as adds.code.7 = {meaning = "..."}',
    'a list of questions such as { query = "lagging", kinds = ["lock"] }',
)
"""What a field may hold, in the words of a mistake."""

FORMER: dict[tuple[str | int, ...], str] = {("outranks",): TEXTS, ("gives_way",): FLAG}
"""Fields of older cards: ``explains`` and ``level = "summary"`` say the same."""

FIELDS: dict[tuple[str | int, ...], str] = {
    **FORMER,
    ("id",): TEXT,
    ("category",): TEXT,
    ("category_if_everywhere",): TEXT,
    ("role",): TEXT,
    ("level",): TEXT,
    ("title",): TEXT,
    ("explanation",): TEXT,
    ("story",): TEXT,
    ("patterns",): TEXTS,
    ("asks",): QUESTIONS,
    ("unless_asks",): QUESTIONS,
    ("retries",): TEXTS,
    ("unless",): TEXTS,
    ("unless_same_rank",): FLAG,
    ("unless_goes_on",): FLAG,
    ("blames",): TEXT,
    ("least_ranks",): COUNT,
    ("most_ranks",): COUNT,
    ("ends_process",): FLAG,
    ("adds",): WORDS,
    ("confidence",): WORTH_OF,
    ("remedies",): TEXTS,
    ("next_steps",): TEXTS,
    ("links",): TEXTS,
    ("runbook_url",): TEXT,
    ("explains",): TEXTS,
    ("restarts",): FLAG,
    ("override",): FLAG,
    ("examples",): TABLE,
    ("examples", "must_match"): TEXTS,
    ("examples", "must_not_match"): TEXTS,
}
"""Every field of a signature and what stands in it."""

REQUIRED = ("id", "category", "role", "title", "explanation")
"""Beside these, ``patterns``, ``retries`` or ``asks``."""

_NAMES = re.compile(rf"\(\?P?<(?:{'|'.join(sorted(NAMES))})>")
_PARAGRAPHS = re.compile(r"\n\s*\n")


def signature_of(table: Mapping[str, Any], origin: str = "") -> Signature:
    """Return the signature that a table holds; ``origin`` is the card it stands in, if it is one.

    The fields must be of the types that ``FIELDS`` gives. Raises ``KeyError`` if a required one
    is missing, ``ValueError`` if ``role`` or ``blames`` is none of the known words, or a question
    cannot be asked.
    """
    retries = tuple(table.get("retries", ()))
    patterns = (*table.get("patterns", ()), *retries)
    blames = Blames.NAMED if any(map(_NAMES.search, patterns)) else Blames.NOBODY
    vetoes = tuple(table.get("unless", ()))
    examples = table.get("examples", {})
    log = Log(
        patterns=patterns,
        blames=Blames(table.get("blames", blames)),
        least=table.get("least_ranks", 1),
        most=table.get("most_ranks", 0),
        ends_process=table.get("ends_process", False),
        adds=table.get("adds", {}),
        vetoes=vetoes,
        veto_same_rank=table.get("unless_same_rank", False),
        unless_goes_on=table.get("unless_goes_on", False),
    )
    asked = Asked(
        log=log,
        questions=tuple(map(question_of, table.get("asks", ()))),
        vetoes=tuple(map(question_of, table.get("unless_asks", ()))),
    )
    return Signature(
        id=table["id"],
        category=table["category"],
        kind=Kind(table["role"]),
        level=level_of(table),
        title=table["title"],
        when=asked if asked.questions or asked.vetoes else log,
        patterns=patterns,
        vetoes=vetoes,
        means=paragraphs(table["explanation"]),
        story=table.get("story", "").strip(),
        confidence=table.get("confidence", "strong"),
        everywhere=table.get("category_if_everywhere", ""),
        remedies=tuple(table.get("remedies", ())),
        next_steps=tuple(table.get("next_steps", ())),
        links=tuple(table.get("links", ())),
        matches=tuple(examples.get("must_match", ())),
        misses=tuple(examples.get("must_not_match", ())),
        explains=(*table.get("explains", ()), *table.get("outranks", ())),
        retries=retries,
        restarts=table.get("restarts", False),
        runbook=table.get("runbook_url"),
        origin=origin,
    )


def level_of(table: Mapping[str, Any]) -> Level:
    """Return the level that a card states, or the one that follows from its role and category."""
    stated: Level | None = table.get("level")
    if stated is None and table.get("gives_way"):
        return "summary"
    if stated is None and table["role"] != Kind.CAUSE.value:
        return "peer"
    return stated or LEVEL_OF.get(table["category"], "program")


def paragraphs(text: str) -> str:
    """Join the lines of each paragraph: where a text is wrapped in its file does not show."""
    return "\n\n".join(" ".join(part.split()) for part in _PARAGRAPHS.split(text.strip()))
