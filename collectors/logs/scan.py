"""One pass over one log: find lines, take them apart, hand them to the readers of lines."""

import contextlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet

from whyhang.analyzer.facts import Fact, Gap, LastLine, Trust, Who, replace
from whyhang.collectors.logs.compared import compared
from whyhang.collectors.logs.ending import TAIL, ending
from whyhang.collectors.logs.engine.byte_blocks import (
    LONGEST,
    Block,
    Hit,
    PlainBlock,
    Progress,
    blocks,
    ranges,
)
from whyhang.collectors.logs.engine.matching import Match, Matching, Patterns, Storms
from whyhang.collectors.logs.engine.search import Part, Searcher, at_hand, searched
from whyhang.collectors.logs.introductions import devices, introductions
from whyhang.collectors.logs.lines.line_reader import FoundLine, LogFile
from whyhang.collectors.logs.lines.readers import READERS
from whyhang.collectors.logs.lines.signature_lines import Fold
from whyhang.collectors.logs.state_tables import state_tables
from whyhang.collectors.logs.text.broken import mended
from whyhang.collectors.logs.text.line import Line, clean
from whyhang.collectors.logs.text.pasted import is_quoted, rejoin

_FRAME = re.compile(r'\s*File "[^"]*", line \d+, in \S')
MAX_SPOKEN = 500  # lines in which it is looked who speaks
MOST_PIECES = 64  # of one line that are looked at


