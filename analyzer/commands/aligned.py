"""The facts as an aligned case, with the table of frames that mean waiting."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from whyhang.analyzer.case import Case
    from whyhang.analyzer.model import Fact

_last: list[tuple[Sequence[Fact], Case]] = []


def aligned(facts: Sequence[Fact]) -> Case:
    """Line the ranks up. Asked again for the same facts, the same case is given.

    A live job is looked at further as its case asks for; mostly nothing is added to it then.
    """
    from whyhang.analyzer.align import align  # noqa: PLC0415 - not for `--help`
    from whyhang.analyzer.identify import identify  # noqa: PLC0415
    from whyhang.signatures.frames import TABLE  # noqa: PLC0415

    if not _last or not _same(_last[0][0], facts):
        _last[:] = [(tuple(facts), align(identify(facts), TABLE))]
    return _last[0][1]


def _same(some: Sequence[Fact], others: Sequence[Fact]) -> bool:
    return len(some) == len(others) and all(map(operator.is_, some, others))
