"""What the job prints: log files that its processes have open, or that its launcher names.

A file is read through the process that has it open, so it may be deleted, or lie in a container.
Where the ranks have ended nobody has their logs open any more; then what was seen before is read
once more, and scripts and command lines of what is left tell where they wrote to.
"""

import itertools
import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

from whyhang.analyzer.facts import Record, Trust, Who, replace
from whyhang.analyzer.redact import redact
from whyhang.collectors import tables
from whyhang.collectors.files.naming import from_path
from whyhang.collectors.live.files import Content
from whyhang.collectors.live.job.members import JobProcess
from whyhang.collectors.live.probes.probe import Collected, Probe, Site
from whyhang.collectors.live.words import gap

MAX_FILES = 64
MAX_BYTES = 8 << 20
"""Of one file; of a longer one its end is read."""

MAX_TOTAL = 64 << 20
SLACK = 5.0
"""Seconds by which the clocks of processes and files may differ."""

DEPTH = 4
"""Folders below one that was named, as torchrun makes them: run, attempt, rank."""

_STANDARD = (1, 2)


class _Names(Record):
    network: re.Pattern[str]
    of_process: re.Pattern[str]
    number: re.Pattern[str]
    log_name: re.Pattern[str]
    no_file: re.Pattern[str]
    redirected: re.Pattern[str]
    option: re.Pattern[str]
    assigned: re.Pattern[str]
    variable: re.Pattern[str]


_NAMES = tables.patterns(__package__, "logs.toml", _Names)


def collect(site: Site, collected: Collected) -> None:
    """Read the logs once the last look has been taken, each file once."""
    site.wait_for_last()
    files, others = site.host.files, site.options.others_logs
    seen: set[tuple[int | None, int | None]] = set()  # what whyhang itself writes to, too
    seen |= {(facts.st_dev, facts.st_ino) for facts in map(os.fstat, _STANDARD)}
    names: set[str] = set()
    total = 0
    stats = [site.host.stats[member.pid] for member in site.job.members]
    began = min((site.host.proc.started_at(stat) or 0.0 for stat in stats), default=0.0)
    for path, shown, who in candidates(site):
        if len(names) == MAX_FILES or total > MAX_TOTAL:
            break
        content = files.read(path, most=0)
        if not content.is_file or not content.length or (content.device, content.inode) in seen:
            continue
        if others and identity(site, path, content) in others:
            continue
        if (content.modified_at or began) < began - SLACK:
            continue  # of an earlier job
        seen.add((content.device, content.inode))
        start = max(0, content.length - MAX_BYTES)
        content = files.read(path, most=MAX_BYTES, start=start)
        if content.trouble or b"\0" in content.data[:4096]:
            continue
        total += len(content.data)
        names.add(name := _free_name(shown, names))
        trust = who.trust if who.rank is not None else Trust.NONE
        about: dict[str, object] = {"pid": who.pid, "rank": who.rank, "trust": trust}
        about |= {"host": who.host, "local_rank": who.local_rank, "taken_at": content.modified_at}
        collected.files.append(site.file(name, "log", content.data, **about))
        if start:
            process, most = Who(host=site.hostname, pid=who.pid), MAX_BYTES >> 20
            collected.facts.append(gap("log-cut", process, path=redact(shown), most=most))


def identities(site: Site) -> dict[str, bool]:
    """Return the logs that would be read, each with whether a rank of this host alone writes it.

    Hosts that share a file system give the same name to the same file.
    """
    listed: dict[str, bool] = {}
    for path, _, who in itertools.islice(candidates(site), MAX_FILES):
        content = site.host.files.read(path, most=0)
        if content.is_file and content.length:
            name = identity(site, path, content)
            listed[name] = listed.get(name, False) or who.rank is not None
    return listed


def identity(site: Site, path: str, content: Content) -> str:
    """Name a file by its file system and its number there, alike on all hosts that mount it."""
    proc, pid, shown = site.host.proc, os.getpid(), path
    if match := _NAMES.of_process.match(path):
        pid, shown = int(match["pid"]), proc.link_of(path.removeprefix(f"{proc.root}/")) or path
    _, system = proc.mount_of(pid, shown)
    if not _NAMES.network.match(system):
        boot = proc.bytes_of("sys/kernel/random/boot_id") or b""
        system = f"{boot.decode().strip()}:{content.device}"
    return f"{system}:{content.inode}"


def candidates(site: Site) -> Iterator[tuple[str, str, Who]]:
    """Yield files that may be logs: where to read each, its name, and whose it is."""
    host = site.host
    paths: dict[str, str] = {}
    for link, (path, writers) in _open_logs(site).items():
        paths[link] = path
        yield path, link, _remembered(site, link, writers)
    # a copy: another probe may see further ones meanwhile
    for link, (_, who) in list(site.logs.items()):
        if link not in paths:
            yield link, link, who
    world, here = site.job.world_size, len(site.job.ranks)
    elsewhere = world is not None and world > here and not _all_started_here(site, world)
    for link, path in _beside(site, paths):
        yield path, link, replace(from_path(link), host=None if elsewhere else site.hostname)
    if not site.job.ranks:
        for pid, name in named(site):
            for path in _below(site, host.proc.path_for(pid, name), DEPTH):
                yield path, path, Who(host=site.hostname)


