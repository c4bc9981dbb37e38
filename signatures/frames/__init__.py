"""The table of frames: which frame means waiting for what.

Knowledge about torch, the frameworks on it, Python and the libraries below, in TOML. Each
``[[frame]]`` is a ``WaitRule``, which says what its fields mean; ``rows`` holds several that have
the other fields in common, and ``classes`` says that the functions are methods of each of them.
"""

from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import tomli

from whyhang.analyzer.stacks import Layer, Scope, WaitKind, WaitRule


def rules(text: str) -> Iterator[WaitRule]:
    """Yield the rules of a file from its top. Raises what a wrong name, word or type raises."""
    for frame in tomli.loads(text)["frame"]:
        for row in frame.pop("rows", ({},)):
            yield _rule(**frame, **row)


def _rule(
    kind: str, functions: list[str], classes: tuple[str, ...] = (), **fields: Any
) -> WaitRule:
    if classes:
        functions = [f"{name}::{function}" for name in classes for function in functions]
    if "layer" in fields:
        fields["layer"] = Layer(fields["layer"])
    if "scope" in fields:
        fields["scope"] = Scope(fields["scope"])
    return WaitRule(
        kind=WaitKind[kind.replace("-", "_").upper()], functions=tuple(functions), **fields
    )


TABLE: tuple[WaitRule, ...] = tuple(
    rule
    for file in sorted(files(__name__).iterdir(), key=lambda file: file.name)
    if file.name.endswith(".toml")
    for rule in rules(file.read_text(encoding="utf-8"))
)
"""All rules, files by name."""
