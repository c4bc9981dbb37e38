"""The file that ranks meet through (``file://``), as each of them sees it.

Layout, by torch/csrc/distributed/c10d/FileStore.cpp: entries are appended, each a key and a
value with its length in 4 bytes before it, in host order; the last of a key counts. ``refcount/``
(older: ``cleanup/``) counts processes, other keys begin with a slash. It is read as a plain
file: nothing is locked or written.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator

from whyhang.analyzer.facts import FileView, Source, Who
from whyhang.analyzer.redact import redact
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.probes.probe import Collected, Probe, Site

MAX_BYTES = 4 << 20
MAX_FILES = 16

_IN_COMMAND = re.compile(r"file://(/[^\s'\"?]+)")
_COUNTS = {"refcount/", "cleanup/"}


def collect(site: Site, collected: Collected) -> None:
    """Look at every file that ranks meet through, once for each set of mounts they have."""
    host = site.host
    files = {spot.who.pid: spot.address.file for spot in site.spots if spot.address is not None}
    users: dict[tuple[str, str], list[int]] = {}
    for pid in (member.pid for member in site.job.ranks):
        match = _IN_COMMAND.search("\n".join(host.arguments(pid)))
        path = files.get(pid) or (match[1] if match is not None else None)
        if path is not None:
            mounts = host.proc.namespace(pid, "mnt") or ""
            users.setdefault((path, mounts), []).append(pid)
    for (path, _), pids in list(users.items())[:MAX_FILES]:
        collected.facts.append(_view(host, path, pids, site.hostname))


def _view(host: Host, path: str, pids: list[int], hostname: str) -> FileView:
    reached = host.proc.path_for(pids[0], path)
    folder = host.files.read(reached.rpartition("/")[0], most=0)
    content = host.files.read(reached, most=MAX_BYTES)
    entries = list(entries_of(content.data))
    counted = [int(value) for key, value in entries if key in _COUNTS and value.isdecimal()]
    times = Counter(key.removeprefix("/") for key, _ in entries if key.startswith("/"))
    written = content.modified_at
    return FileView(
        who=Who(host=hostname),
        source=Source(file="file_stores.json"),
        path=redact(path),
        asked_by=tuple(pids),
        folder_exists=not (folder.missing or folder.is_file),
        exists=not content.missing,
        why="" if content.missing else content.trouble,
        device=content.device,
        inode=content.inode,
        size=content.length,
        modified_at=None if written is None else round(written, 2),
        processes=max(counted, default=None),
        keys=tuple(sorted(redact(key) for key in times)),
        repeated=tuple(sorted(redact(key) for key, count in times.items() if count > 1)),
    )


def entries_of(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield key and value of each entry; stops at what is none."""
    texts: list[str] = []
    rest = memoryview(data)
    while len(rest) >= 4:
        end = 4 + int.from_bytes(rest[:4], sys.byteorder)
        if end > len(rest):
            break
        texts.append(bytes(rest[4:end]).decode("utf-8", "backslashreplace"))
        rest = rest[end:]
    for key, value in zip(texts[::2], texts[1::2], strict=False):
        if not key:
            return
        yield key, value


PROBE = Probe(name="the file that ranks meet through", limit=2.5, collect=collect)
