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

from whyhang.analyzer.model import Claim, Record, Source, Who
from whyhang.analyzer.redact import redact

MEETS_AT, JOINS_AS, JOINS_OF = "meets_at", "joins_as", "joins_of"
"""What the claims are about: the address, the rank and the world size of the call."""

MOST = 64
"""Ranks asked on one host."""

_INIT = b"init_process_group"
_NAMES = {"init_method", "url", "hostname", "port", "rank", "world_size"}
_FILES = ("torch/distributed/distributed_c10d.py", "torch/distributed/rendezvous.py")
_ADDRESS = re.compile(r"(?:tcp://)?(?P<host>\[[^\]]+\]|[^:/\[\]]+):(?P<port>\d+)")


class Spot(Record):
    """What one rank was told: ``address`` is "host:port" or a ``file://`` URL."""

    pid: int
    address: str | None = None
    rank: int | None = None
    world_size: int | None = None

    def host_port(self) -> tuple[str, int] | None:
        """Split the address of a store that listens on a port."""
        match = _ADDRESS.match(self.address or "")
        return (match["host"].strip("[]"), int(match["port"])) if match else None


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


def read_spot(pid: int, data: bytes) -> Spot | None:
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


def _spot(pid: int, said: Mapping[str, str]) -> Spot:
    address = None
    if "hostname" in said and "port" in said:
        name = said["hostname"]
        address = f"[{name}]:{said['port']}" if ":" in name else f"{name}:{said['port']}"
    else:
        url = said.get("url", said.get("init_method", ""))
        if url.startswith("file://"):
            address = url.partition("?")[0]
        elif url.startswith("tcp://"):
            match = _ADDRESS.match(url)
            address = f"{match['host']}:{match['port']}" if match else None
    return Spot(
        pid=pid,
        address=None if address is None else redact(address),
        rank=_whole(said.get("rank")),
        world_size=_whole(said.get("world_size")),
    )


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def claims_of(spots: Iterable[Spot], who: Mapping[int, Who]) -> Iterator[Claim]:
    """Put what the ranks were told into claims."""
    for spot in spots:
        told = {MEETS_AT: spot.address, JOINS_AS: spot.rank, JOINS_OF: spot.world_size}
        for about, value in told.items():
            if value is not None:
                yield Claim(
                    about=about,
                    value=str(value),
                    who=who[spot.pid],
                    source=Source(file="claims.json"),
                )
