"""What a signature in TOML asks of the case: queries by name, with arguments that never change.

    asks = [{ query = "lagging", kinds = ["lock"], op = "file-lock", alone = true }]

Arguments have the names that they have in the query; a member of an enumeration is written as in
the table of frames ("cuda-sync"). The hits of several queries, and of the lines that the signature
has patterns for, are merged; a query that takes ``lines`` is given those lines instead.
``unless_asks`` are queries whose answers take it back.
"""

import enum
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, get_args, get_origin, get_type_hints

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import LogLine, Record
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.queries.hits import merged, with_members
from whyhang.analyzer.queries.logs.log import Log
from whyhang.analyzer.queries.registry import Answers, queries
from whyhang.analyzer.queries.waits.lagging import KNOWN_LOCAL_CAUSES, RESTING
from whyhang.analyzer.rank_state.from_logs.log_ends import not_overcome

LINES = "lines"
"""The parameter of a query that reads the lines which the signature's patterns found."""

GROUPS: dict[str, tuple[enum.Enum, ...]] = {
    "known-local-causes": KNOWN_LOCAL_CAUSES,
    "resting": RESTING,
}
"""Words that stand for several members of an enumeration."""

PLAIN = {bool: "true or false", int: "a whole number", str: "a text in quotes"}
"""What an argument is that is none of some words."""


class AskedQuery(Record):
    """One query with its arguments: those that it takes in any number, and those by name."""

    query: Answers
    listed: tuple[Any, ...] = ()
    named: dict[str, Any] = {}
    takes_lines: bool = False  # those that the signature's patterns found

    def __call__(self, case: Case, lines: Sequence[LogLine] = ()) -> Iterable[Hit]:
        """Ask the case."""
        given = {LINES: lines} if self.takes_lines else {}
        return self.query(case, *self.listed, **self.named, **given)


class Asked(Record):
    """What a signature with ``asks`` is found by: its questions, and lines if it has patterns.

    An answer to one of ``vetoes`` takes it back, and so does a line with one of the patterns that
    ``log`` is vetoed by, where questions read the lines, or there are none to find.
    """

    log: Log
    questions: tuple[AskedQuery, ...] = ()
    vetoes: tuple[AskedQuery, ...] = ()

    def __call__(self, case: Case) -> Iterable[Hit]:
        """Merge the answers."""
        if any(tuple(veto(case)) for veto in self.vetoes):
            return ()
        reads = any(question.takes_lines for question in self.questions)
        by_lines = bool(self.log.patterns) and not reads
        if not by_lines and not_overcome(case.job, case.job.lines_with(self.log.vetoes)):
            return ()
        lines = case.job.lines_with(self.log.patterns) if reads else ()
        answers = [question(case, lines) for question in self.questions]
        if by_lines:
            answers.append(self.log(case))
        if len(answers) == 1:
            return answers[0]
        return merged(*([with_members(case, hit) for hit in hits] for hits in answers))


def question_of(table: Mapping[str, Any]) -> AskedQuery:
    """Read a question. Raises ``ValueError``, with words for its author, for one nobody can ask."""
    name = table.get("query")
    if name not in [*queries()]:
        raise ValueError(f'there is no query "{name}"; there are {", ".join(queries())}')
    asked = queries()[name]
    types = arguments_of(name)
    listed: tuple[Any, ...] = ()
    named: dict[str, Any] = {}
    for key, value in table.items():
        if key == "query":
            continue
        if key not in types:
            raise ValueError(f'{name} has no argument "{key}"; it has {", ".join(types)}')
        of, repeats = types[key]
        if repeats:
            listed = _listed(of, value)
        else:
            named[key] = _value(of, value)
    if asked.argument and asked.argument not in named:
        raise ValueError(f"{name}: missing a required argument: '{asked.argument}'")
    function = asked.sides[named.pop(asked.argument, "")]
    takes_lines = LINES in _signature(function).parameters
    lines = {LINES: ()} if takes_lines else {}
    try:
        _signature(function).bind(None, *listed, **named, **lines)
    except TypeError as error:
        raise ValueError(f"{name}: {error}") from None
    return AskedQuery(query=function, listed=listed, named=named, takes_lines=takes_lines)


@functools.cache
def _signature(function: Answers) -> inspect.Signature:
    return inspect.signature(function)


@functools.cache
def arguments_of(name: str) -> dict[str, tuple[Any, bool]]:
    """Return the types of the arguments that a text can give, and which may be given repeatedly."""
    asked = queries()[name]
    if asked.argument:
        return {asked.argument: (Literal[tuple(asked.sides)], False)}
    hints = get_type_hints(asked.sides[""])
    _case, *parameters = _signature(asked.sides[""]).parameters.items()
    return {
        key: (hints[key], parameter.kind is parameter.VAR_POSITIONAL)
        for key, parameter in parameters
        if key != LINES and get_origin(hints[key]) is not Callable
    }


def _listed(of: Any, values: Any) -> tuple[Any, ...]:
    if isinstance(values, list):
        every = (one for value in values for one in GROUPS.get(str(value), (value,)))
        return tuple(_value(of, one) for one in every)
    raise ValueError(f'"{values}" cannot stand there; wanted: a list')


def _value(of: Any, value: Any) -> Any:
    """Read one argument of a type. Raises ``ValueError``."""
    if get_origin(of) is tuple:
        return _listed(get_args(of)[0], value)
    if get_origin(of) is Mapping:
        if not isinstance(value, dict):
            raise ValueError(f'"{value}" cannot stand there; wanted: a table')
        kind, item = get_args(of)
        return {_value(kind, key): _value(item, each) for key, each in value.items()}
    words = words_of(of)
    if words and (known := words.get(value if isinstance(value, str) else "")) is not None:
        return known
    if isinstance(value, enum.Enum) or (not words and isinstance(value, of)):
        return value
    wanted = ", ".join(words) or PLAIN[of]
    raise ValueError(f'"{value}" cannot stand there; wanted: {wanted}')


def words_of(of: Any) -> dict[str, Any]:
    """Return the words that an argument of a type is one of, if it is, with what they stand for."""
    if get_origin(of) is Literal:
        return {word: word for word in get_args(of)}
    if isinstance(of, type) and issubclass(of, enum.Enum):
        return {member.name.lower().replace("_", "-"): member for member in of}
    return {}
