"""What the calls of user code were given on each rank: arguments and lengths of loops.

Ranks that stand in one call of the program may still not mean the same: another root, another
group, or they go round the loop above it another number of times. The line of source says what is
given, the variables of the frame what that was: both are read, nothing is run. Numbers, text that
picks a group, and names are evaluated; for anything else the line is all that is known.

Of a wait for messages that were begun before, what these were given is asked.

Of a rank that stands elsewhere in that function the same is asked, since it may have come past the
call; not where a counter of a loop is part of it, which has gone on since. Of one that has left the
function a length of a loop is still known where who called it has the number by the same name.
"""

import ast
import contextlib
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from whyhang.analyzer import toml
from whyhang.analyzer.facts import CallArgument, Record, Who
from whyhang.analyzer.redact import redact
from whyhang.analyzer.stacks.usercode import short
from whyhang.collectors.files.claims import CLAIMS
from whyhang.collectors.live.frame_variables import own_frames
from whyhang.collectors.stacks.pyspy_json import PrintedFrame

LONGEST = 60  # characters of a value
MOST_CALLS = 8  # at one line
RANGE = "range"
"""The argument that says how often a loop is gone round."""


class _Table(Record):
    kept: frozenset[str]
    of_messages: frozenset[str]
    posted: frozenset[str]
    waits: frozenset[str]
    positions: dict[str, dict[str, int]]


