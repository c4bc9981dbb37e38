"""One pass over one log: find lines, take them apart, hand them to the readers of lines."""

from __future__ import annotations

import contextlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from whyhang.analyzer.facts import (
    Fact,
    Gap,
    LastLine,
    LogLine,
    SignOfLife,
    Source,
    Statement,
    TrainingOutput,
    Trust,
    Who,
    replace,
)
from whyhang.collectors.logs.blocks import Block, PlainBlock, blocks
from whyhang.collectors.logs.bulk import BulkReader, bulk_readers
from whyhang.collectors.logs.fold import Fold
from whyhang.collectors.logs.found import FileView, Found, Handler, LineReader
from whyhang.collectors.logs.life import program, sign
from whyhang.collectors.logs.line import clean, take_apart
from whyhang.collectors.logs.ops import op_of
from whyhang.collectors.logs.patience import Patience, TooSlowError
from whyhang.collectors.logs.pipeline import Part, at_hand, searched
from whyhang.collectors.logs.prose import is_quoted
from whyhang.collectors.logs.ranges import ranges
from whyhang.collectors.logs.readers import line_readers
from whyhang.collectors.logs.rejoin import rejoin
from whyhang.collectors.logs.search import Hit, Searcher
from whyhang.collectors.logs.speakers import speaker
from whyhang.collectors.logs.syntax import is_whole

if TYPE_CHECKING:
    import regex

STORM = 4096  # hits of one pattern in one file, after which only some are looked at
SPOKEN = 8  # of those, the first of each speaker; beside them its last of each block
MAX_CHOSEN = 50_000  # lines chosen so; after them
STORM_FIRST, STORM_LAST = 32, 8  # the first and last of each block
SAMPLED = 16384  # hits of a sampled pattern in one file among which each speaker's last is found
SAMPLE = 2  # hits of it in each block after that
LONGEST = 16 << 10  # bytes of a line that are looked at, around what was found
MAX_TEXT = 2000  # characters of a line that are kept
LEAD = 300  # of them, before what was found
MAX_SPOKEN = 500  # lines in which it is looked who speaks
TAIL = 1000  # bytes of the end of a file that its last line is taken from
HEAD = 32 << 10  # bytes of its beginning in which a sign of life is looked for

# Lines of a message that began in a line before, which says whose it is.
_CONTINUED = re.compile(
    r"[ \t]+\S|nccl[A-Z]\w+Error: |Last error:|Exception raised from |frame #\d+: "
)
Matcher = Callable[[int], "tuple[str, bool, regex.Pattern[str] | None]"]
"""Gives for a pattern's number its text, whether lines are wanted for it, and it compiled."""


