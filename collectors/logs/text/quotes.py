"""Words about a log are no log: a line that is quoted inside a sentence.

Who writes a README or answers in a chat puts a message between backticks, in the middle of their
own words. Programs hardly ever do. A line between backticks with next to nothing around it, and
one in a block of its own, may well be pasted, and counts. So does what follows the words of
somebody who reports what they saw ("I get the following error: ...").
"""

import re

LEAST_WORDS = 3
_TICKS = re.compile(r"`+")
_REPORTS = re.compile(
    r"(?i)\b(?:I|we)(?:'ve| have| am| was| were|'m)? (?:\w+ )?"
    r"(?:g[eo]t|getting|see|saw|seeing|(?:receiv|encounter|fac)(?:e|ed|ing)?|hit|met)\b"
    r"[^.;`]*[:\s]$"
    r"|\b(?:printed|reported|raised|threw|logged|(?:fail|di|crash|exit)ed with)\b[^.;`]{0,20}$"
    r"|(?:报错|然后报|报出|出现|打印了)[^。`]{0,10}$"
)
_WORD = re.compile(r"\b[^\W\d_]{2,}\b")


def is_quoted(text: str, at: int) -> bool:
    """Return whether what was found at ``at`` stands between backticks in a sentence."""
    ticks = list(_TICKS.finditer(text)) if "`" in text[:at] else []
    before = [tick for tick in ticks if tick.end() <= at]
    after = [tick for tick in ticks if tick.start() >= at]
    if len(before) % 2 == 0 or not after:
        return False
    if _REPORTS.search(text, 0, before[-1].start()):
        return False
    around = f"{text[: before[-1].start()]} {text[after[0].end() :]}"
    return len(_WORD.findall(around)) >= LEAST_WORDS
