"""The table of frames: which frame means waiting for what.

Knowledge about torch, the frameworks on it, Python and the libraries below, in TOML. Each
``[[frame]]`` is a ``WaitRule``, which says what its fields mean; ``rows`` holds several that have
the other fields in common. How sure a rule is, is said in its ``verified``.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from whyhang.analyzer.toml import tomllib
from whyhang.analyzer.waits import Layer, Scope, WaitKind, WaitRule


def _rules() -> Iterator[WaitRule]:
    """Yield all rules: those of one file from its top, files by name."""
    for file in sorted(files(__name__).iterdir(), key=lambda file: file.name):
        if file.name.endswith(".toml"):
            document = tomllib.loads(file.read_text(encoding="utf-8"))
            for frame in document["frame"]:
                for row in frame.pop("rows", ({},)):
                    yield _rule(frame | row)


def _rule(fields: dict[str, Any]) -> WaitRule:
    """Return the rule of these fields. Raises what a wrong name, word or type raises."""
    kind = WaitKind[fields.pop("kind").replace("-", "_").upper()]
    layer = Layer(fields.pop("layer", Layer.PURPOSE))
    scope = Scope(fields.pop("scope")) if "scope" in fields else None
    functions = tuple(fields.pop("functions"))
    return WaitRule(kind=kind, layer=layer, scope=scope, functions=functions, **fields)


TABLE: tuple[WaitRule, ...] = tuple(_rules())
