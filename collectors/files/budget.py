"""How much archives may unpack to: one budget for all that a user names, and all within them.

A bomb is known by its growth. Each archive has a share, a multiple of its own size, and what
comes out of it is charged to it and to every archive around it. Beyond the shares there is a
fixed amount for all together, so that a small archive of a log that repeats itself is read.
"""

from __future__ import annotations

from whyhang.analyzer.facts import Record

MIB = 1 << 20


class Limits(Record):
    """How much is taken of folders and archives before the rest is left.

    ``total_bytes``, ``members`` and ``ratio_free_bytes`` are for all archives together,
    ``member_bytes`` is for one file in them. ``ratio`` is the share of an archive, in multiples
    of its size (logs compress by 10 to 100).
    """

    total_bytes: int = 32 << 30
    member_bytes: int = 8 << 30
    members: int = 250_000
    depth: int = 4
    folder_depth: int = 64
    ratio: int = 1000
    ratio_free_bytes: int = 256 * MIB


class SpentError(Exception):
    """Nothing more is unpacked of the archive at ``depth`` (0: of none), and why."""

    def __init__(self, depth: int, why: str, *, bomb: bool = False) -> None:
        super().__init__(why)
        self.depth = depth
        self.bomb = bomb


class Budget:
    """What is left of the limits. Between ``enter`` and ``leave`` an archive is unpacked."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._total = self._bytes = limits.total_bytes
        self._members = limits.members
        self._free = limits.ratio_free_bytes
        self._shares: list[int] = []

    def cap(self, size: int) -> None:
        """Allow no more than ``size`` bytes in all."""
        self._total = min(self._total, size)
        self._bytes = min(self._bytes, size)

    def enter(self, packed: int) -> None:
        """Begin to unpack an archive of ``packed`` bytes, inside those that are open."""
        self._shares.append(packed * self.limits.ratio)

    def leave(self) -> None:
        """End what was begun last."""
        self._shares.pop()

    def spend(self, size: int) -> None:
        """Charge ``size`` bytes that were unpacked. Raises ``SpentError``."""
        self._bytes -= size
        if self._bytes < 0:
            raise SpentError(0, f"archives unpack to more than {self._total / MIB:,.0f} MiB")
        for depth, share in enumerate(self._shares):
            self._shares[depth] = max(0, share - size)
            self._free -= max(0, size - share)
            if size > share and self._free < 0:
                why = f"it unpacks to over {self.limits.ratio:,} times its size, as a bomb does"
                raise SpentError(depth, why, bomb=True)

    def count_member(self) -> None:
        """Charge one file in an archive. Raises ``SpentError``."""
        self._members -= 1
        if self._members < 0:
            raise SpentError(0, f"archives hold more than {self.limits.members:,} files")
