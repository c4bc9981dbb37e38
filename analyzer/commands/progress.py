"""Progress on standard error: a spinner on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.status import Status
    from typing_extensions import Self

PATIENCE = 0.5  # seconds before anything is shown: short runs need no spinner, nor rich's import


class Progress:
    """Say what is being done, once it takes long enough to wonder."""

    def __init__(self) -> None:
        self._status: Status | None = None
        self._started = time.monotonic()
        self._shows = sys.stderr.isatty()

    def say(self, text: str) -> None:
        """Show what is going on now."""
        if not self._shows or time.monotonic() - self._started < PATIENCE:
            return
        if self._status is None:
            from rich.console import Console  # noqa: PLC0415 - slow to import

            self._status = Console(stderr=True).status(text)
            self._status.start()
        self._status.update(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._status is not None:
            self._status.stop()
