"""Matchers over single facts that a reader states about a file or a rank."""

from __future__ import annotations

from whyhang.analyzer.case import Case
from whyhang.analyzer.describe import ranks_in_words
from whyhang.analyzer.model import Record
from whyhang.analyzer.report import Evidence
from whyhang.analyzer.signature import Hit

MAX_QUOTES = 6


class Claimed(Record):
    """A reader states something of this name; nobody is blamed for it."""

    about: str

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for all that state it."""
        found = [claim for claim in case.job.claims if claim.about == self.about]
        if not found:
            return ()
        members = {m.id for claim in found if (m := case.job.member_of(claim.who)) is not None}
        ranks = sorted({claim.who.rank for claim in found if claim.who.rank is not None})
        values = dict.fromkeys(claim.value for claim in found)
        hit = Hit(
            members=tuple(sorted(members)),
            evidence=tuple(
                Evidence(
                    source=claim.source.file,
                    line=claim.source.line,
                    rank=claim.who.rank,
                    quote=claim.value,
                )
                for claim in found[:MAX_QUOTES]
            ),
            names_culprit=False,
            fields={
                "who": ranks_in_words(ranks) if ranks else "a rank",
                "files": ", ".join(claim.source.file for claim in found[:3])
                + (f" and {len(found) - 3} more" if len(found) > 3 else ""),
                "values": ", ".join(list(values)[:3]),
            },
        )
        return (hit,)


def claimed(about: str) -> Claimed:
    """Ask for something that a reader states; see ``Claimed``."""
    return Claimed(about=about)
