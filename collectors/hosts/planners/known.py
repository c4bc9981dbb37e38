"""Which other hosts a job has, as far as this one knows: what planners for a local process say."""

from whyhang.analyzer.facts import Record


class Known(Record):
    """The other hosts of a job by name or address; each of them may know more.

    ``sentence`` names the job, ``count`` says on how many hosts it runs, this one included, where
    that is known. ``pid`` is a process of it here. ``words`` are on the command line of each of its
    agents.
    """

    kind: str
    sentence: str
    names: tuple[str, ...]
    count: int | None
    pid: int
    words: tuple[str, ...] = ()
