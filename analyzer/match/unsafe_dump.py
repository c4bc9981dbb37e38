"""Matcher over recorder dumps that ask to run code."""

from __future__ import annotations

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Record, UnsafeDump
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.report import Evidence
from whyhang.analyzer.wording.describe import ranks_in_words

MAX_QUOTES = 6


class AsksForCode(Record):
    """Recorder dumps ask to run code when they are unpickled; nobody is blamed for it."""

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for all such dumps."""
        dumps = case.job.of(UnsafeDump)
        if not dumps:
            return ()
        members = {m.id for dump in dumps if (m := case.job.member_of(dump.who)) is not None}
        ranks = sorted({dump.who.rank for dump in dumps if dump.who.rank is not None})
        codes = dict.fromkeys(dump.code for dump in dumps)
        hit = Hit(
            members=tuple(sorted(members)),
            evidence=tuple(
                Evidence(
                    source=dump.source.file,
                    line=dump.source.line,
                    rank=dump.who.rank,
                    quote=dump.code,
                )
                for dump in dumps[:MAX_QUOTES]
            ),
            names_culprit=False,
            fields={
                "who": ranks_in_words(ranks) if ranks else "a rank",
                "files": ", ".join(dump.source.file for dump in dumps[:3])
                + (f" and {len(dumps) - 3} more" if len(dumps) > 3 else ""),
                "values": ", ".join(list(codes)[:3]),
            },
        )
        return (hit,)


def asks_for_code() -> AsksForCode:
    """Ask for recorder dumps that would run code; see ``AsksForCode``."""
    return AsksForCode()
