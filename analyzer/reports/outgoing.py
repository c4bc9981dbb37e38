"""The one gate through which text leaves the program.

What a report quotes was written by others: a function's name may move the cursor, set the title of
a terminal or its clipboard, and a line of a log may hold a password. Every face of a report, and
what is said on standard error, goes through here: control characters are spelt out, marks that
turn the direction of text and letters that nobody sees as well (they hide words from a person that
a program reads), and what looks like a secret is blanked (``redact``).
"""

import functools
import re

import msgspec

from whyhang.analyzer.redact import redact, redact_texts
from whyhang.analyzer.report import Report

# C0 and C1 controls but the end of a line; what Unicode calls formats and separators of lines, and
# its tags and supplementary selectors: they reorder what follows, or have no width.
_ACTIVE = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e01ef]"
)


def outgoing(report: Report) -> Report:
    """Return a report as it may be shown, sent or pasted anywhere."""
    return msgspec.convert(redact_texts(msgspec.to_builtins(report), plain), Report)


@functools.lru_cache(1 << 14)  # ranks that stand together say the same
def plain(text: str) -> str:
    """Return text without secrets, its control characters spelt as Python spells them."""
    spelt = redact(text).replace("\t", " ")
    return _ACTIVE.sub(lambda match: match[0].encode("unicode_escape").decode(), spelt)
