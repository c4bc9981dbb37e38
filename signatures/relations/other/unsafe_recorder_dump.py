"""A flight recorder dump asks to run code when it is unpickled.

A dump is a pickle, and a pickle may name functions that are called while it is read. torch's
recorder writes plain data only, so a dump that names one was not written by it, or was changed
since. whyhang does not unpickle: it refused the file and read the others. Tools that use
pickle, torchfrtrace among them, would run what it asks for.
"""

import shlex
from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import UnsafeDump
from whyhang.analyzer.queries import Case, Hit, Signature, cite

MAX_QUOTES = 6


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for all such dumps; nobody is blamed for them."""
    dumps = case.job.of(UnsafeDump)
    if not dumps:
        return
    ranks = sorted({dump.who.rank for dump in dumps if dump.who.rank is not None})
    codes = dict.fromkeys(dump.code for dump in dumps)
    yield Hit(
        ranks=tuple(ranks),
        evidence=tuple(cite(dump.source, dump.code, dump.who.rank) for dump in dumps[:MAX_QUOTES]),
        names_culprit=False,
        fields={
            "who": queries.ranks_in_words(ranks) if ranks else "a rank",
            "files": ", ".join(dump.source.file for dump in dumps[:3])
            + (f" and {len(dumps) - 3} more" if len(dumps) > 3 else ""),
            "paths": shlex.join(dump.source.file for dump in dumps[:3]),
            "values": ", ".join(list(codes)[:3]),
        },
    )


SIGNATURE = Signature(
    id="unsafe-recorder-dump",
    category="unknown",
    level="setup",
    title="A recorder dump of {who} asks to run code when it is read ({values}) and was refused",
    when=when,
    means=(
        "{files} asks for {values} when it is unpickled. No recorder of torch writes that. "
        "Nothing of it was run, and where {who} stands is not known from it. It is no reason "
        "for a hang by itself."
    ),
    confidence="hint",
    remedies=(
        "Do not open this file with pickle or torchfrtrace.",
        "Find out who wrote it: the owner and the time of {files}.",
    ),
    next_steps=("ls -l --time-style=full-iso {paths}",),
)
