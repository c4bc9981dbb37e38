"""Standard output and error that take whatever a report holds."""

import codecs
import os
import sys

PLAIN = {"·": "-", "•": "*", "←": "<-", "→": "->", "…": "...", "×": "x", "–": "-", "—": "-"}  # noqa: RUF001
"""How characters of the reports are spelt where an encoding has none of them."""


def prepare() -> None:
    """Open the streams that the shell has closed, and let none fail at a character."""
    codecs.register_error("whyhang", _spell)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115, PTH123 - for the whole run
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="whyhang")


def _spell(error: UnicodeError) -> tuple[str | bytes, int]:
    """Spell characters that cannot be encoded, and bytes of a file's name that are no text."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    spelt = "".join(
        PLAIN.get(letter) or letter.encode("ascii", "backslashreplace").decode()
        for letter in error.object[error.start : error.end]
    )
    return spelt, error.end
