"""Signatures over log lines or over queries, as TOML has them: those shipped, and users' cards.

A file holds one signature at its top level, or several as ``[[signature]]``. ``FIELDS`` lists
what may stand in one; ``whyhang cards new`` prints a word on each field.
"""

import re
from collections.abc import Mapping
from typing import Any

from whyhang.analyzer.facts import NAMES_WHOM
from whyhang.analyzer.findings.categories import LEVEL_OF
from whyhang.analyzer.findings.signature import Kind, Level, Signature
from whyhang.analyzer.queries.asked import Asked, question_of
from whyhang.analyzer.queries.logs.log import Blames, Log
from whyhang.analyzer.toml import table

_FIELDS = table(__package__, "fields.toml")
FIELDS: dict[tuple[str | int, ...], str] = {
    tuple(name.split(".")): kind for kind, names in _FIELDS["fields"].items() for name in names
}
"""Every field of a signature and what kind of value stands in it."""

HOLDS: dict[str, str] = _FIELDS["holds"]  # what each kind is, in the words of a mistake
REQUIRED: tuple[str, ...] = tuple(_FIELDS["required"])
FORMER = {(name,) for name in _FIELDS["former"]}

_NAMES = re.compile(rf"\(\?P?<(?:{'|'.join(sorted(NAMES_WHOM))})>")
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
        retries=retries,
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
