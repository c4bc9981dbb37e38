"""What hangs look like: one file per known hang, and the table of frames that mean waiting."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from whyhang.analyzer.signature import Signature

_loaded: list[Signature] = []


@functools.cache
def load() -> tuple[Signature, ...]:
    """Read every module of this package that holds a ``SIGNATURE``, sorted by id.

    A signature is found by being there: no list to edit. Its story is its module's docstring.
    """
    while load_some(100):
        pass
    return tuple(sorted(_loaded, key=lambda signature: signature.id))


def load_some(count: int) -> bool:
    """Do a part of ``load``, for who has other work to do in between; tell whether it was any."""
    more = list(itertools.islice(_rest(), count))
    _loaded.extend(more)
    return bool(more)


@functools.cache
def _rest() -> Iterator[Signature]:
    return _found()


def _found() -> Iterator[Signature]:
    from whyhang.analyzer.model import replace  # noqa: PLC0415 - not for `--help`
    from whyhang.analyzer.signature import Signature  # noqa: PLC0415

    for names in _modules():
        signature = names.get("SIGNATURE")
        if isinstance(signature, Signature):
            yield replace(signature, story=str(names.get("__doc__") or "").strip())


def _modules() -> Iterator[dict[str, object]]:
    """Yield what each module holds. They are run, not imported: nothing else needs them."""
    import importlib  # noqa: PLC0415 - not for `--help`
    import pkgutil  # noqa: PLC0415

    from whyhang.signatures._bytecode import codes  # noqa: PLC0415

    try:
        for code in codes(__path__[0], __name__):
            names: dict[str, object] = {"__name__": __name__}
            exec(code, names)  # noqa: S102 - as an import does
            yield names
    except NotADirectoryError:  # in a zip file
        for info in pkgutil.walk_packages(__path__, f"{__name__}."):
            yield vars(importlib.import_module(info.name))