_TABLE = toml.read(__package__, "call_arguments.toml", _Table)
_OPERATORS: Mapping[type[ast.AST], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class Site(Record):
    """A line of user code at which some rank's main thread stands, in a function.

    ``callers`` are the functions of user code around it, each with its file, innermost first.
    """

    file: str
    function: str
    line: int
    callers: tuple[tuple[str, str], ...] = ()


def sites(dumps: Mapping[int, bytes]) -> list[Site]:
    """List where the innermost frames of user code of these processes stand."""
    stacks = (frames for pid, data in dumps.items() if (frames := own_frames(pid, data)))
    found = {
        Site(
            file=innermost.filename,
            function=innermost.name,
            line=innermost.line,
            callers=tuple((frame.filename, frame.name) for frame in outer),
        )
        for innermost, *outer in stacks
    }
    return sorted(found, key=lambda site: (site.file, site.line, site.callers))


def read_arguments(
    who: Who, data: bytes, at: Iterable[Site], trees: Mapping[str, ast.Module]
) -> list[CallArgument]:
    """Evaluate the arguments of the calls at these sites for one process.

    ``trees``: the parsed source of each file. ``data`` is what ``py-spy dump --json --locals``
    printed.
    """
    frames = {(f.filename, f.name): f for f in reversed(own_frames(who.pid or 0, data))}
    found: dict[CallArgument, None] = {}
    for site in at:
        tree = trees.get(site.file)
        frame = frames.get((site.file, site.function))
        caller = next((frames[name] for name in site.callers if name in frames), None)
        around = frame or caller
        if tree is None or around is None:
            continue
        module = frames.get((site.file, "<module>"))
        values = {**_constants(tree), **_values(module), **_values(around)}
        stands = frame is not None and frame.line == site.line
        counted, turned = (set(), set()) if stands else _names_of_loops(tree, site.line)
        for op, name, expression, line in _arguments(tree, site):
            told = frame is not None or (name == RANGE and isinstance(expression, ast.Name))
            text = _evaluated(expression, values) if told else ""
            changing = turned if name in _TABLE.of_messages else counted
            if text and changing.isdisjoint(_names(expression)):
                argument = CallArgument(
                    op=op,
                    name=name,
                    value=redact(text)[:LONGEST],
                    function=site.function,
                    file=short(site.file),
                    line=line,
                    stands=stands,
                    who=who,
                    source=CLAIMS,
                )
                found[argument] = None
    return list(found)


def parsed(source: bytes) -> ast.Module | None:
    """Parse a source file; None where it is not Python that this interpreter reads."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _values(frame: PrintedFrame | None) -> dict[str, object]:
    """Return the variables whose text is a value in itself: numbers, text, and lists of these."""
    variables = (frame.locals or ()) if frame is not None else ()
    return {variable.name: _literal(variable.repr or "") for variable in variables}


def _constants(tree: ast.Module) -> dict[str, object]:
    """Return the numbers and texts that names stand for in the whole file: set once, at its top."""
    stored = Counter(
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )
    found: dict[str, object] = {}
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.expr() as value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ) if stored[name] == 1:
                found[name] = _value(value, found)
    return found


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _arguments(tree: ast.Module, site: Site) -> Iterator[tuple[str, str, ast.expr, int]]:
    """Yield operation, argument, expression and line of what is given at a site.

    Of the calls on the line, and of the loops over a range around it, up to its function.
    """
    for node in ast.walk(tree):
        first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0) or 0
        if not first <= site.line <= last:
            continue
        if isinstance(node, ast.Call) and last - first <= MOST_CALLS:
            for call in _posted(tree, site.line) if _is_wait(node) else [node]:
                for name, expression in _given(call):
                    yield _operation(call), name, expression, call.lineno
        elif isinstance(node, ast.For) and first < site.line <= (node.body[-1].end_lineno or 0):
            match node.iter:
                case ast.Call(func=ast.Name(id="range"), args=[length]):
                    yield RANGE, RANGE, length, first


def _is_wait(call: ast.Call) -> bool:
    return _called(call.func).lower() in _TABLE.waits


def _posted(tree: ast.Module, line: int) -> Iterator[ast.Call]:
    """Yield the messages that the function around a line has begun above it, to wait for them."""
    functions = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and _holds(n, line))
    around = max(functions, key=lambda function: function.lineno, default=tree)
    calls = (node for node in ast.walk(around) if isinstance(node, ast.Call))
    above = (call for call in calls if (call.end_lineno or 0) < line)
    return (call for call in above if _operation(call).lower() in _TABLE.posted)


def _operation(call: ast.Call) -> str:
    """Return the name of what is called; of torch's P2POp, that of the operation it is given."""
    name = _called(call.func)
    return _called(call.args[0]) if name == "P2POp" and call.args else name


def _given(call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    op = _called(call.func)
    for keyword in call.keywords:
        if keyword.arg in _TABLE.kept:
            yield keyword.arg or "", keyword.value
    places = _TABLE.positions.get(op) or _TABLE.positions.get(op.lower(), {})
    for name, position in places.items():
        if position < len(call.args) and not any(isinstance(a, ast.Starred) for a in call.args):
            yield name, call.args[position]


def _called(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _names_of_loops(tree: ast.Module, line: int) -> tuple[set[str], set[str]]:
    """Return the names that the loops around a line count with, and all that they set."""
    counted, turned = set[str](), set[str]()
    for loop in ast.walk(tree):
        if isinstance(loop, ast.For | ast.While) and loop.lineno <= line <= (loop.end_lineno or 0):
            counted |= _names(loop.target) if isinstance(loop, ast.For) else set()
            names = (node for node in ast.walk(loop) if isinstance(node, ast.Name))
            turned |= {name.id for name in names if isinstance(name.ctx, ast.Store)}
    return counted, turned


_COUNTING = {"range", "enumerate", "count", "trange"}


def counts_of_loops(tree: ast.Module, line: int) -> set[str]:
    """Return the names by which the loops around a line of a function count their turns.

    Those of ``range`` and ``enumerate``, and what a ``while`` adds to.
    """
    around = [node for node in ast.walk(tree) if _holds(node, line)]
    functions = [n for n in around if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    begins = max((function.lineno for function in functions), default=0)
    found = set[str]()
    for loop in around:
        if isinstance(loop, ast.For) and loop.lineno >= begins:
            calls = (node for node in ast.walk(loop.iter) if isinstance(node, ast.Call))
            called = {_called(call.func) for call in calls}
            target = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) else loop.target
            if called & _COUNTING and isinstance(target, ast.Name):
                found.add(target.id)
        elif isinstance(loop, ast.While) and loop.lineno >= begins:
            added = (n.target for n in ast.walk(loop) if isinstance(n, ast.AugAssign))
            found |= {target.id for target in added if isinstance(target, ast.Name)}
    return found


def _holds(node: ast.AST, line: int) -> bool:
    first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0) or 0
    return 0 < first <= line <= last


def _names(expression: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)}


def _evaluated(expression: ast.expr, values: Mapping[str, object]) -> str:
    """Return the value of an expression as text, or what of it is known; "" if nothing is.

    A group is an object, of which the expression that picks it is the name: ``groups['tp']``.
    """
    value = _value(expression, values)
    if isinstance(value, int | str) and not isinstance(value, bool):
        return repr(value) if isinstance(value, str) else str(value)
    if isinstance(expression, ast.Subscript):
        index = _value(expression.slice, values)
        if isinstance(index, int | str):
            return f"{ast.unparse(expression.value)}[{index!r}]"
    return ""


def _value(expression: ast.expr, values: Mapping[str, object]) -> object:
    """Return the value of an expression: constants, variables, arithmetic, choices, indices."""
    match expression:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return values.get(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _value(operand, values)
            return -inner if isinstance(inner, int) else None
        case ast.IfExp(test=test, body=body, orelse=orelse):
            chosen = _value(test, values)
            known = isinstance(chosen, int | str)
            return _value(body if chosen else orelse, values) if known else None
        case (
            ast.BinOp(left=left, op=op, right=right)
            | ast.Compare(left=left, ops=[op], comparators=[right])
        ):
            a, b = _value(left, values), _value(right, values)
            compute = _OPERATORS.get(type(op))
            if isinstance(a, int) and isinstance(b, int) and compute:
                with contextlib.suppress(ZeroDivisionError):
                    return compute(a, b)
        case ast.Subscript(value=inner, slice=slice_):
            whole, index = _value(inner, values), _value(slice_, values)
            if isinstance(whole, dict):
                return whole.get(index) if isinstance(index, int | str) else None
            if isinstance(whole, list | tuple) and isinstance(index, int):
                with contextlib.suppress(IndexError):
                    return whole[index]
    return None
