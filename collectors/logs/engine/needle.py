"""What a fast scanner looks for instead of a pattern.

A scanner need not decide whether a pattern matches: it only has to find every line in which it
*may*, since each line found is searched again with the pattern itself. Two things serve for that:

- *words*: texts of which every match contains at least one. Long ones are rare in a log, and
  nothing is found faster;
- an *expression* for Hyperscan, where all words are short ("rank", "Killed"). Hyperscan takes most
  patterns as they stand and nearly all others in its prefilter mode, but then over bytes and with
  their anchors: it would miss characters beyond ASCII, and every line behind a launcher's prefix.
"""

import functools
import re

from whyhang.analyzer.facts import Record, replace
from whyhang.collectors.logs.engine.pattern import (
    Chars,
    Either,
    LookAround,
    Parts,
    Repeat,
    UnsearchableError,
    parse,
)

COMMON = "NCCL INFO "  # stands in most lines of some logs: worth nothing at the start of a word
LEAST_WORD = 3  # shorter words stand in nearly every line
WORD_PART = 16  # bytes of a word that are looked for
LARGE = 1000  # bytes of an expression from which on Hyperscan may take long to compile it
MAX_COUNT = 16  # larger counted repeats make Hyperscan's automata huge

_CASELESS = re.compile(r"\(\?[a-zA-Z]*i")
_LOOK_AROUND = re.compile(r"\(\?(?:<?[=!]|P=|\()|\\[1-9g]")  # and back-references


class Needle(Record):
    """What to look for instead of a pattern; there are words, an expression or both.

    ``caseless``: letter case does not matter. ``whole``: the expression demands all that the
    pattern does but for anchors. ``part`` is one for a part of every match, where the whole takes
    long to compile: two long lists of words with any text between them take a hundred times as
    long as one of them.
    """

    words: frozenset[bytes]
    expression: bytes | None
    part: bytes | None
    caseless: bool
    whole: bool

    @property
    def shortest(self) -> int:
        """Return the length of the shortest word, 0 if there are none."""
        return min(map(len, self.words), default=0)


@functools.cache
def needle_of(pattern: str) -> Needle:
    """Return what to look for instead of a pattern.

    Raises ``UnsearchableError`` if the pattern is wrong, or could stand in every line.
    """
    parts = parse(pattern)
    if parts is None:
        words, expression, part = _longest_plain_run(pattern), b"", b""
    else:
        words, expression = _words(parts), _searched(parts)
        part = _searched(_telling(parts)) if len(expression) >= LARGE else b""
        if words and not _words(parts, look_around=False):
            expression = b""  # it stands in nearly every line, as ``\d+`` of ``(?<=lost )\d+``
    if not words and not expression:
        raise UnsearchableError(f"no word of {LEAST_WORD} letters is in every match")
    return Needle(
        words=frozenset(word.encode()[:WORD_PART] for word in words),
        expression=expression or None,
        part=(part if expression else b"") or None,
        caseless=parts is None or _CASELESS.search(pattern) is not None,
        whole=parts is not None and _LOOK_AROUND.search(pattern) is None,
    )


def cannot_search(pattern: str) -> str | None:
    """Return why logs cannot be searched for a pattern; None if they can."""
    try:
        needle_of(pattern)
    except UnsearchableError as error:
        return str(error)
    return None


def _longest_plain_run(pattern: str) -> set[str]:
    """Return the longest run of letters and blanks outside of brackets, if it is long enough."""
    if "|" in pattern or "?" in pattern or "*" in pattern:
        return set()  # what looks like a word may be optional
    bare = re.sub(r"\[[^\]]*\]|\{[^}]*\}|\\.|\(", "\0", pattern)
    runs = re.findall(rf"[A-Za-z ]{{{LEAST_WORD},}}", bare)
    return {max(runs, key=len)} if runs else set()


def _words(parts: Parts, *, look_around: bool = True) -> set[str]:
    """Return texts of which every match contains at least one, the longest there are."""
    choices: list[set[str]] = []
    run = ""
    for part in parts:
        if isinstance(part, str):
            run += part
            continue
        choices.append({run})
        run = ""
        match part:
            case Repeat() if part.least:
                choices.append(_words(part.parts, look_around=look_around))
            case LookAround() if look_around:
                choices.append(_words(part.parts))
            case Either():
                branches = [_words(branch, look_around=look_around) for branch in part.branches]
                choices.append(set().union(*branches) if all(branches) else set())
    choices.append({run})
    return max((words for words in choices if words and "" not in words), key=_worth, default=set())


def _telling(parts: Parts) -> Parts:
    """Return the part of every match, between runs of any text, whose shortest word is longest."""
    match parts:
        case (Either(branches=branches),):
            return (Either(branches=tuple(dict.fromkeys(map(_telling, branches)))),)
    pieces: list[Parts] = [()]
    for part in parts:
        match part:
            case Repeat(least=0, optional=False, parts=(Chars(code=code),)) if code[:2] == b"[^":
                pieces.append(())
            case _:
                pieces[-1] += (part,)
    telling = [piece for piece in pieces if _words(piece, look_around=False)]
    return max(telling, key=lambda piece: _worth(_words(piece, look_around=False)), default=parts)


def _searched(parts: Parts) -> bytes:
    return _written(_trimmed(_trimmed(parts, 0), -1))


def _worth(words: set[str]) -> tuple[int, int]:
    return min(len(word[:WORD_PART].removeprefix(COMMON)) for word in words), -len(words)


def _trimmed(parts: Parts, end: int) -> Parts:
    """Cut one end (0 or -1) as far as it may be empty or repeat, or each character is a hit."""
    while parts:
        rest = parts[:-1] if end else parts[1:]
        inner: Parts = ()
        match parts[end]:
            case Repeat(least=least, parts=repeated):
                inner = repeated if least else ()
            case Either(branches=branches):
                trimmed = tuple(_trimmed(branch, end) for branch in branches)
                if all(trimmed):
                    last: Parts = (Either(branches=trimmed),)
                    return rest + last if end else last + rest
            case Chars() as chars:
                last = (replace(chars, wide=False),)
                return rest + last if end else last + rest
            case str():
                return parts
        parts = rest + inner if end else inner + rest
    return parts


def _written(parts: Parts) -> bytes:
    """Write parts for Hyperscan."""
    written = b""
    for part in parts:
        match part:
            case str():
                written += literal(part.encode())
            case Chars():
                written += part.code + (b"{1,4}" if part.wide else b"")
            case Either():
                written += b"(?:" + b"|".join(map(_written, part.branches)) + b")"
            case Repeat(parts=(Chars() as single,)):
                optional = part.optional and not single.wide
                written += single.code + _count(part.least, optional=optional)
            case Repeat() if inner := _written(part.parts):
                written += b"(?:" + inner + b")" + _count(part.least, optional=part.optional)
    return written


def _count(least: int, *, optional: bool) -> bytes:
    return b"?" if optional else b"{%d,}" % min(least, MAX_COUNT)


def literal(word: bytes) -> bytes:
    """Write bytes for Hyperscan so that none has a special meaning."""
    return b"".join(b"\\x%02x" % byte for byte in word)
