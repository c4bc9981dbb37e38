"""Who a finding is about, said in its text: rank, host, GPU and process, wherever known."""

import re
import shlex
from collections.abc import Iterable, Mapping

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import GpuAddress, ranks_in_words
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.job.records import Member

_PIDS = ("pid", "worker", "child", "holder_pid")
"""Fields of a step that are the number of a process."""
MOST = 4  # members that are described one by one

_RANKS = re.compile(
    r"\branks? (?P<ranks>\d+(?:-\d+)?(?:(?:,| and) ?\d+(?:-\d+)?)*)(?P<more>,…)?", re.IGNORECASE
)
_OF_SLURM = re.compile(r"\b(?:sacct|scontrol|squeue)\b[^;#]*")
_JOB = re.compile(r"\bJOB\b")
_PATH = re.compile(r"(?<![$\w])PATH\b(?!=)")
_FILE = re.compile(r"\[Errno \d+\] [^:'\"]{1,80}: '(?P<path>/[^']{1,400})'")
_HOST = re.compile(
    r"\b(?P<who>[Tt]he|on that|[Tt]his) host\b(?!s|['\w]| (?:of|behind|that|or|for)\b)"
)


def ranks_named(text: str, among: Iterable[int]) -> set[int]:
    """Return which of some ranks a text names; where it names many in short, all of them."""
    named: set[int] = set()
    for match in _RANKS.finditer(text):
        if match["more"]:
            return set(among)
        for part in re.findall(r"\d+(?:-\d+)?", match["ranks"]):
            low, _, high = part.partition("-")
            named |= {rank for rank in among if int(low) <= rank <= int(high or low)}
    return named


def hosts_of(case: Case, hit: Hit) -> tuple[str, ...]:
    """Return the hosts that a finding is about: of its ranks, else those whose lines it quotes."""
    hosts = [case.member(number).host for number in hit.members]
    places = set() if hit.members or hit.ranks else hit.places
    hosts += [line.who.host for line in case.job.lines if line.source in places]
    return tuple(dict.fromkeys(host for host in hosts if host))


def with_names(title: str, culprits: Iterable[int] | None, hosts: tuple[str, ...] = ()) -> str:
    """Add the culprits to a title that does not name them, and their host where it is one."""
    names = _unnamed(title, culprits or ())
    if len(hosts) == 1 and hosts[0] not in title:
        names = f"{names} on {hosts[0]}".strip()
    if not names:
        return title
    return f"{title}, {names}" if title.endswith(")") else f"{title} ({names})"


def _unnamed(title: str, ranks: Iterable[int]) -> str:
    """Return some ranks in words, or nothing where a title names them all."""
    wanted = set(ranks)
    return "" if ranks_named(title, wanted) == wanted else ranks_in_words(wanted)


def to_look_at(title: str, ranks: Iterable[int]) -> str:
    """Add the ranks to look at to a title that is not about them."""
    names = _unnamed(title, ranks)
    return f"{title}; look at {names} first" if names else title


def whereabouts(text: str, case: Case, hit: Hit) -> str:
    """Say where few members run, and as which process, unless ``text`` says so."""
    members = [case.member(number) for number in hit.members]
    if not hit.names_culprit or len(members) > MOST:
        return ""
    several = len({member.host for member in case.job.members if member.host}) > 1
    places = [
        _place(case, one)
        for one in members
        if one.host and not (str(one.pid or "") in text and (one.host in text or not several))
    ]
    return f" Where: {', '.join(places)}." if places else ""


def on_host(text: str, hosts: tuple[str, ...]) -> str:
    """Name the host in what a remedy says of "the host", where it can only be one."""
    if len(hosts) != 1:
        return text
    return _HOST.sub(lambda match: "on " * match["who"].startswith("on ") + hosts[0], text)


def with_host_of_pid(
    text: str, template: str, words: Mapping[str, str], case: Case, hit: Hit
) -> str:
    """Say on which host the pid in a step is a process, where the job has several hosts.

    Of a command, whose words for people stand behind its ``  # ``, the other ranks that it goes for
    are named, too, with their pids and hosts.
    """
    pid = next((words[name] for name in _PIDS if f"{{{name}}}" in template and name in words), "")
    hosts = {member.host for member in case.job.members if member.host}
    if len(hosts) < 2 or not pid.isdecimal() or "on the host" in template:
        return text
    host, of_rank = _host_of(int(pid), case, hit)
    if host is None:
        return text
    others = [case.member(number) for number in hit.members[:MOST] if of_rank is not None]
    known = (one for one in others if one is not of_rank and one.pid is not None and one.host)
    rest = [f"{one.name}: {one.pid} on {one.host}" for one in known]
    more = f" ({', '.join(rest)})" if rest else ""
    command, mark, comment = text.partition("  # ")
    if mark or not text[:1].isupper():
        return f"{command}  # on {host}{more}{f': {comment}' if comment else ''}"
    first = text if text.split(" ", 1)[0].isupper() else text[0].lower() + text[1:]
    return f"On {host}: {first.rstrip('.')}{more}{'.' * text.endswith('.')}"


def _host_of(pid: int, case: Case, hit: Hit) -> tuple[str | None, Member | None]:
    """Return the host of the process of a finding with this pid, and which member it is, if one."""
    for number in (*hit.members, *hit.affected):
        member = case.member(number)
        if member.pid == pid:
            return member.host, member
        if any(child.pid == pid for child in (*member.children, *member.helpers)):
            return member.host, None
    above = [p.who.host for one in case.job.launchers if one.pid == pid for p in one.processes[-1:]]
    if len(set(above)) == 1:
        return above[0], None
    return (case.member(hit.members[0]).host if hit.members else None), None


def with_job(text: str, job: str | None) -> str:
    """Put the number of the job into commands of Slurm, where it is known."""
    return _OF_SLURM.sub(lambda command: _JOB.sub(job, command[0]), text) if job else text


def file_of(case: Case, hit: Hit) -> str | None:
    """Return the one file that a finding is about: its ranks wait for it, or lines name it."""
    files = {
        thread.file
        for number in hit.members
        for process in case.member(number).processes[-1:]
        for thread in process.threads
        if (place := case.states[number].place) is not None and thread.tid == place.tid
    }
    quotes = [piece.quote for piece in hit.evidence]
    files |= {match["path"] for quote in quotes for match in _FILE.finditer(quote)}
    known = {path for path in files if path}
    return known.pop() if len(known) == 1 else None


def with_path(text: str, path: str | None) -> str:
    """Put the file that a finding is about into a command, where it is known."""
    command, mark, words = text.partition("  #")
    return text if path is None else _PATH.sub(lambda _: shlex.quote(path), command) + mark + words


def _place(case: Case, member: Member) -> str:
    if member.rank is None:
        return member.name
    device = case.job.gpus.of(member.id)
    addresses = (a.bus for a in case.job.of(GpuAddress) if case.job.member_of(a.who) is member)
    gpu = device.name if device is not None else next((f"GPU {bus}" for bus in addresses), "")
    more = ", ".join(filter(None, (f"pid {member.pid}" if member.pid else "", gpu)))
    return f"{member.name} on {member.host}{f' ({more})' if more else ''}"
