"""Where the own lines of one rank part from those of the others: the record of it."""

from whyhang.analyzer.facts import OwnLine, Record, Source


class LastPhase(Record):
    """Where the own lines of one rank part from those of the others.

    ``line`` is its last line, ``lacks`` the first of the others' that it does not have (None where
    it only stands in a phase of its own), ``others`` are those ranks. ``at_work``: its last lines
    are of a phase that the others are not in, rather than merely the end of its log.
    ``missed`` counts the events of the others that it lacks.
    """

    rank: int
    line: OwnLine
    source: Source
    others: tuple[int, ...]
    lacks: OwnLine | None = None
    lacks_source: Source | None = None
    at_work: bool = False
    missed: int = 0
