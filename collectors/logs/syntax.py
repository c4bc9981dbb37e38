"""From a pattern as people write it to one that a fast scanner can search for.

Signatures hold patterns in the syntax of the ``regex`` module. Hyperscan knows less: no named
groups, no look-around, no back-references. But it need not decide anything: it only has to find
every line in which the pattern *may* match, since each line found is then searched with the
pattern itself. So a pattern is read into a small tree and written out again *loosened*: what
Hyperscan lacks is dropped, ends that may be empty are cut off, long counted repeats become
open ones, and what could match a line break is kept from doing so. Every line that the pattern
matches is matched by the loosened one; a property test holds that.

The same tree tells which literal words a match must contain, for searching without Hyperscan.
"""

from __future__ import annotations

from whyhang.analyzer.facts import Record, replace

COMMON = "NCCL INFO "  # stands in most lines of some logs: no word to look for
MAX_COUNT = 16  # larger counted repeats make Hyperscan's automata huge
_QUANTIFIERS = "*+?{"
_SPACES = r"[ \t\r\f\v]"
_CLASS_ESCAPES = {
    "d": r"\d",
    "w": r"[\w\x80-\xff]",
    "s": _SPACES,
    "D": r"[^\d\n]",
    "W": r"[^\w\n]",
    "S": r"[^\s]",
}
_CLASS_PIECES = {"s": (r" \t\r\f\v", False), "w": (r"\w\x80-\xff", True), "d": (r"\d", False)}
_WIDE = frozenset("wDWS")  # may match a character that takes several bytes in UTF-8
_CONTROL = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a", "0": "\0"}


class UntranslatableError(ValueError):
    r"""A construct that has no loosened form: ``\p{…}``, recursion, fuzzy counts."""


class Literal(Record):
    """Characters to be found as they are."""

    text: str


class Some(Record):
    """One character out of many. ``wide``: it may take up to four bytes in UTF-8."""

    code: str
    wide: bool = False


class Repeat(Record):
    """A part that comes ``least`` to ``most`` times (None: no limit)."""

    part: Node
    least: int
    most: int | None


class Sequence(Record):
    """Parts that follow each other."""

    parts: tuple[Node, ...]


class Either(Record):
    """Alternatives."""

    branches: tuple[Node, ...]


class Look(Record):
    """What must stand before or behind a place (look-around): of use for its words only."""

    part: Node


Node = Literal | Some | Repeat | Sequence | Either | Look
EMPTY = Sequence(parts=())


def parse(pattern: str) -> tuple[Node, bool]:
    """Read a pattern into a tree; the second value says that letter case is ignored.

    Raises ``UntranslatableError`` for what has no loosened form.
    """
    reader = _Reader(pattern)
    node = reader.alternatives()
    if reader.more():
        raise UntranslatableError(f"unbalanced bracket at {reader.at}")
    return node, reader.caseless


