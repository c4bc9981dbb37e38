r"""Python tracebacks that say where a process stands, rather than what went wrong.

``traceback.print_stack`` in a signal handler (no head line), ``logging``'s ``Stack (most recent
call last):``, the well-known loops over ``sys._current_frames()`` (a line per thread, then its
frames), and the ``KeyboardInterrupt`` of a person who ended the hanging job. Outermost frame
first. The traceback of any other exception says what failed and is left to the log readers;
so is a stack that a healthy program logged in passing: without a head line it counts only
where a signal or a stack is spoken of, or where the file is little else.
"""

import itertools
import re
from collections.abc import Iterator

from whyhang.analyzer.facts import Frame, Record, Thread
from whyhang.collectors import limits
from whyhang.collectors.stacks.frames import MAIN, frame, shared
from whyhang.collectors.stacks.passages import LAST, Passage
from whyhang.collectors.stacks.reader import StackText
from whyhang.collectors.stacks.sections import Sections

_FRAME = re.compile(r'([ \t>|]*)File:? "([^"\n]*)", line (\d{1,9}), in (\S+)')
_EXCEPTION = re.compile(r"Traceback \(most recent call last\):\s*$")  # maybe behind a progress bar
_STACK = re.compile(r"[ \t>|]*Stack \(most recent call last\):")
_HEAD_WORDS = ("(most recent call ", "Traceback for thread ")
_OTHER_TOOL = re.compile(r"\(most recent call first\)|Traceback for thread \d")
_INTERRUPTED = re.compile(r"[ \t>|]*(?:[\w.]+\.)?(?:KeyboardInterrupt|SignalException)\b")
_RAISED = re.compile(r"[ \t>|]*[A-Za-z_][\w.]*(?:Error|Exception|Exit|Warning|Interrupt)\b")
_CHAINED = "During handling of the above exception"
_THREAD = limits.compile(
    r"^[\s#*=>|-]*+(?:Traceback for thread |Thread|ThreadID|Stack (?:trace )?(?:of|for) thread)"
    r"[\s:#]*+(?P<words>[^\n]{0,160})$",
    re.IGNORECASE,
)
_ID = re.compile(r"0x[0-9A-Fa-f]{4,16}|(?<![\w.])\d{3,20}(?![\w.])")
_NAME = re.compile(r"MainThread|[A-Za-z][\w-]*(?: \([\w.]+\))?")
_TRIGGER = re.compile(
    r"SIG(?:USR|ALRM|TERM|QUIT)|signal|stack ?trace|traceback|dump|stuck|hang|hung|watchdog",
    re.IGNORECASE,
)
_SHARE = 0.5  # of the lines that are not empty, in a file that is a dump and little else


class _Run(Record):
    """Frames that stand together, with the lines before and behind them."""

    frames: tuple[Frame, ...]
    first: int
    last: int  # the line behind
    above: tuple[str, ...]
    behind: str

    @property
    def head(self) -> str:
        """The line above the frames that is not empty; "" where there is none."""
        return self.above[-1] if self.above else ""


class _Tracebacks(Sections):
    ranks_only = True  # "# Thread: MainThread(140…)" is no heading

    def read(self, passage: Passage) -> None:
        """Take the threads out of a passage."""
        lines = passage.text.split("\n")
        offsets = list(itertools.accumulate((len(line) + 1 for line in lines), initial=0))
        runs = list(_runs(lines))
        covered = sum(run.last - run.first for run in runs)
        is_dump = covered >= _SHARE * sum(1 for line in lines if line.strip())
        before, of_other_tool = 0, False
        for run in runs:
            between = lines[before : run.first]
            self.between("\n".join(between))
            before = run.last
            heads = [line for line in between if any(word in line for word in _HEAD_WORDS)]
            if heads:
                of_other_tool = _OTHER_TOOL.search(heads[-1]) is not None
            line = passage.line(offsets[run.first])
            if of_other_tool:
                self.end_process()
            elif named := _THREAD.match(run.head):
                self.add(_named_thread(run.frames, named["words"], line))
            elif _is_main_thread(run, is_dump=is_dump):
                self.add(Thread(frames=run.frames, name=MAIN, line=line), alone=True)
            else:
                self.end_process()


READER = StackText(
    name="Python stack traces", tool="traceback", marks=LAST[1:], sections=_Tracebacks
)


def _runs(lines: list[str]) -> Iterator[_Run]:
    """Find frames that follow each other, with the source lines under them."""
    at = 0
    while at < len(lines):
        first, frames = at, []
        while at < len(lines) and (parts := _FRAME.match(lines[at])):
            indent, file, line, function = parts.groups()
            frames.append(frame(function, file, int(line)))
            at += 1
            while at < len(lines) and _is_source(lines[at], len(indent)):
                at += 1
        if not frames:
            at += 1
            continue
        above = [line for line in lines[max(0, first - 4) : first] if line.strip()]
        behind = next((line for line in lines[at : at + 3] if line.strip()), "")
        yield _Run(
            frames=shared(tuple(reversed(frames))),
            first=first,
            last=at,
            above=tuple(above),
            behind=behind,
        )


def _is_source(line: str, indent: int) -> bool:
    """Tell a line of source, a row of ^^^^ or "[Previous line repeated]" under a frame."""
    depth = len(line) - len(line.lstrip(" \t>|"))
    return depth > indent and bool(line.strip()) and _FRAME.match(line) is None


def _is_main_thread(run: _Run, *, is_dump: bool) -> bool:
    """Tell the stack of a process that stands there from one of what went wrong, or in passing."""
    if _EXCEPTION.search(run.head):
        is_chained = any(_CHAINED in line for line in run.above)
        return not is_chained and _INTERRUPTED.match(run.behind) is not None
    is_asked_for = _STACK.match(run.head) or any(_TRIGGER.search(line) for line in run.above)
    is_long = len(run.frames) > 1
    has_raised = _RAISED.match(run.behind) and not _INTERRUPTED.match(run.behind)
    return bool(is_long and (is_dump or is_asked_for) and not has_raised)


def _named_thread(frames: tuple[Frame, ...], words: str, line: int) -> Thread:
    """Read "MainThread(140…)", "Thread-1 (worker) 0x7f…", "# 140…"."""
    digits = _ID.search(words)
    name = _NAME.search(words[: digits.start()] + words[digits.end() :] if digits else words)
    tid = None
    if digits:  # a decimal number may begin with zeros
        tid = int(digits[0], 16 if digits[0].startswith("0x") else 10)
    return Thread(frames=frames, name=name[0] if name else None, tid=tid, line=line)
