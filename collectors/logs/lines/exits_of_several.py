"""How a process ended, as one line says it; what launchers of somebody's own print of several.

Everybody words it anew ("pid 812 finished with return code -9", "worker-3 exited with code 137",
"exited: trainer_2 (terminated by SIGKILL; not expected)", "exit codes: [1, -11, 1]"). One such line
may be about any process; what is said alike of several is said of those that were started. Numbers
in their names are ranks where they count from 0 on without a gap.
"""

import re
import signal
from collections import defaultdict
from collections.abc import Iterator

from whyhang.analyzer.facts import NOBODY, Exit, Fact, Record, Trust, Who, replace, unfold
from whyhang.analyzer.job.world import LOOPBACK
from whyhang.collectors import tables
from whyhang.collectors.logs.engine.matching import Match
from whyhang.collectors.logs.lines.line_reader import FoundLine, LineReader, LogFile, wants
from whyhang.collectors.logs.text.logger_header import reduce

MAX_EXITS = 20000  # of one file


class _Table(Record):
    exit_code: re.Pattern[str]
    pid: re.Pattern[str]
    name: re.Pattern[str]
    signals: dict[str, str]


_TABLE = tables.patterns(__package__, "exits_of_several.toml", _Table)


def named_host(host: str | None) -> str | None:
    """Cut a domain off a host name; None for names that mean "here"."""
    if host is None or host in LOOPBACK:
        return None
    return host if host.replace(".", "").isdigit() else host.partition(".")[0]


def value_after(line: str, key: str) -> str | None:
    """Return the value of "  host      : node3"."""
    name, colon, value = line.partition(":")
    return value.strip() or None if colon and name.strip() == key else None


def named_by(match: Match) -> Who:
    """Return the process that the groups of a pattern name."""
    groups = {key: value for key, value in match.groupdict().items() if value is not None}
    return Who(
        rank=int(groups["rank"]) if "rank" in groups else None,
        trust=Trust.CONTENT if "rank" in groups else Trust.NONE,
        local_rank=int(groups["local"]) if "local" in groups else None,
        pid=int(groups.get("pid", 0)) or None,  # newer versions of Open MPI print 0
        host=named_host(groups.get("host")),
    )


def exit_code(match: Match | re.Match[str], default: int | None) -> int | None:
    """Return the exit code that the groups of a pattern give, if any; minus a signal's number."""
    groups = match.groupdict()
    if sign := groups.get("signal"):
        return -int(sign) if sign.isdecimal() else -signal_of(sign)
    if what := groups.get("what"):
        return code_of(what)
    return int(groups["code"]) if groups.get("code") else default


def signal_of(name: str) -> int:
    """Return the number of a signal; of one that nobody knows, that of SIGKILL."""
    return int(getattr(signal, name, signal.SIGKILL))


def exit_of(who: Who, line: FoundLine, code: int) -> Exit:
    """Return that a process ended, as a line says; ``code`` is minus a signal's number."""
    return Exit(
        who=who,
        source=line.source,
        quote=line.text.strip()[:400],
        exitcode=code if code >= 0 else None,
        signal=-code if code < 0 else code - 128 if 128 < code < 128 + 32 else None,
        time=line.time,
    )


def code_of(what: str) -> int:
    """Read "Killed", "Exited with exit code 1" as an exit code; minus a signal's number."""
    if end := _TABLE.exit_code.search(what):
        return int(end["code"])
    return next((-signal_of(name) for word, name in _TABLE.signals.items() if word in what), 1)


_CODE = r"(?P<code>-?(?:\d{1,3}|SIG[A-Z]{2,6}))\b"


class _End(Record):
    """How a process ended, and how the line calls it."""

    pid: int | None
    name: str
    index: int | None
    row: Exit


class ExitsOfSeveralReader(LineReader):
    """Collects what is said alike of several processes that ended."""

    def __init__(self, file: LogFile) -> None:
        super().__init__(file)
        self._ends: dict[str, list[_End]] = defaultdict(list)
        self._lists: list[Exit] = []
        self._count = 0

    @wants(
        rf"(?:return ?code|exitcode)\W{{1,3}}{_CODE}",
        r"(?:exited|terminated|finished|killed|crashed|died|ended|failed)[ (]{1,2}"
        rf"(?:with|by|on|from) (?:(?:exit |return )?(?:code|status|signal)[ :=]{{1,2}})?{_CODE}",
        rf"\((?:exit status|terminated by) {_CODE}; not expected\)",
    )
    def on_end(self, line: FoundLine, match: Match) -> None:
        """Note how the process ended that the line names in front of the code."""
        before = line.text[: match.start()]
        pid = next(reversed([*_TABLE.pid.finditer(before)]), None)
        name = next(reversed([*_TABLE.name.finditer(_TABLE.pid.sub("", before))]), None)
        if (pid or name) and self._count < MAX_EXITS:
            self._count += 1
            code = match["code"]
            number = signal_of(code.lstrip("-")) if "SIG" in code else int(code)
            by_signal = "SIG" in code or "signal" in match[0]
            self._ends[reduce(before)[0]].append(
                _End(
                    pid=int(pid["pid"]) if pid else None,
                    name=name["name"] if name else "",
                    index=int(name["index"]) if name else None,
                    row=exit_of(NOBODY, line, -abs(number) if by_signal else number),
                )
            )

    @wants(
        r"(?:[Ee]xit|[Rr]eturn)[ _]?[Cc]ode\w{0,3}(?: list)?\W{1,4}[\[(]"
        r"(?P<codes>-?\d{1,3}(?:(?:, ?| )-?\d{1,3})+)[\])]"
    )
    def on_list(self, line: FoundLine, match: Match) -> None:
        """Note the codes of all processes, in the order in which they were started."""
        for rank, code in enumerate(map(int, re.findall(r"-?\d+", match["codes"]))):
            if code and self._count < MAX_EXITS:
                self._count += 1
                self._lists.append(exit_of(Who(rank=rank, trust=Trust.INFERRED), line, code))

    @wants(r"\bthe trainer process with rank=\[(?P<ranks>\d+(?:, ?\d+)*)\] was aborted")
    def on_aborted(self, line: FoundLine, match: Match) -> None:
        """Note the ranks that Paddle's launcher saw abort."""
        for rank in unfold(match["ranks"])[: MAX_EXITS - self._count]:
            self._count += 1
            self._lists.append(exit_of(Who(rank=rank, trust=Trust.CONTENT), line, 1))

    def facts(self) -> Iterator[Fact]:
        """Yield the ends of which several are told alike; a clean one is none that counts."""
        for ends in self._ends.values():
            pids = {end.pid for end in ends}
            indices = {end.index for end in ends}
            if len(pids) < 2 and len({(end.name, end.index) for end in ends}) < 2:
                continue
            ranks = len({end.name for end in ends}) == 1 and indices == set(range(len(indices)))
            for end in ends:
                if end.row.exitcode != 0:
                    yield replace(end.row, who=_who(end, ranks=ranks))
        yield from self._lists


def _who(end: _End, *, ranks: bool) -> Who:
    if ranks:
        trust = Trust.CONTENT if end.name.lower().endswith("rank") else Trust.INFERRED
        return Who(rank=end.index, trust=trust, pid=end.pid)
    if end.pid is not None:
        return Who(pid=end.pid)
    label = f"{end.name}-{end.index}"
    return Who(label=label, host=label)
