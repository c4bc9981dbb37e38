"""Names of hosts and their addresses, asked for within a limit."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterable

NAMING = 1.0
"""Seconds for all names together."""


def resolved(names: Iterable[str], how: Callable[[str], str]) -> dict[str, str]:
    """Ask for all beside each other; a name server that does not answer costs a second."""
    answers: dict[str, str] = {}

    def ask(name: str) -> None:
        with contextlib.suppress(OSError):
            answers[name] = how(name)

    threads = [threading.Thread(target=ask, args=(name,), daemon=True) for name in names]
    for thread in threads:
        thread.start()
    until = time.monotonic() + NAMING
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return dict(answers)
