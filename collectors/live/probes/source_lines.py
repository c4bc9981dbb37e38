"""Source lines around the places where user code stands, so that a report can show them.

Only files of the user's own and of frameworks are read, whose trainers hold the loops, not those of
libraries, and only as text. What stands in
quotes is kept on the lines at which a frame stands and nowhere else: nobody needs the others, and a
secret in them need not look like one.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from whyhang.analyzer.facts import Excerpt, Gap, Who
from whyhang.analyzer.redact import redact
from whyhang.analyzer.stacks.usercode import Origin, origin_of_file
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.probes.probe import Collected, Probe, Site
from whyhang.collectors.live.snapshot import Snapshot
from whyhang.collectors.live.words import gap
from whyhang.collectors.stacks.pyspy_json import read_traces

AROUND = 4
"""Lines shown before and after each line that a frame stands at."""

MAX_BELOW = 60
"""Lines below one that takes a lock, in which it should be given back."""

MAX_FILES = 200
MAX_BYTES = 4 << 20
MAX_COLUMNS = 400

_LITERAL = re.compile(
    r"""(?s)\#[^\n]*                                    # no literal begins in a comment
    |   (?P<quote>\"{3}|'{3})(?P<long>(?:[^\\]|\\.)*?)(?:(?P=quote)|\Z)
    |   \"(?P<double>(?:[^\"\\\n]|\\.)*)\"?
    |   '(?P<single>(?:[^'\\\n]|\\.)*)'?
    """,
    re.VERBOSE,
)
HIDDEN = "…"
"""What stands for the text of a literal."""


def collect(site: Site, collected: Collected) -> None:
    """Read around every place at which the snapshots have seen user code."""
    site.wait_for_last()
    collected.facts += excerpts(site.host, stands(site.snapshots))


def stands(snapshots: Iterable[Snapshot]) -> dict[tuple[str, int], int]:
    """Return the places of user code in snapshots, each with a process that was seen there."""
    dumps = (dump for snapshot in snapshots for dump in snapshot.dumps)
    pids: dict[tuple[str, int], int] = {}
    for dump in dumps:
        pids = dict.fromkeys(places(dump.data), dump.pid) | pids
    return pids


def places(data: bytes) -> set[tuple[str, int]]:
    """List the files and lines of users and frameworks in what ``py-spy dump --json`` printed."""
    frames = {(f.filename, f.line) for thread in read_traces(data) for f in thread.frames}
    return {
        (file, line)
        for file, line in frames
        if line > 0 and not file.startswith("<") and origin_of_file(file) is not Origin.LIBRARY
    }


def excerpts(host: Host, pids: Mapping[tuple[str, int], int]) -> Iterator[Excerpt | Gap]:
    """Read the lines around each place; ``pids`` gives a pid for each, to know whose files."""
    wanted: dict[str, set[int]] = {}
    readers: dict[str, int] = {}
    for (file, line), pid in sorted(pids.items()):
        wanted.setdefault(file, set()).add(line)
        readers.setdefault(file, pid)
    for file, lines in list(wanted.items())[:MAX_FILES]:
        content = host.files.read(host.proc.path_for(readers[file], file), most=MAX_BYTES + 1)
        if not (content.is_file or content.trouble):
            yield gap("source-file", Who(pid=readers[file]), file=redact(file))
        whole = len(content.data) <= MAX_BYTES and b"\0" not in content.data
        source = content.data.decode(errors="replace").splitlines() if whole else []
        text = without_literals(source, lines)
        heads = _heads(text, lines)
        further = heads | _ways_out(text, lines, heads) | _ways_past(text, lines)
        further |= _handlers(text, lines, heads) | _fillers(text, lines)
        for first, last in _ranges(lines, further):
            clean = redact("\n".join(text[first - 1 : last])).split("\n")
            if text:
                kept = tuple(line[:MAX_COLUMNS] for line in clean)  # half a secret looks like none
                yield Excerpt(file=redact(file), first_line=first, lines=kept)


def without_literals(lines: list[str], shown: Collection[int]) -> list[str]:
    """Hide what stands in quotes on all lines but those shown (counted from 1)."""
    text = "\n".join(lines)
    parts: list[str] = []
    at, number = 0, 1
    for literal in _LITERAL.finditer(text):
        group = literal.lastgroup if literal.lastgroup != "quote" else "long"
        if group is None or not literal[group]:
            continue
        start, end = literal.span(group)
        number += text.count("\n", at, start)
        parts.append(text[at:start])
        for piece in re.split("(\n)", text[start:end]):
            parts.append(piece if number in shown else re.sub(r"\S.*", HIDDEN, piece))
            number += piece == "\n"
        at = end
    return "".join((*parts, text[at:])).split("\n") if lines else []


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
                if above.lstrip().startswith(_DEF):
                    break
    return heads


_LOOP = re.compile(r"\s*(?:async\s+)?(?:for|while)\b")
_IF = re.compile(r"\s*(?:el)?if\b")
_DEF = ("def ", "async def ")
_TAKES = re.compile(r"\.(?:Lock|Lock_all|acquire|lock)\(")
_GIVES_BACK = re.compile(r"\.(?:Unlock|Unlock_all|release|unlock)\(")
_RAISES = re.compile(r"\s*raise\b")
_LEAVES = re.compile(r"\s*(?:return|break|continue)\b")
_RETURNS = re.compile(r"\s*return\b")
_TRY = re.compile(r"\s*try\s*:")
_EXCEPT = re.compile(r"\s*except\b")
_GOES_WITH_TRY = re.compile(r"\s*(?:except|else|finally)\b")
_GETS = re.compile(r"\.get\(")
_PUTS = re.compile(r"\.put(?:_nowait)?\(")
_JOINS = re.compile(r"\.join\(\)")
_MARKS = re.compile(r"\.task_done\(")
_ACQUIRES = re.compile(r"\.acquire\(")
_RELEASES = re.compile(r"\.release\(")
MOST_PUTS = 8
"""Lines of a file that put into queues; where there are more, none tells anything."""


def _ways_out(text: list[str], lines: Iterable[int], heads: Collection[int]) -> set[int]:
    """Find the branches near each line that leave the innermost loop around it, or its function.

    They tell why a rank is not in the call of the others: with each, the line that leaves. Above
    that loop it is those that return; in it those below as well, which come in an earlier turn.
    """
    ways: set[int] = set()
    for line in lines:
        depth = _depth(text[line - 1]) if line <= len(text) else 0
        loops = [n for n in heads if n < line and _LOOP.match(text[n - 1])]
        loops = [n for n in loops if _depth(text[n - 1]) < depth]
        above = [n for n in heads if n < line and text[n - 1].lstrip().startswith(_DEF)]
        loop = max(loops, default=0)
        last = _last_of_block(text, loop, min(line + MAX_BELOW, len(text))) if loop else line - 1
        branch = 0
        for number in range(max(above, default=loop or line) + 1, last + 1):
            inside = branch and _depth(text[number - 1]) > _depth(text[branch - 1])
            leaves = _LEAVES if number > loop else _RETURNS
            if _IF.match(text[number - 1]):
                branch = number
            elif inside and leaves.match(text[number - 1]):
                ways |= {branch, number}
    return ways


def _last_of_block(text: list[str], head: int, most: int) -> int:
    """Return the last line of the block that a line opens, or ``most`` if that comes before."""
    depth = _depth(text[head - 1])
    below = (n for n in range(head + 1, most + 1) if text[n - 1].strip())
    return next((n - 1 for n in below if _depth(text[n - 1]) <= depth), most)


def _handlers(text: list[str], lines: Iterable[int], heads: Collection[int]) -> set[int]:
    """Find what handles the errors of each ``try`` around these lines, and may go on."""
    found: set[int] = set()
    for head in (n for n in heads if _TRY.match(text[n - 1])):
        depth, last = _depth(text[head - 1]), max((n for n in lines if n > head), default=head)
        handles = False
        for number in range(head + 1, min(last + MAX_BELOW, len(text)) + 1):
            below = text[number - 1]
            if below.strip() and _depth(below) <= depth:
                handles = _EXCEPT.match(below) is not None
                if not _GOES_WITH_TRY.match(below):
                    break
            if handles:
                found.add(number)
    return found


def _fillers(text: list[str], lines: Collection[int]) -> set[int]:
    """Find the lines that put into a queue, in a file where one of these lines takes from one.

    And those that mark an item as done, where one waits until all are; those that give back a lock
    or a place, where one waits for it.
    """
    found: set[int] = set()
    standing = [text[line - 1] for line in lines if line <= len(text)]
    for waits, ends in ((_GETS, _PUTS), (_JOINS, _MARKS), (_ACQUIRES, _RELEASES)):
        if any(waits.search(line) for line in standing):
            those = {number for number, line in enumerate(text, 1) if ends.search(line)}
            found |= those | _heads(text, those) if len(those) <= MOST_PUTS else set()
    return found


def _ways_past(text: list[str], lines: Iterable[int]) -> set[int]:
    """Find what may lead past the release of a lock that is taken on one of the lines.

    The lines below that leave the function, the loop or its turn, with the branch that they stand
    in, and the line that gives the lock back.
    """
    ways: set[int] = set()
    for line in (n for n in lines if n <= len(text) and _TAKES.search(text[n - 1])):
        depth, branch = _depth(text[line - 1]), 0
        for number in range(line + 1, min(line + MAX_BELOW, len(text)) + 1):
            below = text[number - 1]
            if below.strip() and _depth(below) < depth:
                break
            if _IF.match(below):
                branch = number
            elif _LEAVES.match(below) or _RAISES.match(below):
                ways |= {number, *([branch] if branch else [])}
            elif _GIVES_BACK.search(below):
                ways.add(number)
                if _depth(below) == depth:
                    break
    return ways


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


PROBE = Probe(name="the source lines of the stacks", limit=5.0, collect=collect)