class _Reader:
    """Reads one pattern from left to right."""

    def __init__(self, pattern: str) -> None:
        self.text = pattern
        self.at = 0
        self.caseless = False
        self.dropped = False  # something that would make fewer lines match

    def more(self) -> bool:
        return self.at < len(self.text)

    def peek(self, length: int = 1) -> str:
        return self.text[self.at : self.at + length]

    def take(self) -> str:
        if not self.more():
            raise UntranslatableError("pattern ends early")
        self.at += 1
        return self.text[self.at - 1]

    def alternatives(self) -> Node:
        branches = [self.sequence()]
        while self.peek() == "|":
            self.take()
            branches.append(self.sequence())
        return branches[0] if len(branches) == 1 else Either(branches=tuple(branches))

    def sequence(self) -> Node:
        parts: list[Node] = []
        while self.more() and self.peek() not in "|)":
            parts.append(self.quantified(self.atom()))
        return Sequence(parts=tuple(parts))

    def quantified(self, part: Node) -> Node:
        while self.more() and self.peek() in _QUANTIFIERS:
            start = self.at
            least, most = self.counts()
            if self.at == start:
                return part  # "{" as a literal: the next atom takes it
            if self.peek() in ("?", "+"):  # lazy or possessive: the same set of lines or fewer
                self.take()
            part = Repeat(part=part, least=least, most=most)
        return part

    def counts(self) -> tuple[int, int | None]:
        sign = self.peek()
        if sign != "{":
            self.take()
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
        end = self.text.find("}", self.at)
        inside = self.text[self.at + 1 : end] if end > 0 else ""
        low, comma, high = inside.partition(",")
        if not (low or high) or not (low + high).isdigit():
            if any(sign in inside for sign in "<=eisd") and end > 0:
                raise UntranslatableError("fuzzy matching")
            return (1, 1)
        self.at = end + 1
        least = int(low or 0)
        return least, (int(high) if high else None) if comma else least

    def atom(self) -> Node:
        sign = self.take()
        if sign == "(":
            return self.group()
        if sign == "[":
            return self.char_class()
        if sign == "\\":
            return self.escape()
        if sign == ".":
            return Some(code=r"[^\n]", wide=True)
        if sign in "^$":
            return EMPTY
        return Literal(text=sign)

    def group(self) -> Node:
        if self.peek() != "?":
            return self.inside()
        self.take()
        if self.peek(2) in ("P<", "<=", "<!") or self.peek() in ("<", "=", "!", ":", ">", "#", "P"):
            return self.special()
        flags = ""
        while self.peek() not in (":", ")"):
            flags += self.take()
        self.set_flags(flags)
        if self.take() == ")":
            return EMPTY
        return self.inside()

    def special(self) -> Node:
        look = self.peek(2)
        if look in ("<=", "<!"):
            self.at += 2
            self.dropped = True
            seen = self.inside()
            return Look(part=seen) if look == "<=" else EMPTY
        sign = self.take()
        if sign in "=!":
            self.dropped = True
            seen = self.inside()
            return Look(part=seen) if sign == "=" else EMPTY
        if sign == "#":
            self.until(")")
            return EMPTY
        if sign in ":>":
            return self.inside()
        if sign == "P" and self.peek() == "=":
            self.dropped = True
            self.until(")")
            return Repeat(part=Some(code=r"[^\n]", wide=True), least=0, most=None)
        if sign == "P" and self.take() != "<":
            raise UntranslatableError("recursion")
        self.until(">")
        return self.inside()

    def until(self, end: str) -> None:
        at = self.text.find(end, self.at)
        if at < 0:
            raise UntranslatableError(f"no {end!r} after {self.at}")
        self.at = at + 1

    def inside(self) -> Node:
        node = self.alternatives()
        if not self.more() or self.take() != ")":
            raise UntranslatableError("unbalanced bracket")
        return node

    def set_flags(self, flags: str) -> None:
        if set(flags) - set("imsaubfVL01-"):
            raise UntranslatableError(f"flags (?{flags})")
        if "i" in flags.partition("-")[0]:
            self.caseless = True  # for the whole pattern: looser, and simpler

    def escape(self) -> Node:
        sign = self.take()
        if sign in _CLASS_ESCAPES:
            return Some(code=_CLASS_ESCAPES[sign], wide=sign in _WIDE)
        if sign in "bBAZzGmMK":
            return EMPTY
        if sign in "123456789g":
            self.dropped = True
            while self.peek().isdigit():
                self.take()
            if sign == "g":
                self.until(">")
            return Repeat(part=Some(code=r"[^\n]", wide=True), least=0, most=None)
        if sign in "xuU":
            return Literal(text=self.code_point(sign))
        if sign in _CONTROL:
            return Literal(text=_CONTROL[sign])
        if sign.isalnum():
            raise UntranslatableError(f"escape \\{sign}")
        return Literal(text=sign)

    def code_point(self, sign: str) -> str:
        length = {"x": 2, "u": 4, "U": 8}[sign]
        digits = self.peek(length)
        self.at += length
        try:
            return chr(int(digits, 16))
        except (ValueError, OverflowError):
            raise UntranslatableError(f"escape \\{sign}{digits}") from None

    def char_class(self) -> Node:
        negated = self.peek() == "^"
        if negated:
            self.take()
        body, wide, first = "", negated, True
        while first or self.peek() != "]":
            first = False
            sign = self.take()
            if sign == "[" and self.peek() in (":", "."):
                raise UntranslatableError("POSIX class")
            if sign + self.peek() in ("--", "&&", "~~", "||"):
                raise UntranslatableError("set operation")
            piece, several = self.class_piece(sign, negated=negated)
            body, wide = body + piece, wide or several
        self.take()
        if negated:
            return Some(code=f"[^{body}\\n]", wide=True)
        return Some(code=f"[{body}]", wide=wide)

    def class_piece(self, sign: str, *, negated: bool) -> tuple[str, bool]:
        if sign != "\\":
            if ord(sign) > 0x7F:
                return r"\x80-\xff", True
            return ("\\" + sign if sign in "[]^&~|" else sign), False
        kind = self.take()
        if kind in _CLASS_PIECES:
            return _CLASS_PIECES[kind]
        if kind in "DWS":
            if negated:
                raise UntranslatableError(f"\\{kind} in a negated class")
            return "\\" + kind, True
        if kind in "xuU":
            char = self.code_point(kind)
            if ord(char) > 0x7F:
                return r"\x80-\xff", True
            return f"\\x{ord(char):02x}", False
        if kind in _CONTROL or kind == "b":
            return f"\\x{ord(_CONTROL.get(kind, chr(8))):02x}", False
        if kind.isalnum():
            raise UntranslatableError(f"escape \\{kind} in a class")
        return "\\" + kind, False


def trim(node: Node) -> Node:
    """Cut off both ends as far as they may be empty, and repeats there to their least count."""
    return _trim(_trim(node, last=False), last=True)


