"""One bundle of what the hosts sent; each is read as any archive is, with the same bounds."""

import functools
import io
from collections.abc import Sequence
from typing import NamedTuple

from whyhang.analyzer.errors import BundleError
from whyhang.analyzer.facts import Gap, Statement, replace
from whyhang.analyzer.redact import redact_bytes
from whyhang.collectors.files import unpack
from whyhang.collectors.files.archive import refusal
from whyhang.collectors.files.bundle import MANIFEST, Bundle, Clock, Entry, Manifest, read_manifest
from whyhang.collectors.files.claims import rows
from whyhang.collectors.files.own_files import facts_file
from whyhang.collectors.files.spool import SpentError, UnpackBudget, UnpackLimits

LIMITS = UnpackLimits(total_bytes=256 << 20, members=50_000, ratio_free_bytes=32 << 20)
"""Of what one host sends; it is held in memory."""


class HostJobNumber(NamedTuple):
    """Which host, and which of the jobs there."""

    host: str
    number: int


class Parts:
    """The bundles of the hosts, to which each adds while it is asked."""

    def __init__(self) -> None:
        self._manifests: dict[HostJobNumber, Manifest] = {}
        self._files: dict[HostJobNumber, dict[str, bytes]] = {}

    @property
    def hosts(self) -> set[str]:
        """The hosts that sent something."""
        return {part.host for part in self._manifests}

    def add(self, part: HostJobNumber, blob: bytes) -> str:
        """Take the manifest and the new files of a host; return what is wrong with them."""
        try:
            files = _unpacked(blob)
            manifest = read_manifest(files.pop(MANIFEST, b""))
        except (BundleError, SpentError, ValueError, OSError, EOFError) as error:
            return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        known = self._files.setdefault(part, {})
        known.update(files)
        entries = tuple(entry for entry in manifest.files if entry.path in known)
        self._manifests[part] = replace(manifest, files=entries)
        return ""

    def bundle(
        self,
        gaps: Sequence[Gap],
        order: Sequence[str],
        printed: Sequence[tuple[str, bytes]] = (),
        clocks: Sequence[Clock] = (),
        silent: Sequence[Statement] = (),
    ) -> Bundle:
        """Return all as one bundle, hosts in this order; ``gaps`` are of those that are missing.

        ``silent`` is what is known of those of them that did not answer at all.
        ``printed`` is what the scheduler says of the job, by the name of a file.
        """
        files: dict[str, bytes] = {}
        entries: list[Entry] = []
        place = {name: number for number, name in enumerate(order)}
        parts = sorted(self._manifests, key=lambda part: (place.get(part.host, 0), part.number))
        for part in parts:
            taken = {path.partition("/")[0] for path in files}
            for entry in self._manifests[part].files:
                path = _free(entry.path, taken)
                files[path] = self._files[part][entry.path]
                entries.append(replace(entry, path=path))
        for name, data in printed:
            files[f"hosts.{name}"] = redact_bytes(data)
            entries.append(Entry(path=f"hosts.{name}", kind="printed"))
        if gaps:
            files["hosts.gaps.json"] = facts_file("gaps", gaps)
            entries.append(Entry(path="hosts.gaps.json", kind="gaps"))
        if silent:
            files["hosts.claims.json"] = facts_file("claims", [r for s in silent for r in rows(s)])
            entries.append(Entry(path="hosts.claims.json", kind="claims"))
        manifests = [self._manifests[part] for part in parts]
        first = manifests[0] if manifests else Manifest()
        touched = (text for manifest in manifests for text in manifest.touched)
        whole = replace(
            first,
            host=first.host if len(manifests) == 1 else None,
            target=None,
            looks=max((manifest.looks for manifest in manifests), default=0),
            touched=tuple(dict.fromkeys(touched)),
            clocks=tuple(clocks),
            files=tuple(entries),
        )
        return Bundle(manifest=whole, files=files)


def _free(path: str, taken: set[str]) -> str:
    """Give the folder of a host another name where one of that name has come."""
    folder, slash, rest = path.partition("/")
    number, name = 1, folder
    while name in taken:
        number += 1
        name = f"{folder}-{number}"
    return f"{name}{slash}{rest}"


def _unpacked(blob: bytes) -> dict[str, bytes]:
    """Unpack in memory. Raises ``ValueError`` or ``SpentError`` for what is no bundle."""
    budget = UnpackBudget(LIMITS)
    files: dict[str, bytes] = {}
    budget.enter(len(blob))
    for member in unpack.members(io.BytesIO(blob), blob[: unpack.MAGIC_BYTES], budget.spend):
        budget.count_member()
        if refusal(member) or member.stream is None:
            raise ValueError(f"a file in it cannot be: {member.name!r:.80}")
        read = functools.partial(member.stream.read, unpack.CHUNK)
        files[member.name] = b"".join(iter(read, b""))
    return files
