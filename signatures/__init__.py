"""What hangs look like: one file per known hang, and the table of frames that mean waiting."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whyhang.analyzer.signature import Signature


@functools.cache
def load() -> tuple[Signature, ...]:
    """Import every module of this package that holds a ``SIGNATURE``, sorted by id.

    A signature is found by being there: no list to edit. Its story is its module's docstring.
    """
    from whyhang.analyzer.model import replace  # noqa: PLC0415 - not for `--help`
    from whyhang.analyzer.signature import Signature  # noqa: PLC0415

    found = []
    for info in pkgutil.walk_packages(__path__, __name__ + "."):
        module = importlib.import_module(info.name)
        signature = getattr(module, "SIGNATURE", None)
        if isinstance(signature, Signature):
            story = (module.__doc__ or "").strip()
            found.append(replace(signature, story=story))
    return tuple(sorted(found, key=lambda signature: signature.id))
