"""A /proc made of plain files, for launchers that no test machine has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.proc import Proc

STATUS = """Name:\t{comm}
State:\t{state} (whatever)
Tgid:\t{pid}
TracerPid:\t0
Uid:\t0\t0\t0\t0
SigPnd:\t0000000000000000
ShdPnd:\t0000000000000000
voluntary_ctxt_switches:\t10
nonvoluntary_ctxt_switches:\t5
"""


class FakeProc:
    """Adds processes to a folder that ``Proc`` reads like the real thing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "stat").write_text("cpu 1 2 3\nbtime 1700000000\n")

    def add(
        self,
        pid: int,
        ppid: int,
        command: str | Iterable[str],
        environ: Mapping[str, object] | bytes | None = None,
        *,
        comm: str | None = None,
        state: str = "S",
        session: int = 1,
        started: int | None = None,
        exe: str | None = None,
        maps: str = "",
        threads: Mapping[int, str] | None = None,
        kernel: bool = False,
        status: int = 0,
    ) -> int:
        """Add one process; ``environ`` as bytes is taken as it is, None cannot be read."""
        arguments = command.split() if isinstance(command, str) else list(command)
        name = comm if comm is not None else Path(arguments[0]).name[:15]
        place = self.folder / str(pid)
        place.mkdir()
        flags = 0x00200000 if kernel else 0
        begun = pid if started is None else started
        for tid, thread in {pid: name, **(threads or {})}.items():
            line = f"{tid} ({thread}) {state} {ppid} 1 {session} 0 -1 {flags} "
            line += f"0 0 0 0 7 3 0 0 20 0 2 0 {begun}{' 0' * 29} {status}\n"
            inner = place / "task" / str(tid)
            inner.mkdir(parents=True)
            for where in (inner, place) if tid == pid else (inner,):
                (where / "stat").write_text(line)
                (where / "status").write_text(STATUS.format(comm=thread, state=state, pid=pid))
                (where / "wchan").write_text("futex_do_wait")
        (place / "cmdline").write_bytes(b"".join(a.encode() + b"\0" for a in arguments))
        (place / "maps").write_text(maps)
        if environ is not None:
            raw = environ if isinstance(environ, bytes) else _environment(environ)
            (place / "environ").write_bytes(raw)
        program = exe or arguments[0] if arguments else None
        if program is not None and state != "Z":
            (place / "exe").symlink_to(program)
        (place / "ns").mkdir()
        (place / "ns" / "net").symlink_to("net:[1]")
        return pid

    def host(self) -> Host:
        """Read the folder."""
        return Host(Proc(str(self.folder)))


def _environment(environ: Mapping[str, object]) -> bytes:
    return b"".join(f"{name}={value}\0".encode() for name, value in environ.items())


def elastic(rank: int, world: int = 4, port: int = 29500, **more: object) -> dict[str, object]:
    """Give the environment that torchrun sets for a rank."""
    return {
        "RANK": rank,
        "LOCAL_RANK": rank,
        "WORLD_SIZE": world,
        "LOCAL_WORLD_SIZE": world,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "TORCHELASTIC_RUN_ID": "none",
        **more,
    }