class FileScan:
    """The scan of one file; ``facts`` may be asked once."""

    def __init__(
        self, file: LogFile, searcher: Searcher, patterns: Patterns, threads: int = 1
    ) -> None:
        self.file = file
        self.searcher = searcher
        self.matching = Matching(patterns, file.document)
        self.storms = Storms(self.matching, searcher)
        self.threads = threads
        self.fold = Fold()
        self.readers = [reader(file) for reader in READERS]
        self.handlers: defaultdict[str, list[Callable[..., None]]] = defaultdict(list)
        self.block_handlers: defaultdict[str, list[Callable[..., None]]] = defaultdict(list)
        for reader in self.readers:
            for pattern, method in reader.wants.items():
                self.handlers[pattern].append(getattr(reader, method))
            for pattern, method in reader.wants_blocks.items():
                self.block_handlers[pattern].append(getattr(reader, method))
        self.trouble: dict[str, Gap] = {}
        self.last_words: dict[int, tuple[int, Line]] = {}
        self.within_traceback: set[int] = set()  # ranks whose last line is of a frame
        self._pieces = 0
        self._piece = -1
        self.tail = b""
        self.size = 0
        self.last_line: int | None = None

    def facts(self, on_bytes: Progress) -> Iterator[Fact]:
        """Read the file to its end, or as far as it can be read, and give what it says."""
        try:
            with contextlib.ExitStack() as stack:
                line = 1
                parts = self._parts(stack, on_bytes)
                # Its threads end before the file is closed that they read.
                blocks_and_hits = stack.enter_context(
                    contextlib.closing(searched(parts, self.searcher, self.threads))
                )
                for block, hits in blocks_and_hits:
                    block.line = line
                    self._block(block, hits)
                    line = block.line_at(block.stop)
                    piece = bytes(block.data[max(block.start, block.stop - TAIL) : block.stop])
                    self.tail = piece if len(piece) == TAIL else (self.tail + piece)[-TAIL:]
                    self.size = block.file_offset(block.stop)
                    block.release()
                self.last_line = line
        except Exception as error:  # noqa: BLE001 - whatever a decompressor raises: a gap
            self._note(
                "end",
                what=f"Reading {self.file.document.path} to its end",
                why=f"{type(error).__name__}: {error}",
                cost="what the rest of it says is not known",
            )
        self._listen()
        for reader in self.readers:
            with self._guard(type(reader).__name__):
                yield from reader.facts()
        for kept in self.fold.lines(self.storms.passed_over):
            yield replace(kept, who=self.file.speaker(kept))
        yield from ending(self.tail, self.file, self.last_line, self.size, self.last_words)
        yield from self._last_words()
        yield from state_tables(self.tail, self.file, self.last_line)
        for fact in compared(self.file.document.head, self.file):
            yield replace(fact, who=self.file.resolve(fact.who))
        yield from introductions(self.file.document.head, self.file)
        yield from devices(self.file.document.head, self.file)
        if self.fold.dropped:
            self._note(
                "dropped",
                what=f"Keeping all telling lines of {self.file.document.path}",
                why=f"there are too many kinds of them; {self.fold.dropped} were dropped",
                cost="rare lines late in the file may be missing",
            )
        yield from self.trouble.values()
        yield from self.matching.gaps.values()

    def _parts(self, stack: contextlib.ExitStack, on_bytes: Progress) -> Iterator[Part]:
        """Return the blocks of the file. A small one is at hand already: thousands are quick."""
        document = self.file.document
        size = len(document.head)
        if 0 < document.size == size:
            on_bytes(size)
            data = mended(rejoin(document.head), self._found_in) + b"\n"
            size = len(data) - 1
            return at_hand((Block(data, start=0, stop=size, end=size, known=0, base=0),))
        stream = stack.enter_context(document.open())
        return ranges(stream, on_bytes) or at_hand(blocks(stream, on_bytes=on_bytes))

    def _found_in(self, data: bytes) -> Mapping[int, AbstractSet[int]]:
        """Return the patterns that match in each line of a text."""
        block = Block(data + b"\n", start=0, stop=len(data), end=len(data), known=0, base=0)
        found: defaultdict[int, set[int]] = defaultdict(set)
        wanted: dict[tuple[int, int], set[int]] = defaultdict(set)
        for offset, number in sorted(self.searcher.search(block) or ()):
            wanted[block.segment(offset - 1, LONGEST)].add(number)  # found at many ends of one line
        for (start, end), number in ((s, n) for s, numbers in wanted.items() for n in numbers):
            line = block.line_at(start)
            text = clean(bytes(block.data[start:end]))
            if self.matching.search(number, text, lambda at=line: at) is not None:  # type: ignore[misc]
                found[line - 1].add(number)
        return found

    def _listen(self) -> None:
        """Learn from a log of several ranks who speaks, and as which process.

        Lines without a rank of their own then belong to that of their process; one that speaks
        for several ranks is none of them.
        """
        who = self.file.voice.who
        if not self.storms.hits or who.rank is not None or who.local_rank is not None:
            return
        labelled = self.file.voice.index is not None  # a rank's own label tells who speaks, too
        processes: dict[tuple[str | None, int], set[int]] = defaultdict(set)
        for number, line in self.file.beginning(MAX_SPOKEN):
            who = line.who if labelled and line.prefix.rank is None else line.prefix
            if who.rank is not None:
                last = self.last_words.get(who.rank)
                self.last_words[who.rank] = (number, line)
                source = last is not None and _FRAME.match(last[1].text) and line.text[:1] == " "
                if source or _FRAME.match(line.text):
                    self.within_traceback.add(who.rank)
                else:
                    self.within_traceback.discard(who.rank)
                if who.pid is not None:
                    processes[who.host, who.pid].add(who.rank)
        for process, ranks in processes.items():
            if len(ranks) == 1:
                self.file.pids.setdefault(process, min(ranks))

    def _last_words(self) -> Iterator[LastLine]:
        """Say what each rank says last in a log of several, as far as it was listened to.

        A traceback that is cut has no last words.
        """
        for rank, (number, line) in sorted(self.last_words.items()):
            if len(self.last_words) > 1 and rank not in self.within_traceback:
                yield LastLine(
                    text=line.text.strip(),
                    ends_log=False,
                    time=line.time,
                    who=Who(rank=rank, trust=Trust.PREFIX),
                    source=self.file.document.source(number),
                )

    def _note(self, key: str, *, what: str, why: str, cost: str, remedy: str = "") -> None:
        self.trouble[key] = self.file.document.gap(why, what=what, cost=cost, remedy=remedy)

    @contextlib.contextmanager
    def _guard(self, name: str) -> Iterator[None]:
        """Let a mistake of a reader of lines cost no more than what it reads."""
        try:
            yield
        except (ValueError, KeyError, IndexError, TypeError, OverflowError) as error:
            self._note(
                name,
                what=f"Understanding some lines of {self.file.document.path}",
                why=f"{name}: {type(error).__name__}: {error}",
                cost="what they say is not used",
                remedy="report this with the line, it is a mistake of whyhang",
            )

    def _block(self, block: Block, hits: list[Hit]) -> None:
        """Take the lines apart in which something was found, in order, each once."""
        if block.coloured:
            block = PlainBlock(block)
            hits = self.searcher.search(block) or []
        for number in {number for _, number in hits}:
            for handler in self.block_handlers.get(self.matching.patterns.texts[number], ()):
                with self._guard(handler.__qualname__):
                    handler(block)
        wanted: set[int] = set()
        start = end = -1
        for offset, number in self.storms.choose(block, hits):
            at = block.start + offset - 1  # the last byte of what was found
            if at < block.known:
                continue
            if at >= end:
                if wanted:
                    self._line(block, start, end, wanted)
                start, end = block.segment(at, LONGEST)
                wanted = set()
            if self._is_enough(block, start):
                continue
            wanted.add(number)
        if wanted:
            self._line(block, start, end, wanted)

    def _is_enough(self, block: Block, start: int) -> bool:
        """Return whether so much of one endless line was looked at that the rest is left out."""
        if start == 0 or block.data[start - 1] in b"\r\n":
            self._pieces = 0
        elif start != self._piece:
            self._pieces += 1
        self._piece = start
        if self._pieces > MOST_PIECES:
            self._note(
                "long",
                what=f"All of a line of {self.file.document.path}",
                why=f"it has no end for more than {MOST_PIECES * LONGEST >> 20} MiB",
                cost="what stands further on in it is not known",
            )
        return self._pieces > MOST_PIECES

    def _line(self, block: Block, start: int, end: int, wanted: set[int]) -> None:
        """Search one line with the patterns that may be in it."""
        lines = FoundLine.all_in(block, start, end, self.file)
        parts = len(lines)
        text = clean(bytes(block.data[start:end]))
        if parts > 1 or lines[0].text != text:  # a pattern may want the wrapping, too
            whole = replace(lines[0].line, text=text)
            lines.append(FoundLine(block, start, whole, self.file))
        kept: dict[int, list[tuple[str, Match]]] = {}
        for number in sorted(wanted):
            pattern = self.matching.patterns.texts[number]
            for which, match in self._matches(number, lines, parts):
                if pattern in self.matching.patterns.outside:
                    kept.setdefault(which, []).append((pattern, match))
                for handler in self.handlers.get(pattern, ()):
                    with self._guard(handler.__qualname__):
                        handler(lines[which], match)
        for which, matches in kept.items():
            self.fold.add(lines[which], matches)

    def _matches(
        self, number: int, lines: list[FoundLine], parts: int
    ) -> Iterator[tuple[int, Match]]:
        """Search the parts of a line; the last one is the whole, asked only if no part has it."""
        seen = False
        for which, line in enumerate(lines):
            if which == parts and seen:
                return
            match = self.matching.search(number, line.text, lambda at=line: at.number)  # type: ignore[misc]
            if match is not None and not is_quoted(line.text, match.start()):
                seen = True
                yield which, match
