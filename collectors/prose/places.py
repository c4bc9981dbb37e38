r"""Sentences and tables in which people tell where ranks stand, when they have looked at them.

``Ranks 0-4, 6 and 7 are stuck in all_reduce (train.py:210).  Rank 5 is in torch.save.``
``7 of 8 ranks are waiting in barrier, rank 3 is not.``  ``- rank2 → torch._inductor / compile_fx``
and rows below a head with the word "rank" in it. Only what is said of now counts ("is in", not
"waits in", as a description of a program has it), and only where it places several ranks.
"""

import re
from collections.abc import Iterator, Sequence

from whyhang.analyzer.facts import Frame, Record, StackDump, Trust, Who, replace, unfold
from whyhang.analyzer.reading import Document
from whyhang.collectors import limits
from whyhang.collectors.ops import OPERATIONS, op_of
from whyhang.collectors.prose.summaries import standing
from whyhang.collectors.prose.text import is_prose, phrases
from whyhang.collectors.stacks.frames import frame

LONGEST_SENTENCE = 400
LARGEST_WORLD = 1 << 14

OTHERS = "all other ranks"
"""Than the one whose stack stands beside what is said."""

_SENTENCE = re.compile(r"(?<=[.!?]) +(?=[A-Z`\"])")
_STACK = re.compile(rb"(?m)^\s*(?:Thread (?:0x)?[\dA-Fa-f]+ |#\d+ +0x|File \".*\", line \d)")
_PLACED = re.compile(r"\(?([\w./<>-]{1,200}\.(?:py|pyx|cpp|cc|cu)):(\d{1,7})\)?")
_NAME = re.compile(r"[A-Za-z_][\w.]*(?:\(\))?")
_CALL = re.compile(r"[A-Za-z_][\w.]*\(\)")
_CELLS = re.compile(r"\s*\|\s*|\t+| {2,}")
_C10D = "torch/distributed/distributed_c10d.py"


class _Standing(Record):
    """Where some ranks stand, in one sentence or row. ``frames`` is empty: "is not"."""

    ranks: tuple[int, ...]
    frames: tuple[Frame, ...]
    line: int
    copies: int = 1
    label: str = ""
    world: int | None = None


def places(document: Document) -> Iterator[StackDump]:
    """Yield where ranks stand, by sentences and the rows of tables."""
    for each in _standings(document):
        whom = [Who(rank=rank, trust=Trust.CONTENT) for rank in each.ranks]
        for who in whom or [Who(label=each.label)]:
            yield standing(document, who, each.frames, each.line, each.copies)


def _standings(document: Document) -> list[_Standing]:
    """Return what is said, if it places several ranks at two places or more."""
    if not is_prose(document) or b"rank" not in document.head.lower():
        return []
    lines = document.head.decode("utf-8", "replace").split("\n")
    if any(len(line) > limits.MAX_LINE for line in lines):
        return []
    standings = _completed([*_rows(lines), *_sentences(lines)])
    places = {each.frames for each in standings}
    beside = len(places) == 1 and standings[0].label == OTHERS and _STACK.search(document.head)
    if (len(places) < 2 and not beside) or not any(
        each.frames and _is_operation(each.frames) for each in standings
    ):
        return []
    operations: dict[int, set[str]] = {}
    for each in standings:
        for rank in each.ranks if _is_operation(each.frames) else ():
            operations.setdefault(rank, set()).add(each.frames[0].function)
    if any(len(own) > 1 for own in operations.values()):
        return []  # a course of events
    firsts = {rank: each for each in reversed(standings) for rank in each.ranks}
    return [one for one in standings if not one.ranks or any(firsts[n] is one for n in one.ranks)]


def _sentences(lines: Sequence[str]) -> Iterator[_Standing]:
    sentences = ((number, x) for number, line in enumerate(lines, 1) for x in _SENTENCE.split(line))
    for number, sentence in sentences:
        if len(sentence) > LONGEST_SENTENCE or phrases().doubt["supposed"].search(sentence):
            continue
        for match in phrases().places["says"].finditer(sentence):
            frames = _frames(match["place"])
            if not frames and not match["not"]:
                continue
            label, copies = "", 1
            if match["others"]:
                label, copies = OTHERS, int(match["others"])
            elif match["most"]:
                label, copies = f"{match['most']} ranks", int(match["most"])
            elif match["except"]:
                label, copies = f"all ranks but {match['except']}", 2
            yield _Standing(
                ranks=unfold(match["ranks"] or ""),
                frames=frames if not match["not"] else (),
                line=number,
                copies=copies,
                label=label,
                world=int(match["world"]) if match["world"] else None,
            )


def _rows(lines: Sequence[str]) -> Iterator[_Standing]:
    """Read the rows of a table whose head names ranks and what they do."""
    column: int | None = None
    for number, line in enumerate(lines, 1):
        cells = [cell.strip(" `*") for cell in _CELLS.split(line.strip().strip("|").strip())]
        heads = [cell.lower() for cell in cells]
        if len(cells) > 1 and "rank" in heads:
            column = heads.index("rank")
        elif column is not None and len(cells) > column and cells[column].isdecimal():
            rest = [cell for n, cell in enumerate(cells) if n != column]
            frames = next(filter(None, map(_frames, reversed(rest))), ())
            if frames and len(cells[column]) <= len(str(LARGEST_WORLD)):
                yield _Standing(ranks=(int(cells[column]),), frames=frames, line=number)
        elif column is not None and line.strip(" |-:+"):
            column = None


def _frames(text: str) -> tuple[Frame, ...]:
    """Read a place: "all_reduce (train.py:210)", "dist.barrier() at eval.py:91", "torch.save"."""
    text = text.strip(" .`*")
    placed = _PLACED.search(text)
    words = text[: placed.start()] if placed else text
    names = _NAME.findall(words.replace("`", ""))
    operations = (op_of(_last(name)) for name in names)
    operation = next((op for op in operations if op in OPERATIONS), None)
    inner: tuple[Frame, ...] = (frame(operation, _C10D),) if operation else ()
    if not inner:
        known = (name for name, said in phrases().functions.items() if said.search(words))
        inner = tuple(frame(*name.rstrip(")").split(" (")) for name in known)[:1]
    is_name = len(names) == 1 and re.search(r"[_.(]", words) is not None
    if placed:
        function = _last(names[-1]) if is_name and not inner else "<module>"
        return (*inner, frame(function, placed[1], int(placed[2])))
    if inner:
        rest = [n for n in names if op_of(_last(n)) != operation]
        return inner if len(rest) <= len(names) // 2 + 2 else ()
    called = _CALL.match(words)  # "evaluate(), in the loop over the loader"
    if called is not None:
        return (frame(_last(called[0]), ""),)
    return (frame(_last(names[0]), ""),) if is_name else ()


def _last(name: str) -> str:
    return name.removesuffix("()").rpartition(".")[2]


def _is_operation(frames: Sequence[Frame]) -> bool:
    return any(each.function in OPERATIONS for each in frames)


def _completed(standings: Sequence[_Standing]) -> list[_Standing]:
    """Give numbers to ranks that are only counted, where the named ones leave just so many."""
    named = {rank for each in standings for rank in each.ranks}
    done = []
    for each in standings:
        world = each.world if each.world is not None and each.world <= LARGEST_WORLD else 0
        rest = tuple(rank for rank in range(world) if rank not in named)
        is_rest = rest and len(rest) == each.copies
        done.append(replace(each, ranks=rest, copies=1, label="") if is_rest else each)
    return done
