"""On which line of a TOML document a value stands."""

from __future__ import annotations

import tomli
from card_docs import CARD, ROOT

from whyhang.analyzer.toml_lines import line_numbers

Dumped = dict[str, object] | list[object] | object


def test_lines_are_those_of_the_text() -> None:
    """Each value of a document with every kind of string and table is found on its line."""
    text = (
        'a = 1 # not "this\n"b c" = """x\n\\"" y = 2\n"""\nd.e = \'\'\'\n# no comment\'\'\'\n'
        "f = [ # first\n  'x, ]', # two\n  [1, 2], {g = \"}\", h = 'i'},\n]\n"
        "[t]\nu = 1979-05-27 07:32:00\n[[v]]\nw = 1\n[[v]]\nw = 2\n[v.x]\ny = true\n"
    )
    tomli.loads(text)
    numbers = line_numbers(text)

    assert {path: line for path, line in numbers.items() if path[0] != "v"} == {
        ("a",): 1, ("b c",): 2, ("d",): 5, ("d", "e"): 5, ("f",): 7, ("f", 0): 8, ("f", 1): 9,
        ("f", 1, 0): 9, ("f", 1, 1): 9, ("f", 2): 9, ("f", 2, "g"): 9, ("f", 2, "h"): 9,
        ("t",): 11, ("t", "u"): 12,
    }  # fmt: skip
    assert numbers["v", 0, "w"] == 14
    assert numbers["v", 1, "w"] == 16
    assert numbers["v", 1, "x", "y"] == 18


def test_every_value_of_a_card_has_its_line() -> None:
    """The places of a document are exactly the keys and elements that its parser gives."""

    def paths(value: Dumped, path: tuple[str | int, ...] = ()) -> set[tuple[str | int, ...]]:
        items = (
            list(value.items())
            if isinstance(value, dict)
            else list(enumerate(value))
            if isinstance(value, list)
            else []
        )
        inner = [paths(item, (*path, key)) for key, item in items]
        return {path} - {()} | set().union(*inner)

    project = ROOT / "pyproject.toml"
    for text in (CARD, *([project.read_text(encoding="utf-8")] if project.is_file() else [])):
        assert set(line_numbers(text)) == paths(tomli.loads(text))
