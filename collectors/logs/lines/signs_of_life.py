"""Signs of life in a log: steps, epochs, losses, progress bars, results, an orderly end.

A log of a job that never got beyond its start holds none of them. Only the beginning and the
end of a file are looked at: whoever trains says so at least there. The words of a scheduler and
of a rendezvous (job steps, rounds) are none. The words stand in
``signs_of_life.toml``; a number is taken there from its first digit on only, or thousands of digits
in a row would take minutes.
"""

import re
from collections import Counter
from collections.abc import Sequence

from whyhang.analyzer.facts import Outlook, Record
from whyhang.collectors import tables

_LAST_LINES = 30  # in which an end is looked for


class _Words(Record):
    signs: re.Pattern[str]
    ends: re.Pattern[str]
    took: re.Pattern[str]
    begins: re.Pattern[str]
    through: re.Pattern[str]
    result: re.Pattern[str]
    idle: re.Pattern[str]
    busy: re.Pattern[str]
    of_all: re.Pattern[str]
    bar: re.Pattern[str]
    count_of_bar: re.Pattern[str]
    epoch: re.Pattern[str]
    no_work: re.Pattern[str]
    program: re.Pattern[str]
    nccl: re.Pattern[str]
    frame: re.Pattern[str]


_WORDS = tables.patterns(__package__, "signs_of_life.toml", _Words, re.IGNORECASE | re.MULTILINE)
"""By what they show; the table says more."""


def is_of_training(text: str) -> bool:
    """Return whether a text is the output of a training program."""
    may_be = "torchrun" in text or "-packages/" in text  # in a tenth of the time
    return bool(_WORDS.nccl.search(text) or (may_be and _WORDS.program.search(text)))


def sign(text: str) -> str | None:
    """Return the first sign of life in a text, or None."""
    for match in _WORDS.signs.finditer(text):
        begin = text.rfind("\n", 0, match.start()) + 1
        end = text.find("\n", match.end())
        above = text.rfind("\n", 0, max(0, begin - 1)) + 1
        if _WORDS.frame.search(text, above, begin):
            continue
        if _WORDS.no_work.search(text, begin, len(text) if end < 0 else end) is None:
            return match.group(0).strip()
    return None


def count_of_bar(text: str) -> tuple[str, ...] | None:
    """Return how far a progress bar has come, and of what; None where there is none."""
    counts = [match.groups() for match in _WORDS.count_of_bar.finditer(text)]
    return counts[-1] if counts else None


def last_sign(lines: Sequence[str], above: str = "", without: str = "") -> int | None:
    """Return the place of the last line with a sign of life and without a text, or None.

    A progress bar is drawn once more as it is closed, also by an exception: one that has come no
    further than the one before, which may stand in the text ``above``, is no sign.
    """
    count, redrawn = count_of_bar(above), set()
    for at, line in enumerate(lines):
        if (drawn := count_of_bar(line)) is not None:
            redrawn |= {at} if drawn == count else set()
            count = drawn
    for at in range(len(lines) - 1, -1, -1):
        is_source = at > 0 and _WORDS.frame.search(lines[at - 1]) is not None
        if is_source or at in redrawn or (without and without in lines[at]):
            continue
        if sign(lines[at]) is not None:
            return at
    return None


def outlook(lines: Sequence[str]) -> tuple[Outlook, int]:
    """Return what the last lines of a rank show, and the place of the line that says so.

    The last one that says anything decides: what follows an end without a step is its aftermath.
    """
    last = lines[-_LAST_LINES:]
    first = len(lines) - len(last)
    begun = _WORDS.begins.match(last[-1]) and not (
        _WORDS.ends.search(last[-1]) or _WORDS.idle.search(last[-1])
    )
    for at in range(len(last) - 1, -1, -1):
        shown = _shown(last[at], last)
        if shown is not Outlook.UNKNOWN:
            return Outlook.STEPS if begun and shown is Outlook.ENDED else shown, first + at
    return Outlook.UNKNOWN, -1


def _shown(line: str, lines: Sequence[str]) -> Outlook:
    if counters := [*_WORDS.of_all.finditer(line), *_WORDS.bar.finditer(line)]:
        if _at_their_end(line, counters, lines):
            return Outlook.ENDED
        full = all(match["at"] == match["all"] for match in counters)
        if full and _WORDS.ends.search(line):
            return Outlook.ENDED  # behind a bar, without a line break
        # a full bar may be that of an epoch, or of all: what stands above it tells
        return Outlook.UNKNOWN if full and _WORDS.bar.search(line) else Outlook.STEPS
    if _WORDS.ends.search(line):
        return Outlook.ENDED
    if _WORDS.took.search(line) and sum(1 for x in lines if _WORDS.took.search(x)) == 1:
        return Outlook.ENDED
    if _WORDS.idle.search(line):
        return Outlook.IDLE
    return Outlook.STEPS if sign(line) is not None or _WORDS.busy.search(line) else Outlook.UNKNOWN


def _at_their_end(line: str, counters: Sequence[re.Match[str]], lines: Sequence[str]) -> bool:
    """Return whether all counters of a line are where they count to.

    Steps begin anew with each epoch; the number of the last step or epoch may be printed as it
    begins.
    """
    units = [match.groupdict().get("unit", "step").lower() for match in counters]
    steps_end = "epoch" in units or not any(_WORDS.epoch.search(each) for each in lines)
    seen = Counter(match[0] for each in lines for match in _WORDS.of_all.finditer(each))
    once = len(seen) > 1 and set(seen.values()) == {1}  # each epoch is told once, as it is over
    is_result = (units != ["epoch"] or once) and _WORDS.result.search(line) is not None
    through = is_result or _WORDS.through.search(line) or _WORDS.bar.search(line)
    return bool(steps_end and through) and all(match["at"] == match["all"] for match in counters)
