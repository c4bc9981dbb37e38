"""Which GPU each process of a host uses, as the header of NCCL's lines tells: ``host:pid:tid [3]``.

The number is CUDA's within the process. Where each process sees all GPUs of its host it is what
launchers call the local rank; where each sees one, it is 0 everywhere and tells nothing. A line of
a channel between processes of one host tells the rank of who speaks as well, in its communicator.
"""

import re
from collections.abc import Iterator

from whyhang.analyzer.facts import NcclDevice, ProcessRank, Who
from whyhang.collectors.logs.lines.line_reader import LogFile
from whyhang.collectors.logs.text.line import clean

READ = 64 << 10  # bytes of the beginning of a file

_HEADER = re.compile(
    rb"(?P<host>[A-Za-z0-9][\w.-]{0,252}):(?P<pid>\d{1,9}):\d{1,9} \[(?P<device>\d{1,3})\] "
    rb"(?=[\w/.]+(?::\d+)? ?NCCL |NCCL )"
    rb"(?:NCCL INFO Channel \d+(?:/\d+)? : (?P<rank>\d{1,6})\[[0-9a-f]+\] -> "
    rb"\d+\[[0-9a-f]+\] via (?:P2P|SHM))?"
)


def devices(data: bytes, file: LogFile) -> Iterator[NcclDevice | ProcessRank]:
    """Yield the device of each process, and its rank where a line of it tells that."""
    head = data[:READ]
    if b" NCCL " not in head:
        return
    seen: dict[tuple[bytes, bytes, bytes], tuple[int, bytes | None]] = {}
    for match in _HEADER.finditer(head):
        key = (match["host"], match["pid"], match["device"])
        if key not in seen or (seen[key][1] is None and match["rank"]):
            seen[key] = (match.start(), match["rank"])
    for (host, pid, device), (at, rank) in seen.items():
        who = Who(host=host.decode(), pid=int(pid))
        source = file.document.source(head.count(b"\n", 0, at) + 1)
        start = head.rfind(b"\n", 0, at) + 1
        speaker = file.take_apart(clean(head[start : head.find(b"\n", at)]))[0].who
        if rank is None and speaker.rank is not None and speaker.pid == who.pid:
            yield ProcessRank(rank=speaker.rank, who=who, source=source)  # by a label before it
        number = None if rank is None else int(rank)
        yield NcclDevice(device=int(device), rank=number, who=who, source=source)
