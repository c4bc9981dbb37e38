"""Where torch writes the dumps of its flight recorder, and what lies there now.

A dump goes to a path that the environment chooses, with the rank behind it. The default has
moved: torch 2.2 to 2.6 ``/tmp/nccl_trace_rank_``; then ``~/.cache/torch/``; since 2.9
``$XDG_CACHE_HOME/torch/comm_lib_trace_rank_``. A later run overwrites the dumps of an earlier
one, and leaves those of ranks that it does not have.
"""

import os
import re
from collections.abc import Mapping

from whyhang.analyzer.facts import Record

SAME_RUN = 900.0
"""Dumps of one hang are written within a few minutes; torch gives each rank up to 60 s, twice."""

_CHOICES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
_NAMES = ("comm_lib_trace_rank_", "nccl_trace_rank_")


class Left(Record):
    """Dumps that one run has left: their paths in order of rank, and when the last was written.

    ``older`` counts dumps beside them that are of another run.
    """

    prefix: str
    files: tuple[str, ...]
    written_at: float
    older: int = 0


def prefixes(environ: Mapping[str, str]) -> tuple[str, ...]:
    """List where the recorder of a process may write, its own choice first."""
    chosen = [environ.get(name) for name in _CHOICES]
    home = environ.get("HOME")
    caches = [environ.get("XDG_CACHE_HOME"), f"{home}/.cache" if home else None]
    places = [f"{cache}/torch/{name}" for cache in caches if cache for name in _NAMES]
    return tuple(dict.fromkeys([*(c for c in chosen if c), *places, f"/tmp/{_NAMES[1]}"]))  # noqa: S108


def left_behind(environ: Mapping[str, str]) -> Left | None:
    """Find the dumps that were written last, in all places that this environment tells of."""
    best: Left | None = None
    for prefix in prefixes(environ):
        dumps = _dumps(prefix)
        if not dumps:
            continue
        newest = max(written for _, written in dumps.values())
        if best is not None and newest <= best.written_at:
            continue
        same = [rank for rank, (_, written) in dumps.items() if newest - written <= SAME_RUN]
        best = Left(
            prefix=prefix,
            files=tuple(dumps[rank][0] for rank in sorted(same)),
            written_at=newest,
            older=len(dumps) - len(same),
        )
    return best


def _dumps(prefix: str) -> dict[int, tuple[str, float]]:
    """List the plain files that are the prefix and a rank: by rank, path and time of writing."""
    folder, _, start = prefix.rpartition("/")
    name = re.compile(rf"{re.escape(start)}(\d{{1,6}})")
    dumps: dict[int, tuple[str, float]] = {}
    try:
        with os.scandir(folder or ("/" if prefix[:1] == "/" else ".")) as entries:
            for entry in entries:
                match = name.fullmatch(entry.name)
                if match is not None and entry.is_file():
                    dumps[int(match[1])] = (entry.path, entry.stat().st_mtime)
    except OSError:
        return dumps
    return dumps
