"""Source lines around the places where user code stands, so that a report can show them.

Only files of the user's own are read, not those of libraries, and only as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from whyhang.analyzer.model import Excerpt
from whyhang.analyzer.redact import redact
from whyhang.analyzer.waits.usercode import Origin, origin_of_file
from whyhang.collectors.live.proc import Proc

AROUND = 4
"""Lines shown before and after each line that a frame stands at."""

MAX_FILES = 200
MAX_BYTES = 4 << 20
MAX_COLUMNS = 400

_LIBRARY_PARTS = ("/site-packages/", "/dist-packages/", "/lib/python3")


class _Frame(msgspec.Struct):
    filename: str
    line: int


class _Thread(msgspec.Struct):
    frames: list[_Frame]


def places(data: bytes) -> set[tuple[str, int]]:
    """List the files and lines of user code in what ``py-spy dump --json`` printed."""
    try:
        threads = msgspec.json.decode(data, type=list[_Thread])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return set()
    frames = {(frame.filename, frame.line) for thread in threads for frame in thread.frames}
    return {(file, line) for file, line in frames if line > 0 and _is_own(file)}


def _is_own(file: str) -> bool:
    if file.startswith("<") or any(part in file for part in _LIBRARY_PARTS):
        return False
    return origin_of_file(file) is not Origin.LIBRARY


def excerpts(
    proc: Proc, found: Mapping[tuple[str, int], int], cwds: Mapping[int, str | None]
) -> list[Excerpt]:
    """Read the lines around each place; ``found`` tells a pid for each, to know whose files."""
    wanted: dict[str, set[int]] = {}
    readers: dict[str, int] = {}
    for (file, line), pid in sorted(found.items()):
        wanted.setdefault(file, set()).add(line)
        readers.setdefault(file, pid)
    result: list[Excerpt] = []
    for file, lines in list(wanted.items())[:MAX_FILES]:
        text = _read(proc, file, readers[file], cwds.get(readers[file]))
        for first, last in _ranges(lines, _heads(text, lines)):
            cut = [line[:MAX_COLUMNS] for line in text[first - 1 : last]]
            if cut:
                clean = redact("\n".join(cut)).split("\n")
                result.append(Excerpt(file=file, first_line=first, lines=tuple(clean)))
    return result


def _heads(text: list[str], lines: Iterable[int]) -> set[int]:
    """Find the lines that open the blocks around each line, out to its function.

    They tell whether a place further down is behind a loop, or only behind an if in it.
    """
    heads: set[int] = set()
    for line in lines:
        depth = _depth(text[line - 1]) if line <= len(text) else 0
        for number in range(line - 1, 0, -1):
            if depth == 0:
                break
            above = text[number - 1]
            if above.strip() and not above.lstrip().startswith("#") and _depth(above) < depth:
                depth = _depth(above)
                heads.add(number)
                if above.lstrip().startswith(("def ", "async def ")):
                    break
    return heads


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _ranges(lines: Iterable[int], alone: Iterable[int]) -> list[tuple[int, int]]:
    """Join what overlaps: first and last line of each stretch to show, and lines kept alone."""
    around = [(max(1, line - AROUND), line + AROUND) for line in lines]
    joined: list[tuple[int, int]] = []
    for first, last in sorted([*around, *((line, line) for line in alone)]):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined


def _read(proc: Proc, file: str, pid: int, cwd: str | None) -> list[str]:
    path = file if file.startswith("/") or cwd is None else f"{cwd}/{file}"
    try:
        with open(proc.path_for(pid, path), "rb") as stream:  # noqa: PTH123 - a Path would normalise the name
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError):
        return []
    if len(data) > MAX_BYTES or b"\0" in data:
        return []
    return data.decode(errors="replace").splitlines()
