"""Commands in the paste of a terminal that start the ranks of a job, once more than before."""

from collections.abc import Iterator

from whyhang.analyzer.facts import NOBODY, Fact, StartedAgain
from whyhang.collectors.logs.engine.matching import Match
from whyhang.collectors.logs.lines.line_reader import FoundLine, LineReader, LogFile, wants


class CommandReader(LineReader):
    """Finds the line at which the same prompt and command stand for the last time."""

    def __init__(self, file: LogFile) -> None:
        super().__init__(file)
        self._seen: set[tuple[str, str]] = set()
        self._again: StartedAgain | None = None

    @wants(
        r"^(?P<prompt>\(?[\w.@\[\]() -]{1,60}[:\s][^\s$#>]{0,80}[$#>]) (?:[A-Z_][A-Z0-9_]*=\S* )*"
        r"(?P<command>(?:torchrun|deepspeed|mpirun|mpiexec|srun|accelerate|horovodrun"
        r"|python3? -m torch\.dist)\b.*)"
    )
    def on_command(self, line: FoundLine, match: Match) -> None:
        """Note a command that was given before; other options may be another node of the job."""
        given = (match["prompt"], match["command"].strip())
        if given in self._seen:
            self._again = StartedAgain(who=NOBODY, source=line.source)
        self._seen.add(given)

    def facts(self) -> Iterator[Fact]:
        """Yield where the job was started for the last time."""
        if self._again is not None:
            yield self._again
