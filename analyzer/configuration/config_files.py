"""Where configuration stands, and the files there, read with the line of each value.

Of four places, the later one counts where two say something of the same: ``config.toml`` and
``whyhang.toml`` in the user's folder, ``whyhang.toml`` in the working directory, and the file that
``--config`` or ``WHYHANG_CONFIG`` names. What stands in the working directory may have come with
somebody's repository: it is not ``own``, and decides nothing that reaches beyond the report.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from whyhang.analyzer import toml_lines
from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.facts import Record, replace
from whyhang.analyzer.toml_lines import Mistake
from whyhang.analyzer.toml_lines import Path as Keys

NAME = "whyhang.toml"
FORMER = "config.toml"
VARIABLE = "WHYHANG_CONFIG"

chosen: ContextVar[str | None] = ContextVar("chosen", default=None)
"""The file that --config names in this run."""


class ConfigFile(Record):
    """A file that was read. ``lines`` has the line of each key; ``wrong`` why it is not TOML."""

    path: str
    table: dict[str, Any] = {}
    lines: dict[Keys, int] = {}
    own: bool = True
    wrong: Mistake | None = None

    def mistake(self, text: str, *keys: str | int) -> Mistake:
        """Return a mistake at the line of a value, or of the list that it stands in."""
        line = self.lines.get(keys, self.lines.get(keys[:-1]))
        return Mistake(path=self.path, text=text, line=line, at=keys)

    def no_such(self, text: str, known: Collection[str], *keys: str | int) -> Mistake:
        """Return a mistake in a name, the last of the keys, with the known one that is like it."""
        close = difflib.get_close_matches(str(keys[-1]), known, n=1)
        return self.mistake(f"{text}; did you mean {close[0]}?" if close else text, *keys)

    def without(self, mistakes: Sequence[Mistake]) -> ConfigFile:
        """Return the file as it is used: without what is wrong in it."""
        gone = {mistake.at for mistake in mistakes}
        table = {key: _left(value, (key,), gone) for key, value in self.table.items()}
        return replace(self, table={key: table[key] for key in table if (key,) not in gone})


def _left(value: Any, at: Keys, gone: Collection[Keys]) -> Any:
    """Return a value without the parts of it that are gone."""
    if isinstance(value, dict):
        return {k: _left(v, (*at, k), gone) for k, v in value.items() if (*at, k) not in gone}
    if isinstance(value, list):
        return [v for number, v in enumerate(value) if (*at, number) not in gone]
    return value


def home() -> Path | None:
    """Return the user's folder (``$XDG_CONFIG_HOME`` or ``~/.config``); None without a home."""
    root = Path(os.environ.get("XDG_CONFIG_HOME") or "")
    try:
        return (root if root.is_absolute() else Path("~/.config").expanduser()) / "whyhang"
    except RuntimeError:
        return None


def files() -> list[ConfigFile]:
    """Read the files there are, the one that counts most last. Raises ``TargetError``.

    That is for a file that was named and cannot be read; what is wrong with others stands in them.
    """
    places = [(folder / name, True) for folder in [home()] if folder for name in (FORMER, NAME)]
    places.append((Path(NAME), False))
    # Unlike pathlib's, this is no error where a folder may not be looked into.
    read_files = [read(path, own=own) for path, own in places if os.path.isfile(path)]  # noqa: PTH113
    if named := chosen.get() or os.environ.get(VARIABLE):
        if not Path(named).exists():
            why = f"there is no configuration at {named}"
            raise TargetError(why, "Check the path of --config.")
        file = read(Path(named))
        if file.wrong is not None:
            raise TargetError(f"the configuration cannot be used: {file.wrong}", "Mend that line.")
        read_files.append(file)
    return read_files


def read(path: Path, *, own: bool = True) -> ConfigFile:
    """Read one file, whatever is in it."""
    shown = str(path)
    try:
        with path.open("rb") as stream:
            data = stream.read(toml_lines.MAX_BYTES + 1)
    except OSError as error:
        why = f"it cannot be read ({error.strerror})"
        return ConfigFile(path=shown, own=own, wrong=Mistake(path=shown, text=why))
    try:
        table, lines = toml_lines.read(data)
    except toml_lines.UnreadableError as error:
        wrong = Mistake(path=shown, text=str(error), line=error.line)
        return ConfigFile(path=shown, own=own, wrong=wrong)
    return ConfigFile(path=shown, table=table, lines=lines, own=own)
