"""Limits on what text may cost: its lines, its runs of blanks, its patterns, a whole file.

A pattern that meets ten thousand tabs in a row may try every one of them as the end of every
part, which takes hours. So every reader of text that a person or a program may have written

- passes it through ``bounded`` first, which cuts long lines and shortens long runs of blanks;
- makes its patterns with ``compile``, so that they give up with ``TooSlowError``, and writes
  ``++``, ``*+`` or ``(?>…)`` wherever two parts could share the same characters;
- leaves the error to ``read_documents``, which gives the readers of each file a ``Budget``.
"""

import functools
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar, Token
from typing import AnyStr, Generic

import regex

from whyhang.analyzer.facts import Gap
from whyhang.analyzer.reading import Document

MAX_LINE = 16_384
"""Characters of a line that are read; the symbols of C++ templates reach 4,000."""

MAX_BLANKS = 200
"""Blanks and tabs in a row that are kept; the widest table has 110."""

SECONDS = 1.5
"""CPU seconds that the readers of one file have together, however small it is."""

BYTES_PER_SECOND = 512 << 10
"""For so many bytes of the file they have one second more; they read ten times as fast."""

_UNTIMED = 500
"""Shorter texts are matched without a timeout, which costs more than the match."""

_BLANKS = regex.compile(rf"(?<![ \t])([ \t]{{{MAX_BLANKS}}})[ \t]++")


class TooSlowError(Exception):
    """The readers of a file have used up their time; ``text`` is what was being matched."""

    def __init__(self, text: str | bytes) -> None:
        super().__init__("it takes too long to take apart")
        self.text = text


class Budget:
    """The CPU time that the readers of one file may take. It runs in its ``with`` blocks.

    Matching a pattern when no time is left raises ``TooSlowError``.
    """

    def __init__(self, size: int = 0) -> None:
        """Give time for a file of ``size`` bytes."""
        self.seconds = SECONDS + size / BYTES_PER_SECOND
        self._left = self.seconds
        self._wall_end = self._cpu_end = 0.0
        self._exceeded = False

    def __enter__(self) -> None:
        self._wall_end = time.monotonic() + self._left
        self._cpu_end = time.thread_time() + self._left
        self._token: Token[Budget | None] = _CURRENT.set(self)

    def __exit__(self, *_: object) -> None:
        self._left = self._cpu_end - time.thread_time()
        _CURRENT.reset(self._token)

    def left(self) -> float:
        """Return the seconds that are left; not above zero where none are."""
        # The clock of the CPU is the one that counts on a busy machine, and is slow to read. It is
        # that of this thread: files are read side by side, and none pays for another.
        left = self._wall_end - time.monotonic()
        return left if left > 0 else self._cpu_end - time.thread_time()

    def gaps(self, document: Document, error: TooSlowError) -> list[Gap]:
        """Return where the time ended; nothing for readers that had no time left after that."""
        if self._exceeded:
            return []
        self._exceeded = True
        text = error.text.encode() if isinstance(error.text, str) else error.text
        at = document.head.find(text[:80])
        line = document.head.count(b"\n", 0, at) + 1 if text and at >= 0 else None
        gap = document.gap(
            f"it would take longer than {self.seconds:.1f} s"
            + (f": line {line} cannot be taken apart" if line else ""),
            cost="what stands there and behind it is not known",
            remedy="Cut the file down to what the tool printed",
            line=line,
        )
        return [gap]


_CURRENT: ContextVar[Budget | None] = ContextVar("budget", default=None)


class Pattern(Generic[AnyStr]):
    """A pattern of ``regex`` that gives up when the file's time is over, compiled when first used.

    Most readers have nothing to read in what somebody hands in.
    """

    def __init__(self, pattern: AnyStr, flags: int) -> None:
        self.pattern: AnyStr = pattern
        self.flags = flags

    @functools.cached_property
    def _regex(self) -> regex.Pattern[AnyStr]:
        return regex.compile(self.pattern, self.flags)

    def match(
        self, text: AnyStr, pos: int = 0, end: int | None = None
    ) -> regex.Match[AnyStr] | None:
        """Match at ``pos``, as ``re.Pattern.match``."""
        try:
            return self._regex.match(text, pos, end, timeout=_timeout(text))
        except TimeoutError:
            raise TooSlowError(text) from None

    def search(
        self, text: AnyStr, pos: int = 0, end: int | None = None
    ) -> regex.Match[AnyStr] | None:
        """Search from ``pos``, as ``re.Pattern.search``."""
        try:
            return self._regex.search(text, pos, end, timeout=_timeout(text))
        except TimeoutError:
            raise TooSlowError(text) from None

    def fullmatch(self, text: AnyStr) -> regex.Match[AnyStr] | None:
        """Match all of the text, as ``re.Pattern.fullmatch``."""
        try:
            return self._regex.fullmatch(text, timeout=_timeout(text))
        except TimeoutError:
            raise TooSlowError(text) from None

    def finditer(self, text: AnyStr, pos: int = 0) -> Iterator[regex.Match[AnyStr]]:
        """Yield every match from ``pos``, as ``re.Pattern.finditer``."""
        try:
            yield from self._regex.finditer(text, pos, timeout=_timeout(text))
        except TimeoutError:
            raise TooSlowError(text) from None

    def sub(
        self, replacement: AnyStr | Callable[[regex.Match[AnyStr]], AnyStr], text: AnyStr
    ) -> AnyStr:
        """Replace every match, as ``re.Pattern.sub``."""
        try:
            return self._regex.sub(replacement, text, timeout=_timeout(text))
        except TimeoutError:
            raise TooSlowError(text) from None


def _timeout(text: str | bytes) -> float | None:
    """Return the seconds for one match. Raises ``TooSlowError`` where none are left."""
    budget = _CURRENT.get()
    left = SECONDS if budget is None else budget.left()
    if left <= 0:
        raise TooSlowError(text)
    return left if len(text) > _UNTIMED else None


def compile(pattern: AnyStr, flags: int = 0) -> Pattern[AnyStr]:  # noqa: A001 - as in ``re``
    """Return a pattern in the syntax of ``regex``; ``flags`` are regex's (``re``'s I, M, S, X)."""
    return Pattern(pattern, flags)


def bounded(document: Document, text: str, first: int = 1) -> tuple[str, list[Gap]]:
    """Cut the long lines of a text and shorten its long runs of blanks; lines keep their numbers.

    ``first`` is the number of its first line in the document. The gaps name the lines cut.
    """
    if " " * 64 in text or "\t" * 64 in text:
        text = _BLANKS.sub(r"\1", text)
    lines = text.split("\n")
    long = [number for number, line in enumerate(lines) if len(line) > MAX_LINE]
    if not long:
        return text, []
    number = "1 line is" if len(long) == 1 else f"{len(long):,} lines are"
    gap = document.gap(
        f"{number} longer than {MAX_LINE:,} characters",
        cost="the rest of such a line is not known",
        line=first + long[0],
    )
    return "\n".join(line[:MAX_LINE] for line in lines), [gap]
