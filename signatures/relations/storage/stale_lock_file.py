"""A rank waits for a lock file that nobody will release.

torch's extension build, Hugging Face caches and datasets guard their work with lock files. A
process that was killed leaves the file behind (or another rank holds it for ever), and the
next one waits in acquire without a limit.
"""

from collections.abc import Iterable

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature, WaitKind


def when(case: Case) -> Iterable[Hit]:
    return queries.lagging(case, WaitKind.LOCK, op="file-lock", alone=True)


SIGNATURE = Signature(
    id="stale-lock-file",
    category="stale-lock-file",
    level="program",
    title="{who} {waits} for a lock file at {where}{waiting}",
    when=when,
    means="{who} {waits} to acquire a lock file ({where}) that its holder does not release.",
    confidence="strong",
    remedies=(
        "Find the holder (lsof or fuser on the lock file); if there is none, delete the file.",
        (
            "Give each rank its own cache folder, or let one rank build and the others wait behind "
            "a barrier."
        ),
    ),
    next_steps=("ls -l /proc/{pid}/fd | grep -i lock", "fuser -v LOCKFILE"),
)
