"""Source lines that a report can show, and evidence that was not had."""

from whyhang.analyzer.facts.base import NOBODY, Record, Source, Who


class Excerpt(Record):
    """Source lines of the user's code around a place, so that a report can show them."""

    file: str
    first_line: int
    lines: tuple[str, ...]


class Gap(Record):
    """Evidence that was looked for and not had.

    ``what`` was tried, ``why`` it failed, ``cost`` is what the diagnosis loses by it,
    ``remedy`` what a person can do. Each is a clause or sentence without full stop.
    """

    what: str
    why: str
    cost: str = ""
    remedy: str = ""
    who: Who = NOBODY
    source: Source | None = None

    def __str__(self) -> str:
        text = f"{self.what}: {self.why}"
        if self.cost:
            text += f"; {self.cost}"
        if not self.remedy:
            return f"{text}."
        is_command = self.remedy.startswith(("pip ", "whyhang "))
        first = self.remedy[:1] if is_command else self.remedy[:1].upper()
        return f"{text}. {first}{self.remedy[1:]}."
