"""Pseudonyms of paths: word by word, so that what a word is called is the same in every path.

What everybody's paths have in common stays: the usual folders, extensions, numbers (a rank's, a
pid's), words of computing, and all that lies below a well-known package, whose files are public.
"""

import re

from whyhang.analyzer.pseudonyms.coin import PACKAGES, PUBLIC_WORDS, Coin, is_pseudonym
from whyhang.analyzer.stacks.usercode import SCRIPTS, SINGLE_MODULES, STDLIB_MODULES, short

_HOMES = {"home", "Users", "users", "user", "homes", "u"}
_RUN = re.compile(r"[^\W_]+")
_ORDINARY = re.compile(r"[^\W\d_]{1,2}\d{0,12}|\d{1,20}[^\W\d_]{0,2}|(?:0x)?\d+")
_WORD_AND_NUMBER = re.compile(r"([^\W\d_]+)(\d{0,12})")
_PYTHON = re.compile(r"python\d(?:\.\d+)?t?")


def path(coin: Coin, text: str, users: frozenset[str] = frozenset()) -> str:
    """Return a path in which only words that are no secret stay."""
    if text.startswith("<") or not text.strip("/.~"):
        return text
    kept = _public_tail(text)
    before = text[: len(text) - len(kept)] if kept else text
    parts = before.split("/")
    made = [
        coin.named("user", part)
        if part
        and (part in users or (n and parts[n - 1] in _HOMES and "." not in part.lstrip(".")))
        else component(coin, part)
        for n, part in enumerate(parts)
    ]
    return "/".join(made) + kept


def component(coin: Coin, text: str) -> str:
    """Return the name of a file or folder, its words replaced where they are not common."""
    if is_pseudonym(text) or text in {".", "..", "~"} or _PYTHON.fullmatch(text):
        return text
    # A pseudonym with a hyphen in a longer name stays as a whole.
    pieces = re.split(r"((?:host|net|user)-[a-z2-7]{8}(?![^\W_]))", text)
    return "".join(
        piece if number % 2 else _RUN.sub(lambda run: _run(coin, run[0]), piece)
        for number, piece in enumerate(pieces)
    )


def _run(coin: Coin, word: str) -> str:
    """Return what stands for a run of letters and digits."""
    if _ORDINARY.fullmatch(word) or is_pseudonym(word) or word.lower() in PUBLIC_WORDS:
        return word
    match = _WORD_AND_NUMBER.fullmatch(word)
    return word if match and match[1].lower() in PUBLIC_WORDS else coin.word(word)


def _public_tail(text: str) -> str:
    """Return the end of a path that lies in a well-known package or in Python itself."""
    if text.startswith(("/proc/", "/sys/", "/dev/nvidia", "/dev/infiniband")):
        return text
    tail = short(text)
    first, slash, _ = tail.partition("/")
    if not slash:
        module = first.removesuffix(".py")
        known = first.endswith(".py") and module in STDLIB_MODULES and "/lib/python" in text
        alone = tail == text and first.endswith(".py") and module in STDLIB_MODULES
        script = text.rpartition("/")[2] in SCRIPTS and "/bin/" in text
        return tail if known or alone or script or first in SINGLE_MODULES else ""
    in_package = "-packages/" in text or not text.startswith("/") or "/lib/python" in text
    whole = text.endswith(tail) and (in_package or tail.startswith("torch/"))
    return tail if whole and first.removesuffix(".py") in PACKAGES else ""
