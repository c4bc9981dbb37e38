"""How far a long reading is: who reads counts here, who shows it looks here."""

import time

_UNITS = ("B", "KB", "MB", "GB", "TB")


class Meter:
    """Bytes and files of what is being read now. Not exact to the byte, and cheap to tell."""

    def __init__(self) -> None:
        self.done = 0
        self._doing = ""
        self._name = ""
        self._total: int | None = None
        self._file = self._files = 0
        self._begun = 0.0

    def start(self, doing: str, total: int | None = None, *, files: int = 0) -> None:
        """Begin something: "reading", of so many bytes (None: not known) and files."""
        self.done = self._file = 0
        self._name = ""
        self._doing, self._total, self._files = doing, total, files
        self._begun = time.monotonic()

    def stop(self) -> None:
        """Have nothing to tell any more."""
        self._doing = ""

    def at(self, done: int, name: str, *, file: int = 0) -> None:
        """Tell that so many bytes are done, and which file is next."""
        self.done, self._name, self._file = done, name, file

    def count(self, amount: int) -> None:
        """Tell that so many more bytes are done."""
        self.done += amount

    def words(self, now: float) -> str:
        """Say how far it is: "reading 3 of 12 files, 1.2 of 4.0 GB, 0.7 GB/s, rank3.log"."""
        if not self._doing:
            return ""
        parts = [self._doing]
        if self._files > 1:
            parts[0] += f" {self._file:,} of {self._files:,} files"
        done = self.done if self._total is None else min(self.done, self._total)
        parts.append(size(done) + (f" of {size(self._total)}" if self._total is not None else ""))
        if now > self._begun:
            parts.append(f"{size(int(done / (now - self._begun)))}/s")
        if self._name and self._name not in self._doing:
            parts.append(self._name)
        return ", ".join(parts)


def size(amount: int) -> str:
    """Write a number of bytes with three digits: "1.21 GB"."""
    number, unit = float(amount), 0
    while number >= 999.5 and unit < len(_UNITS) - 1:
        number, unit = number / 1000, unit + 1
    digits = 0 if unit == 0 or number >= 100 else 1 if number >= 10 else 2
    return f"{number:.{digits}f} {_UNITS[unit]}"
