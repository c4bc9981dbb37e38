"""How launchers, schedulers and shells write whom they mean, and how a process ended."""

import re
import signal

from whyhang.analyzer.facts import Exit, Trust, Who
from whyhang.analyzer.job.world import LOOPBACK
from whyhang.collectors.logs.engine.matching import Match
from whyhang.collectors.logs.lines.line_reader import FoundLine

MAX_EXITS = 20000  # of one file
_WHAT = (
    ("Killed", signal.SIGKILL),
    ("Out Of Memory", signal.SIGKILL),
    ("OOMKilled", signal.SIGKILL),
    ("Segmentation fault", signal.SIGSEGV),
    ("Aborted", signal.SIGABRT),
    ("Bus error", signal.SIGBUS),
    ("Illegal instruction", signal.SIGILL),
    ("Floating point exception", signal.SIGFPE),
    ("Terminated", signal.SIGTERM),
)
EXIT_CODE = re.compile(r"exit(?:ed with)? (?:code|status):? *(?P<code>-?\d+)", re.IGNORECASE)


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


def exit_code(match: Match | re.Match[str]) -> int:
    """Return the exit code that the groups of a pattern give; minus a signal's number."""
    groups = match.groupdict()
    if sign := groups.get("signal"):
        return -int(sign) if sign.isdecimal() else -signal_of(sign)
    return code_of(groups["what"]) if groups.get("what") else int(groups.get("code") or 1)


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
    if end := EXIT_CODE.search(what):
        return int(end["code"])
    return next((-number for word, number in _WHAT if word in what), 1)
