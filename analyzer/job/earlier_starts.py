"""Earlier starts of a job that went on: how their ranks ended is history, and not why it hangs.

torchrun ends all ranks when one fails, starts them anew, and writes on in the same log. A row that
says how a rank ended is of an earlier start where that rank's process lives now, or where the log
itself still shows progress after it; so is all that the log says before it. A later start that
came to nothing may have failed because of the earlier one: then nothing is taken out.
"""

import re
from collections.abc import Iterator

from whyhang.analyzer.facts import (
    Exit,
    Fact,
    Gap,
    LastLine,
    LogLine,
    Process,
    Role,
    RootCause,
    SignOfLife,
    Source,
    StackDump,
    Track,
)

RESTARTS = "TORCHELASTIC_RESTART_COUNT"
"""In the environment of a rank: how often its agent has started the ranks anew."""

_OF_A_START = Exit | LastLine | LogLine | RootCause | StackDump | Track
_FOLDER = re.compile(r"(?:^|/)attempt_(?P<start>\d+)/")
"""Of torchrun's log folder, whose files each hold what one start wrote."""


def without_earlier_starts(facts: list[Fact]) -> Iterator[Fact]:
    """Yield the facts without what logs say of earlier starts, and a gap that says so."""
    living = [
        fact
        for fact in facts
        if isinstance(fact, Process) and fact.role is Role.RANK and fact.state not in {"Z", "X"}
    ]
    ended_at = _last_ends(facts, living)
    starts = {int(n) for process in living if (n := process.environ.get(RESTARTS, "")).isdecimal()}
    left_out: list[Source] = []
    for fact in facts:
        if isinstance(fact, _OF_A_START) and _is_earlier(fact.source, ended_at, starts):
            left_out.append(fact.source)
        else:
            yield fact
    if left_out:
        yield Gap(
            what=f"Using all of {left_out[-1].file}",
            why="the ranks whose end it tells were started anew, and went on",
            cost="what it says of the earlier start is left out",
            source=left_out[-1],
        )


def _last_ends(facts: list[Fact], living: list[Process]) -> dict[str, int]:
    """Return for each log the last line that tells the end of a rank that was started anew."""
    lines: dict[str, int] = {}
    signs = {fact.source.file: fact.source.line or 0 for fact in facts if type(fact) is SignOfLife}
    rows = [fact for fact in facts if isinstance(fact, Exit) and fact.source.line is not None]
    last_row = {(row.source.file, row.who.pid): row.source.line for row in rows}
    for row in rows:
        file, line = row.source.file, row.source.line or 0
        is_last = last_row[file, row.who.pid] == line  # what ends the job stands in its table again
        went_on = row.ends_all and is_last and signs.get(file, 0) > line
        if went_on or any(_replaces(process, row) for process in living):
            lines[file] = max(lines.get(file, 0), line)
    return lines


def _replaces(process: Process, ended: Exit) -> bool:
    """Return whether this process is the rank that ended, as another process than that."""
    now, then = process.who, ended.who
    if then.pid is None or then.pid == now.pid or (then.host or now.host) != now.host:
        return False
    if then.rank is not None:
        return then.rank == now.rank
    return then.local_rank is not None and then.local_rank == now.local_rank


def _is_earlier(source: Source, ended_at: dict[str, int], starts: set[int]) -> bool:
    folder = _FOLDER.search(source.file)
    if folder is not None and starts:
        return int(folder["start"]) < min(starts)
    return source.line is not None and source.line <= ended_at.get(source.file, 0)
