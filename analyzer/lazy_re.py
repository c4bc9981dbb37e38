r"""Regular expressions that are compiled when they are first used.

All modules together hold some three hundred, most of them for evidence that one case does not
have; compiling them all takes longer than many a diagnosis. Used like ``re``:

    _RANK = lazy_re.compile(r"rank (\d+)")
"""

from __future__ import annotations

import re
from typing import AnyStr, Generic, cast

_METHODS = ("match", "search", "fullmatch", "finditer", "findall", "split", "sub", "subn")


def compile(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:  # noqa: A001 - as in ``re``
    """Make what behaves like ``re.compile(pattern, flags)``, but for ``re``'s own functions.

    What is wrong with a pattern shows when it is used; a test uses all of them.
    """
    return cast("re.Pattern[AnyStr]", Lazy(pattern, flags))


class Lazy(Generic[AnyStr]):
    """Stands for a compiled pattern."""

    def __init__(self, pattern: AnyStr, flags: int) -> None:
        self._pattern: AnyStr = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # copying and pickling look for these
            raise AttributeError(name)
        compiled = re.compile(self._pattern, self._flags)
        # From now on its methods are found right here, at no further cost.
        vars(self).update({method: getattr(compiled, method) for method in _METHODS})
        return getattr(compiled, name)
