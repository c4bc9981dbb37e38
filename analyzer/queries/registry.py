"""The registry of queries: what signatures in TOML, and users' cards, may ask of the case.

A query is a function of the case that answers with hits, registered where it stands. One with
sides has a function for each, told apart by one argument:

    @query
    def lagging(case, *kinds, ...): ...  # { query = "lagging", kinds = ["lock"] }

    @side("gpus_show", what="all-spin")
    def _all_spin(case): ...             # { query = "gpus_show", what = "all-spin" }
"""

import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from whyhang.analyzer.facts import Record, replace
from whyhang.analyzer.findings.signature import Hit

Answers = Callable[..., Iterable[Hit]]
_Function = TypeVar("_Function", bound=Answers)


class Query(Record):
    """A query: the function for each word that its argument may be; one for "" without sides."""

    name: str
    argument: str  # that asks for a side; "" without sides
    sides: dict[str, Answers] = {}


_REGISTERED: dict[str, Query] = {}


def query(function: _Function) -> _Function:
    """Register a query under the name of its function, whose parameters are its arguments."""
    return _registered(function, function.__name__, "", "")


def side(of: str, **which: str) -> Callable[[_Function], _Function]:
    """Register a function as one side of a query, under one argument and its word."""
    ((argument, word),) = which.items()
    return lambda function: _registered(function, of, argument, word)


def _registered(function: _Function, name: str, argument: str, word: str) -> _Function:
    known = _REGISTERED.get(name) or Query(name=name, argument=argument)
    if known.argument != argument or word in known.sides:
        raise ValueError(f'the query {name} has {argument} = "{word}" twice, or another argument')
    _REGISTERED[name] = replace(known, sides={**known.sides, word: function})
    return function


@functools.cache
def queries() -> Mapping[str, Query]:
    """Return all queries by name: each is found by being in a file of this package."""
    for info in pkgutil.walk_packages([str(Path(__file__).parent)], f"{__package__}."):
        importlib.import_module(info.name)
    return dict(sorted(_REGISTERED.items()))
