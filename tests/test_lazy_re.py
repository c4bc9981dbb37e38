"""Regular expressions that are compiled late: alike in use, and all of them valid."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator

import pytest

import whyhang
from whyhang.analyzer import lazy_re


def _within(value: object) -> Iterator[lazy_re.Lazy[str]]:
    if isinstance(value, lazy_re.Lazy):
        yield value
    elif isinstance(value, dict):
        for part in (*value.keys(), *value.values()):
            yield from _within(part)
    elif isinstance(value, tuple | list | frozenset | set):
        for part in value:
            yield from _within(part)


def test_every_expression_is_valid() -> None:
    """A mistake in one that is seldom used would else only show in somebody's emergency."""
    found = 0
    for info in pkgutil.walk_packages(whyhang.__path__, "whyhang."):
        if info.name.startswith("whyhang.samples.") or info.name.endswith("__main__"):
            continue  # programs of their own
        for value in vars(importlib.import_module(info.name)).values():
            for lazy in _within(value):
                assert lazy.pattern  # type: ignore[attr-defined]  # as any compiled one
                found += 1
    assert found > 200


def test_it_is_used_like_a_compiled_one() -> None:
    """Flags count, text and bytes work, and what is wrong says so when it is used."""
    assert lazy_re.compile("RANK (\\d)", re.IGNORECASE).findall("rank 1, rank 2") == ["1", "2"]
    assert lazy_re.compile(rb"\d+").sub(b"#", b"step 12 of 30") == b"step # of #"
    named = lazy_re.compile(r"(?P<rank>\d+)")
    assert named.groupindex == {"rank": 1}
    wrong = lazy_re.compile("(")  # nothing is compiled yet
    with pytest.raises(re.error):
        wrong.search("x")
