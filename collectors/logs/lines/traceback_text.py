"""The text of a traceback, and of those chained with it, frame by frame.

The user's own code is what is neither torch's nor an installed package's nor the standard
library's.
"""

import re
from dataclasses import dataclass, field

from whyhang.analyzer.facts import NOBODY, Frame, Record, Trust, replace
from whyhang.analyzer.facts.exceptions import CUT_OFF, Raised
from whyhang.collectors import tables
from whyhang.collectors.logs.lines.line_reader import FoundLine
from whyhang.collectors.logs.text.line import Line
from whyhang.collectors.logs.text.prefix import mesh_label

MAX_LINES = 400  # of one traceback
MAX_MESSAGE = 2000


class _Text(Record):
    frame: re.Pattern[str]
    glued: re.Pattern[str]
    exception: re.Pattern[str]
    reason: re.Pattern[str]
    chain: re.Pattern[str]
    not_user: re.Pattern[str]
    launcher: re.Pattern[str]
    c10d: re.Pattern[str]
    of_signal: re.Pattern[str]
    signum: re.Pattern[str]


_TEXT = tables.patterns(__package__, "traceback_text.toml", _Text)


_WRAPPERS = frozenset(
    {"wrapper", "_new_process_group_helper", "_new_group_with_tag", "_store_based_barrier"}
)
_INNER = "Original Traceback (most recent call last):"

# Ray's words above a traceback of a task: whose it is stands in it.
RAY_TASK = r"\bray::[\w.<>:]{1,200}\(\) \(pid=(?P<pid>\d{1,10})(?:, ip=(?P<ip>[\w.:]{1,60}))?"
RAY_TASK_HEAD = re.compile(RAY_TASK)
_OF_LAUNCHERS = frozenset(
    {"ChildFailedError", "ProcessRaisedException", "ProcessExitedException", "SignalException"}
)
LEAST_FRAMES = 2  # of a traceback whose end is cut off
INNER = 4  # of its frames, in which torch.distributed would have let it down
_FOREIGN = 8  # lines of others that may stand between those of one traceback


@dataclass
class Traceback:
    """One traceback as far as it has been read."""

    frames: list[Frame] = field(default_factory=list)  # innermost first
    sources: list[str] = field(default_factory=list)  # the line of source of each frame
    end: tuple[int, Line] | None = None  # the line of the exception
    type: str = ""
    message: str = ""
    foreign: int = 0

    def leave_out_handler(self) -> None:
        """Leave out the handler of a signal: the rank stood where the signal came.

        Python calls it at any line, so the line that stands above its frame does not name it.
        """
        for at in range(len(self.frames) - 1, 0, -1):
            caller, name = self.sources[at], self.frames[at - 1].function.rpartition(".")[2]
            handler = _TEXT.of_signal.search(name) or _TEXT.signum.search(self.sources[at - 1])
            if handler and caller and name not in caller:
                del self.frames[:at], self.sources[:at]
                return

    @property
    def user_frame(self) -> Frame | None:
        """Return the innermost frame of the user's own code."""
        for frame in self.frames:
            if not _TEXT.not_user.search(frame.file):
                return frame
        return self.frames[-1] if self.frames else None

    @property
    def op(self) -> str | None:
        """Return the function of torch.distributed it was raised in."""
        for frame in self.frames:
            if _TEXT.c10d.search(frame.file) and frame.function not in _WRAPPERS:
                return frame.function.rpartition(".")[2]
        return None

    @property
    def raised(self) -> Raised:
        """Return what it says."""
        return Raised(
            type=self.type,
            message=self.message[:MAX_MESSAGE],
            frame=self.user_frame,
            op=self.op,
            of_launcher=self.of_launcher,
        )

    @property
    def of_launcher(self) -> bool:
        """Return whether a launcher raised it, which speaks of the ranks it started."""
        innermost = bool(self.frames) and _TEXT.launcher.search(self.frames[0].file) is not None
        return innermost or self.type in _OF_LAUNCHERS


def close_cut_off(traceback: Traceback, line: FoundLine) -> None:
    """End a process's traceback whose last line is not there, where it tells whose fault it is.

    Within a collective it does not: the rank may have been let down by another.
    """
    own = line.who.rank is not None and line.who.trust > Trust.INFERRED
    own = own or mesh_label(line.who.label or "") is not None
    if not own or len(traceback.frames) < LEAST_FRAMES or traceback.op:
        return
    if any("torch/distributed/" in frame.file for frame in traceback.frames[:INNER]):
        return
    *_, traceback.end = line.following(len(traceback.frames), bare=_goes_on_bare(line))
    traceback.type = CUT_OFF


def _goes_on_bare(line: FoundLine) -> bool:
    """Return whether a logger put the label in front of the first line alone."""
    _, below = next(line.following(1, bare=True), (0, line.line))
    return below.prefix == NOBODY and _TEXT.frame.match(below.text) is not None


def read_chain(line: FoundLine) -> list[Traceback]:
    """Read a traceback, and further ones that name it as their cause, in the order printed.

    A DataLoader prints the worker's traceback within the message of its own exception; that
    one comes last, too.
    """
    chain = [Traceback()]
    chained = False
    front, words, _ = line.text.partition("Traceback (most recent")
    indent = in_front(front) if words else in_front(line.text[: -len(line.text.lstrip())])
    for number, indented in line.following(MAX_LINES, bare=_goes_on_bare(line)):
        current = chain[-1]
        after = replace(indented, text=indent.sub("", indented.text, count=1))
        if current.end is None:
            if not read_frame(current, number, after):
                break
        elif after.text.endswith(_INNER) or (
            chained and ("Traceback (most" in after.text or RAY_TASK_HEAD.search(after.text))
        ):
            chain.append(Traceback())
            chained = False
        elif _TEXT.chain.search(after.text):
            chained = True
        elif after.text.strip() and not chained:
            reason = _TEXT.reason.match(after.text) or current.message.endswith("Last error:")
            if not reason and not after.text.startswith((" ", "\t")):
                break
            if len(current.message) < MAX_MESSAGE:
                current.message += "\n" + after.text
    return chain if chain[-1].end is not None or len(chain) == 1 else chain[:-1]


def in_front(front: str) -> re.Pattern[str]:
    """Return what stands in front of each line of a traceback, as it does of its first.

    Blanks, or the header of a logger that parts a message and puts its header before each of the
    lines, with the time of that line.
    """
    if front.strip():
        return re.compile(re.sub(r"\d+", r"\\d+", re.escape(front.rstrip())) + " ?")
    return re.compile(f" {{0,{len(front)}}}")


def read_frame(current: Traceback, number: int, line: Line) -> bool:
    """Read a line of a traceback before its exception; False: it ends without one."""
    text = line.text
    if frame := _TEXT.frame.match(text):
        function, file, at = frame["function"] or "", frame["file"], int(frame["line"])
        function = _TEXT.glued.sub("", function)
        current.frames.insert(0, Frame(function=function, file=file, line=at))
        current.sources.insert(0, "")
    elif text[:1] in (" ", "\t") and current.sources and not current.sources[0]:
        current.sources[0] = text.strip()
    elif text[:1] not in ("", " ", "\t"):
        if raised := _TEXT.exception.match(text):
            current.end = (number, line)
            current.type = raised["type"].rpartition(".")[2]
            current.message = raised["message"] or ""
            return True
        current.foreign += 1
    return current.foreign <= _FOREIGN