class FileScan:
    """The scan of one file; ``facts`` may be asked once."""

    def __init__(
        self,
        file: FileView,
        searcher: Searcher,
        matcher: Matcher,
        patience: Patience,
        threads: int | None = None,
    ) -> None:
        self.file = file
        self.searcher = searcher
        self.matcher = matcher
        self.patience = patience
        self.threads = threads
        self.fold = Fold()
        self.readers = line_readers(file)
        self.bulk = bulk_readers(file)
        self.handlers: dict[str, list[Handler]] = defaultdict(list)
        for reader in self.readers:
            for pattern, handler in reader.watches().items():
                self.handlers[pattern].append(handler)
        self.hits: Counter[int] = Counter()
        self.looked_at: Counter[int] = Counter()  # places of sampled patterns
        self.spoken: Counter[tuple[int, bytes]] = Counter()  # hits in storms, by pattern and who
        self.chosen: Counter[int] = Counter()  # lines looked at in storms
        self.trouble: dict[str, Gap] = {}
        self.last_words: dict[int, tuple[int, str]] = {}
        self.tail = b""
        self.last_line: int | None = None

    def facts(self, told: Callable[[int], None]) -> Iterator[Fact]:
        """Read the file to its end, or as far as it can be read, and give what it says."""
        try:
            with contextlib.ExitStack() as stack:
                line = 1
                parts = self._parts(stack, told)
                # Its threads end before the file is closed that they read.
                found = stack.enter_context(
                    contextlib.closing(searched(parts, self.searcher, self.threads))
                )
                for block, (hits, marks) in found:
                    block.line = line
                    self._block(block, hits, marks)
                    line = block.line_at(block.stop)
                    self.tail = bytes(block.data[max(block.start, block.stop - TAIL) : block.stop])
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
            yield from self._facts_of(reader)
        for bulk in self.bulk.values():
            yield from self._facts_of(bulk)
        for kept in self.fold.lines():
            yield replace(kept, who=self.file.resolve(kept.who))
        yield from self._end()
        yield from self._last_words()
        if self.fold.dropped:
            self._note(
                "dropped",
                what=f"Keeping all telling lines of {self.file.document.path}",
                why=f"there are too many kinds of them; {self.fold.dropped} were dropped",
                cost="rare lines late in the file may be missing",
            )
        yield from self.trouble.values()

    def _parts(self, stack: contextlib.ExitStack, told: Callable[[int], None]) -> Iterator[Part]:
        """Give the blocks of the file. A small one is at hand already: thousands are quick."""
        document = self.file.document
        size = len(document.head)
        if 0 < document.size == size:
            told(size)
            data = rejoin(document.head) + b"\n"
            size = len(data) - 1
            return at_hand((Block(data, start=0, stop=size, end=size, known=0, base=0),))
        stream = stack.enter_context(document.open())
        return ranges(stream, told) or at_hand(blocks(stream, told=told))

    def _end(self) -> Iterator[Statement]:
        """Say how a log ends: a process that was killed says nothing, and its log just stops."""
        tail = clean(self.tail)
        lines = tail.strip().splitlines()
        if self.last_line is not None:  # without the empty ones behind it
            self.last_line -= tail[len(tail.rstrip()) :].count("\n")
        if self.last_line is not None and lines:
            yield LastLine(
                text=lines[-1][:MAX_TEXT],
                ends_log=True,
                who=self.file.document.who,
                source=self.file.document.source(self.last_line),
            )
        text = clean(self.tail) + "\n" + clean(bytes(self.file.document.head[:HEAD]))
        who, source = self.file.document.who, self.file.document.source()
        if lines and (told := sign(text)) is not None:
            yield SignOfLife(text=told, who=who, source=self._last_sign(lines) or source)
        if lines and (told := program(text)) is not None:
            yield TrainingOutput(text=told, who=who, source=source)

    def _last_sign(self, lines: Sequence[str]) -> Source | None:
        """Find the last of these lines, which end the file, that has a sign of life."""
        if self.last_line is None:
            return None
        back = next((n for n, line in enumerate(reversed(lines)) if sign(line) is not None), None)
        return None if back is None else self.file.document.source(max(1, self.last_line - back))

    def _listen(self) -> None:
        """Learn from a log of several ranks who speaks, and as which process.

        Lines without a rank of their own then belong to that of their process; one that speaks
        for several ranks is none of them.
        """
        document = self.file.document
        who = document.who
        if not self.hits or who.rank is not None or who.local_rank is not None:
            return
        processes: dict[tuple[str | None, int], set[int]] = defaultdict(set)
        for number, raw in enumerate(document.head.split(b"\n", MAX_SPOKEN)[:MAX_SPOKEN], 1):
            if not raw.strip():
                continue
            for line in take_apart(clean(raw[:MAX_TEXT]), self.file.voice):
                who = line.prefix
                if who.rank is not None:
                    self.last_words[who.rank] = (number, line.text)
                    if who.pid is not None:
                        processes[who.host, who.pid].add(who.rank)
        for process, ranks in processes.items():
            if len(ranks) == 1:
                self.file.pids.setdefault(process, min(ranks))

    def _last_words(self) -> Iterator[LastLine]:
        """Say what each rank says last in a log of several, as far as it was listened to."""
        for rank, (number, text) in sorted(self.last_words.items()):
            if len(self.last_words) > 1:
                yield LastLine(
                    text=text.strip(),
                    ends_log=False,
                    who=Who(rank=rank, trust=Trust.PREFIX),
                    source=self.file.document.source(number),
                )

    def _facts_of(self, reader: LineReader | BulkReader) -> Iterator[Fact]:
        try:
            yield from reader.facts()
        except (ValueError, KeyError, IndexError, TypeError, OverflowError) as error:
            self._reader_failed(type(reader).__name__, error)

    def _note(self, key: str, *, what: str, why: str, cost: str, remedy: str = "") -> None:
        source = self.file.document.source()
        self.trouble[key] = Gap(what=what, why=why, cost=cost, remedy=remedy, source=source)

    def _reader_failed(self, name: str, error: Exception) -> None:
        self._note(
            name,
            what=f"Understanding some lines of {self.file.document.path}",
            why=f"{name}: {type(error).__name__}: {error}",
            cost="what they say is not used",
            remedy="report this with the line, it is a mistake of whyhang",
        )

    def _block(self, block: Block, hits: list[Hit], marks: set[int]) -> None:
        if block.coloured:
            block = PlainBlock(block)
            hits, marks = self.searcher.search(block)
        for mark in marks:
            self.bulk[mark].feed(block)
        if hits:
            self._hits(block, self._placed(block, hits))

    def _hits(self, block: Block, hits: Sequence[Hit]) -> None:
        """Take the lines apart in which something was found, in order, each once."""
        wanted: set[int] = set()
        start = end = -1
        for offset, number in sorted(self._thinned(block, hits)):
            at = block.start + offset - 1  # the last byte of what was found
            if at < block.known:
                continue
            if at >= end:
                if wanted:
                    self._line(block, start, end, wanted)
                start, end = block.segment(at, LONGEST)
                wanted = set()
            wanted.add(number)
        if wanted:
            self._line(block, start, end, wanted)

    def _placed(self, block: Block, hits: Sequence[Hit]) -> Sequence[Hit]:
        """Find places of patterns that are reported once a block: of each speaker the last."""
        sampled = {number for _, number in hits} & self.searcher.sampled
        if not sampled:
            return hits
        placed = [hit for hit in hits if hit[1] not in sampled]
        for number in sampled:
            alone = self.file.document.who.rank is not None  # nobody else speaks here
            most = SAMPLE if alone else max(SAMPLE, SAMPLED - self.looked_at[number])
            found, seen = self.searcher.places(block, number, most)
            self.looked_at[number] += seen
            placed += found
        return placed

    def _thinned(self, block: Block, hits: Sequence[Hit]) -> Sequence[Hit]:
        """Of a pattern that is found everywhere, look at some of what each speaker says."""
        counts = Counter(number for _, number in hits)
        self.hits.update(counts)
        few = STORM_FIRST + STORM_LAST
        storms = {n for n, count in counts.items() if count > few and self.hits[n] > STORM}
        if not storms:
            return hits
        kept = [hit for hit in hits if hit[1] not in storms]
        for number in storms:
            name, _, compiled = self.matcher(number)
            places = self.searcher.exact(block, number)
            if not is_whole(name) and compiled is not None:
                rough = [hit for hit in hits if hit[1] == number] if places is None else places
                places = self._verified(block, number, rough)
            if places is None:
                kept += [hit for hit in hits if hit[1] == number]
            else:
                chosen = self._chosen(block, number, sorted(places))
                self.fold.more(name, len(places) - len(chosen))
                kept += chosen
        return kept

    def _chosen(self, block: Block, number: int, places: list[Hit]) -> list[Hit]:
        """Choose what each speaker says first and last; of too many, the first and last few.

        A thousand ranks that say the same are a thousand facts, one that says it over and over
        is one.
        """
        if self.chosen[number] >= MAX_CHOSEN:
            few = STORM_FIRST + STORM_LAST
            return places if len(places) <= few else places[:STORM_FIRST] + places[-STORM_LAST:]
        last: dict[bytes, Hit] = {}
        chosen: set[Hit] = set()
        for place in places:
            who = speaker(block.data, block.start + place[0] - 1)
            self.spoken[number, who] += 1
            if self.spoken[number, who] <= SPOKEN:
                chosen.add(place)
            last[who] = place
        chosen.update(last.values())
        self.chosen[number] += len(chosen)
        return sorted(chosen)

    def _verified(self, block: Block, number: int, places: Sequence[Hit]) -> list[Hit]:
        """Keep those places whose line the pattern matches, where the search cannot tell."""
        name, _, compiled = self.matcher(number)
        assert compiled is not None
        kept: list[Hit] = []
        for place in places:
            start, end = block.segment(block.start + place[0] - 1, LONGEST)
            try:
                if self.patience.search(name, compiled, clean(bytes(block.data[start:end]))):
                    kept.append(place)
            except TooSlowError as slow:
                self._give_up(number, slow, self.file.document.source(block.line_at(start)))
                break
        return kept

    def _give_up(self, number: int, slow: TooSlowError, source: Source) -> None:
        """Use a pattern no longer: in this file, or in none if it is a user's."""
        self.trouble[slow.pattern] = self.patience.gap(slow, source)
        if slow.pattern in self.patience.ended:
            self.searcher.forget(number)

    def _line(self, block: Block, start: int, end: int, wanted: set[int]) -> None:
        """Search one line with the patterns that may be in it."""
        text = clean(bytes(block.data[start:end]))
        lines = take_apart(text, self.file.voice)
        founds = [Found(block, start, line, self.file) for line in lines]
        if lines[0].who.rank is None and _CONTINUED.match(lines[0].text):
            founds[0].inherit_speaker()
        if len(lines) > 1 or lines[0].text != text:  # a pattern may want the wrapping, too
            whole = replace(lines[0], text=text)
            founds.append(Found(block, start, whole, self.file))
        kept: dict[int, list[tuple[str, regex.Match[str]]]] = {}
        for number in sorted(wanted):
            pattern, outside, compiled = self.matcher(number)
            try:
                for which, match in self._matches(pattern, compiled, founds, len(lines)):
                    if outside:
                        kept.setdefault(which, []).append((pattern, match))
                    for handler in self.handlers.get(pattern, ()):
                        self._handle(handler, founds[which], match)
            except TooSlowError as slow:
                self._give_up(number, slow, founds[0].source)
        for which, matches in kept.items():
            for line in log_lines(founds[which], matches):
                self.fold.add(line)

    def _matches(
        self, pattern: str, compiled: regex.Pattern[str] | None, founds: list[Found], parts: int
    ) -> Iterator[tuple[int, regex.Match[str]]]:
        """Search the parts of a line; the last one is the whole, asked only if no part has it."""
        if compiled is None:
            self._note(
                pattern,
                what=f"Searching logs for the pattern {pattern!r}",
                why="it is not a valid regular expression",
                cost="lines that it describes are not found",
            )
            return
        if pattern in self.trouble or pattern in self.patience.ended:
            return
        seen = False
        for which, found in enumerate(founds):
            if which == parts and seen:
                return
            match = self.patience.search(pattern, compiled, found.text)
            if match is not None and not is_quoted(found.text, match.start()):
                seen = True
                yield which, match

    def _handle(self, handler: Handler, found: Found, match: regex.Match[str]) -> None:
        try:
            handler(found, match)
        except (ValueError, KeyError, IndexError, TypeError, OverflowError) as error:
            self._reader_failed(getattr(handler, "__qualname__", "reader"), error)


def log_lines(found: Found, matches: list[tuple[str, regex.Match[str]]]) -> Iterator[LogLine]:
    """Make one fact of a line, or several where patterns capture different things by one name."""
    rest = [(pattern, match, _fields(match)) for pattern, match in matches]
    while rest:
        fields: dict[str, str] = {}
        taken = []
        for entry in rest:
            if all(fields.get(key, value) == value for key, value in entry[2].items()):
                fields.update(entry[2])
                taken.append(entry)
        rest = [entry for entry in rest if entry not in taken]
        first = min(match.start() for _, match, _ in taken)
        begin = max(0, min(first - LEAD, len(found.text) - MAX_TEXT))
        yield LogLine(
            who=found.who,
            text=found.text[begin : begin + MAX_TEXT],
            source=found.source,
            matched=tuple(pattern for pattern, _, _ in taken),
            fields=fields,
            time=found.time,
            offset=found.offset,
        )


def _fields(match: regex.Match[str]) -> dict[str, str]:
    named = {key: value.strip() for key, value in match.groupdict().items() if value is not None}
    return {key: op_of(value) if key == "op" else value for key, value in named.items()}