def _open_logs(site: Site) -> dict[str, tuple[str, list[JobProcess]]]:
    """Return the logs that processes of the job have open: where each is read, who writes it."""
    proc = site.host.proc
    found: dict[str, tuple[str, list[JobProcess]]] = {}
    for member in site.job.members:
        for number, link in proc.open_files(member.pid).items():
            is_file = link.startswith("/") and not _NAMES.no_file.match(link)
            if is_file and _is_log(site, member.pid, number, link):
                path = f"{proc.root}/{member.pid}/fd/{number}"
                found.setdefault(link, (path, []))[1].append(member)
    return found


def _remembered(site: Site, link: str, writers: Iterable[JobProcess]) -> Who:
    """Return whose an open file is, by all that were ever seen to write to it.

    It is kept for when they have ended, unless it lies in files of their own, which end with them.
    """
    seen, known = site.logs.get(link, (frozenset[JobProcess](), None))
    every = seen.union(writers)
    who = known
    if who is None or every != seen:
        who = _whose(site, link, every) or Who(host=site.hostname)
    if any(site.host.proc.path_for(each.pid, link) == link for each in writers):
        site.logs[link] = (every, who)
    return who


def _all_started_here(site: Site, world: int) -> bool:
    """Return whether what started the ranks counts as many on this host as there are in all."""
    environs = (site.host.environ(rank.pid) for rank in site.job.ranks)
    return any(environ.get("LOCAL_WORLD_SIZE") == str(world) for environ in environs)


def _is_log(site: Site, pid: int, number: int, link: str) -> bool:
    """Return whether an open file is what a process prints, or one of that name that it writes."""
    if number in _STANDARD or not _NAMES.log_name.search(PurePosixPath(link).name):
        return number in _STANDARD
    flags = site.host.proc.file_info(pid, number).get(b"flags", b"0")
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY


def _beside(site: Site, paths: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield files that differ from an open log by a number: those of ranks that have ended."""
    folders: dict[str, int] = {}
    patterns: dict[str, set[str]] = {}
    for link, path in paths.items():
        folder, name = posixpath.split(link)
        if _NAMES.number.search(name) and _NAMES.log_name.search(name):
            folders.setdefault(folder, int(path.split("/")[-3]))
            patterns.setdefault(folder, set()).add(_NAMES.number.sub("0", name))
    for folder, pid in folders.items():
        place = site.host.proc.path_for(pid, folder)
        for name in sorted(site.host.files.names(place).names):
            link = f"{folder}/{name}"
            if _NAMES.number.sub("0", name) in patterns[folder] and link not in paths:
                yield link, f"{place}/{name}"


def _whose(site: Site, link: str, writers: Iterable[JobProcess]) -> Who | None:
    """Return the rank that alone writes to a file, with its helpers, and no shell above it."""
    ranks = {member.pid if member.owner is None else member.owner for member in writers}
    one = next((rank for rank in site.job.ranks if ranks == {rank.pid}), None)
    proc = site.host.proc
    above = () if one is None else site.host.ancestors(one.pid)
    inherited = any(link in proc.open_files(pid).values() for pid in above)
    return None if one is None or inherited else one.who(site.hostname)


def named(site: Site) -> Iterator[tuple[int, str]]:
    """Yield the files and folders that command lines and shell scripts of the tree name."""
    host = site.host
    for member in site.job.members:
        words = host.arguments(member.pid)
        texts = [" ".join(words)]
        for word in words[1:3]:
            if word.endswith((".sh", ".bash", ".sbatch")) or (
                PurePosixPath(words[0]).name in {"bash", "sh", "dash"} and not word.startswith("-")
            ):
                path = host.proc.path_for(member.pid, word)
                texts.append(host.files.read(path, most=1 << 20).data.decode(errors="replace"))
        values = dict(host.environ(member.pid))
        for text in texts:
            values |= {match["name"]: match["value"] for match in _NAMES.assigned.finditer(text)}
        for text in texts:
            for match in (*_NAMES.redirected.finditer(text), *_NAMES.option.finditer(text)):
                name = _filled(match["path"], values)
                if name and not name.startswith("/dev/") and not name.isdecimal():
                    yield member.pid, name


def _filled(text: str, values: Mapping[str, str]) -> str:
    """Fill in variables; empty where one of them is not known."""
    missing = [m for m in _NAMES.variable.finditer(text) if not values.get(m["name"])]
    if missing or "`" in text or "$(" in text:
        return ""
    return _NAMES.variable.sub(lambda match: values[match["name"]], text)


def _below(site: Site, path: str, depth: int) -> Iterator[str]:
    """Yield a file, or the logs in a folder and in those below it."""
    listed = site.host.files.names(path)
    if listed.trouble or not listed.names:
        yield path
        return
    for name in sorted(listed.names)[:MAX_FILES]:
        if _NAMES.log_name.search(name):
            yield f"{path}/{name}"
        elif depth and "." not in name:
            yield from _below(site, f"{path}/{name}", depth - 1)


def _free_name(shown: str, taken: Iterable[str]) -> str:
    """Name a file in the bundle by the tail of its path, as short as tells it from others."""
    parts = [re.sub(r"[^\w.=-]", "_", part) for part in PurePosixPath(redact(shown)).parts[1:]]
    names = ("/".join(("logs", *parts[-length:])) for length in range(1, len(parts) + 1))
    used = set(taken)
    return next((name for name in names if name not in used), f"logs/{len(used)}.log")


PROBE = Probe(name="the logs of the job", limit=10.0, collect=collect)
