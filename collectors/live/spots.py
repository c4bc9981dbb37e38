"""Where the ranks are told to meet, by the arguments of the calls that they start with.

A program may name the place itself (``init_method="tcp://…"``, ``file://…``), take it from a
file, or set MASTER_ADDR while it runs; then no environment tells it. While a rank is inside
``init_process_group``, py-spy's ``--locals`` shows the arguments. Of all variables only these
are kept: address, port, rank and world size.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from whyhang.analyzer.facts import Address, InitArguments, Source, Who
from whyhang.analyzer.redact import redact

MOST = 64
"""Ranks asked on one host."""

_INIT = b"init_process_group"
_NAMES = {"init_method", "url", "hostname", "port", "rank", "world_size"}
_FILES = ("torch/distributed/distributed_c10d.py", "torch/distributed/rendezvous.py")
_ADDRESS = re.compile(r"tcp://(?P<host>\[[^\]]+\]|[^:/\[\]]+):(?P<port>\d+)")


class _Local(msgspec.Struct):
    name: str
    repr: str | None = None


class _Frame(msgspec.Struct):
    name: str
    filename: str
    locals: list[_Local] | None = None


class _Thread(msgspec.Struct):
    frames: list[_Frame]


def starting(dumps: Mapping[int, bytes]) -> list[int]:
    """List the processes whose stack shows them inside ``init_process_group``."""
    return [pid for pid, data in dumps.items() if _INIT in data][:MOST]


def read_spot(pid: int, data: bytes) -> InitArguments | None:
    """Take what is needed out of ``py-spy dump --json --locals``, and nothing else."""
    try:
        threads = msgspec.json.decode(data, type=list[_Thread])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    for thread in threads:
        if any(_ours(frame) and frame.name == "init_process_group" for frame in thread.frames):
            return _spot(pid, dict(_said(thread.frames)))
    return None


def _ours(frame: _Frame) -> bool:
    return frame.filename.endswith(_FILES)


def _said(frames: Iterable[_Frame]) -> Iterator[tuple[str, str]]:
    """Yield the arguments, the outer before the inner: what is deeper is what counts."""
    for frame in reversed(list(frames)):
        if _ours(frame):
            for local in frame.locals or ():
                if local.name in _NAMES and local.repr not in {None, "None", "-1"}:
                    yield local.name, str(local.repr).strip("\"'")


def _spot(pid: int, said: Mapping[str, str]) -> InitArguments:
    return InitArguments(
        address=_address(said),
        rank=_whole(said.get("rank")),
        world_size=_whole(said.get("world_size")),
        who=Who(pid=pid),
        source=Source(file="claims.json"),
    )


def _address(said: Mapping[str, str]) -> Address | None:
    port = _whole(said.get("port"))
    if "hostname" in said and port is not None:
        return Address(host=redact(said["hostname"]), port=port)
    url = said.get("url", said.get("init_method", ""))
    if url.startswith("file://"):
        return Address(file=redact(url.partition("?")[0].removeprefix("file://")))
    if match := _ADDRESS.match(url):
        return Address(host=redact(match["host"].strip("[]")), port=int(match["port"]))
    return None


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