def _trim(node: Node, *, last: bool) -> Node:
    if isinstance(node, Either):
        return Either(branches=tuple(_trim(branch, last=last) for branch in node.branches))
    if isinstance(node, Look):
        return EMPTY
    if isinstance(node, Repeat):
        if node.least == 0:
            return EMPTY
        part = _trim(node.part, last=last) if node.least == 1 else node.part
        return part if node.least == 1 else Repeat(part=part, least=node.least, most=node.least)
    if isinstance(node, Sequence):
        parts = list(node.parts)
        while parts:
            end = -1 if last else 0
            parts[end] = _trim(parts[end], last=last)
            if not may_be_empty(parts[end]):
                break
            del parts[end]  # an end that may be empty need not be there at all
        return Sequence(parts=tuple(parts))
    return replace(node, wide=False) if isinstance(node, Some) else node


def may_be_empty(node: Node) -> bool:
    """Tell whether a part matches the empty text."""
    match node:
        case Literal():
            return not node.text
        case Some():
            return False
        case Repeat():
            return node.least == 0 or may_be_empty(node.part)
        case Sequence():
            return all(may_be_empty(part) for part in node.parts)
        case Either():
            return any(may_be_empty(branch) for branch in node.branches)
        case Look():
            return True


def hyperscan_form(pattern: str) -> tuple[bytes, bool]:
    """Write a pattern for Hyperscan, loosened; the second value: letter case is ignored.

    Raises ``UntranslatableError`` also for a pattern that would match every line.
    """
    node, caseless = parse(pattern)
    node = trim(node)
    if may_be_empty(node):
        raise UntranslatableError("it matches every line")
    return _written(node), caseless


def _written(node: Node) -> bytes:
    match node:
        case Literal():
            return b"".join(b"\\x%02x" % byte for byte in node.text.encode())
        case Some():
            # latin-1: the code holds ASCII only, with bytes beyond written as \xNN
            return node.code.encode("latin-1") + (b"{1,4}" if node.wide else b"")
        case Sequence():
            return b"".join(_written(part) for part in node.parts)
        case Either():
            return b"(?:" + b"|".join(_written(branch) for branch in node.branches) + b")"
        case Repeat():
            return _written_repeat(node)
        case Look():
            return b""  # dropped: the line is searched again anyway


def _written_repeat(node: Repeat) -> bytes:
    least = min(node.least, MAX_COUNT)
    most = node.most if node.most is not None and node.most <= MAX_COUNT else None
    part = node.part
    if isinstance(part, Some) and part.wide:
        code = part.code.encode("latin-1")
        most = most * 4 if most is not None and most <= MAX_COUNT // 4 else None
    else:
        code = b"(?:" + _written(part) + b")"
    high = b"" if most is None else b"%d" % most
    return code + b"{%d,%s}" % (least, high)


def required_words(pattern: str) -> tuple[frozenset[str], bool]:
    """List literals of which every match contains at least one; empty if there are none.

    The second value says that their letter case does not matter.
    """
    node, caseless = parse(pattern)
    return _words(node), caseless


def is_vague(pattern: str) -> bool:
    r"""Tell whether the loosened form has no word of its own: all its words are in look-around.

    Such a form (``\d+`` for ``(?<=lost )\d+``) is found in nearly every line.
    """
    node, _ = parse(pattern)
    words = _words(_without_looks(node))
    return bool(_words(node)) and not words


def is_whole(pattern: str) -> bool:
    """Tell whether the loosened form says all that the pattern does about a line.

    It does not where look-around or back-references were dropped.
    """
    reader = _Reader(pattern)
    try:
        reader.alternatives()
    except UntranslatableError:
        return False
    return not reader.dropped


def _without_looks(node: Node) -> Node:
    match node:
        case Look():
            return EMPTY
        case Sequence():
            return Sequence(parts=tuple(_without_looks(part) for part in node.parts))
        case Either():
            return Either(branches=tuple(_without_looks(branch) for branch in node.branches))
        case Repeat():
            return replace(node, part=_without_looks(node.part))
    return node


def _words(node: Node) -> frozenset[str]:
    match node:
        case Literal():
            return frozenset({node.text})
        case Some():
            return frozenset()
        case Repeat():
            return _words(node.part) if node.least else frozenset()
        case Look():
            return _words(node.part)
        case Either():
            found = [_words(branch) for branch in node.branches]
            return frozenset().union(*found) if all(found) else frozenset()
        case Sequence():
            return max(_runs(node), key=_worth, default=frozenset())


def _runs(node: Sequence) -> list[frozenset[str]]:
    """List what each part of a sequence requires; neighbouring literals count as one."""
    found: list[frozenset[str]] = []
    run = ""
    for part in node.parts:
        if isinstance(part, Literal):
            run += part.text
            continue
        found.append(frozenset({run}) if run else frozenset())
        found.append(_words(part))
        run = ""
    found.append(frozenset({run}) if run else frozenset())
    return [words for words in found if words]


def _worth(words: frozenset[str]) -> int:
    return min(len(word.removeprefix(COMMON)) for word in words)
