"""The reader of what tools of GPUs, hosts and clusters print, alone or among other lines.

One pass over the lines of each host; where one of the known beginnings stands, its parser reads on
to the end of that print. The parsers stand in ``gpu/`` and ``cluster/``.
"""

from collections import Counter
from collections.abc import Hashable, Iterator

from whyhang.analyzer.facts import Fact, Statement, replace
from whyhang.analyzer.reading import Document
from whyhang.collectors import limits
from whyhang.collectors.cluster import hosts, launch, network, schedulers
from whyhang.collectors.files.marks import Marks
from whyhang.collectors.gpu import links, monitor, query, table
from whyhang.collectors.gpu.fields import Draft
from whyhang.collectors.prints import Parser, PrintedLine, by_host

MAX_OWNED = 128 << 10
"""Bytes of a file that may be read by the reader of prints alone."""

MAX_BYTES, MAX_GPU_BYTES = 1 << 20, 32 << 20

_GPU_MARKS = frozenset(
    {b"NVIDIA-SMI ", b"==NVSMI LOG==", b"Unable to determine the device handle for"}
    | {b"(UUID: GPU-", b"# gpu ", b"#gpu ", b"CPU Affinity", b"Time gpu", b"Time        gpu"}
    | {b"| Diagnostic  ", b"GPU%", b"GPU use (%)", b"\tGPU1", b" Link 0: ", b"nvidia-bug-report"}
    | {b"utilization.gpu", b"gpu_uuid", b"memory.used", b"\nGPU-"}
)
"""One of these is in every print of GPUs, but for some tables that are CSV alone."""

_GPU_PARSERS: dict[str, tuple[Parser, ...]] = {  # by how a line begins
    "|": (table.parse, links.parse_diag),
    "=": (query.parse_log,),
    "#": (monitor.parse,),
    "G": (
        *(links.parse, links.parse_topology, query.parse_log),
        *(monitor.parse_rocm, monitor.parse_rocm_values),
    ),
    "D": (monitor.parse_rocm,),
}
_PARSERS: dict[bytes, Parser] = {  # by what is in the text
    **dict.fromkeys((b"CA '", b"nfiniband device '", b"hca_id:"), network.adapter),
    **dict.fromkeys((b" physical_state ", b" mtu ", b"Link detected:"), network.interface),
    **dict.fromkeys((b"/16", b"/24", b"/30", b"hostname -", b" UP ", b" DOWN "), network.addresses),
    **dict.fromkeys(
        (b"# Port ", b"NIC statistics:", b"counters/", b" local_ack_"), network.counters
    ),
    **dict.fromkeys((b"JobID", b"JOBID", b"NODELIST"), schedulers.slurm_table),
    **dict.fromkeys((b"JobId=", b"NodeName="), schedulers.slurm_record),
    **dict.fromkeys((b"READY ", b"ROLES ", b" STATE "), schedulers.kubectl_table),
    **dict.fromkeys((b"PID ", b" PID"), hosts.processes),
    b" slots=": launch.hostfile,
    b"% /": hosts.room,
    b"LISTEN": hosts.listener,
    b"Namespace:": schedulers.kubectl_description,
    b"kind: ": launch.specification,
    b"#SBATCH": launch.script,
    b"ax locked memory ": hosts.limit,
    **dict.fromkeys((b"NCCL_", b"GLOO_", b"MASTER_", b"WORLD_SIZE="), hosts.variable),
}
_MARKS = Marks(*_GPU_MARKS, *_PARSERS)
_SHARED = (
    *(table.UNREACHABLE.encode(), b"Namespace:", b"kind: ", b"#SBATCH"),
    *(b"NCCL_", b"GLOO_", b"MASTER_", b"WORLD_SIZE"),
)
"""Failures, descriptions of pods, scripts and environments are for the reader of logs, too."""

# How lines begin that may stand between prints in a file of theirs alone.
_BESIDE = limits.compile(
    r"[^$#]{0,200}[$#] |Filesystem |State |Proto |Active |COMMAND |[=#*>-]{2}|.{1,80}:\s*$"
)
# The same around matrices and tables of GPUs: a date, NICs, the legend.
_GPU_BESIDE = limits.compile(
    r"[|+=-]|[A-Z][a-z]{2} [A-Z][a-z]{2} ++\d++ [\d:]{8} \d{4}\s*+$|NIC\d++\s|Legend:|NIC Legend:"
    r"|(?:X|SYS|NODE|PHB|PXB|PIX|PSB|NV#)\s++="
)


class PrintReader:
    """Reads nvidia-smi, dcgmi, rocm-smi, ibstat, ip, ethtool, sacct, kubectl and their like."""

    name = "output of tools"

    def sniff(self, document: Document) -> bool:
        """Return whether it holds a mark of such a print, or begins as CSV."""
        return bool(_MARKS.within(document.head)) or _tells_of_gpus(document.head)

    def owns(self, document: Document) -> bool:
        """Return whether it is CSV, or a short file that these tools alone wrote."""
        data = document.head
        if _is_csv(data):
            return True
        if not 0 < document.size == len(data) <= MAX_OWNED or any(m in data for m in _SHARED):
            return False
        text, _ = limits.bounded(document, data.decode("utf-8", "replace"))
        beside = _GPU_BESIDE if _tells_of_gpus(data) else _BESIDE
        prints = [one for _, one in _prints(document, data, text)]
        return any(isinstance(one, list) for one in prints) and all(
            isinstance(one, list) or beside.match(one.text.lstrip()) for one in prints
        )

    def read(self, document: Document) -> Iterator[Fact]:
        """Yield what each print says; samples of a GPU are counted, or told by the bundle."""
        data = document.content(MAX_GPU_BYTES if _tells_of_gpus(document.head) else MAX_BYTES)
        text, gaps = limits.bounded(document, data.decode("utf-8", "replace"))
        yield from gaps
        samples: Counter[Hashable] = Counter()
        for host, printed in _prints(document, data, text):
            for one in printed if isinstance(printed, list) else ():
                if not isinstance(one, Draft):
                    yield replace(one, who=replace(one.who, host=one.who.host or host))
                    continue
                own = one.fields
                key = (host, one.tool, own.get("uuid") or own.get("bus") or own.get("index"))
                yield one.fact(document, host, samples[key])
                samples[key] += 1


def _prints(
    document: Document, data: bytes, text: str
) -> Iterator[tuple[str | None, list[Draft | Statement] | PrintedLine]]:
    """Yield with its host what each print says, and each line between prints that is not empty."""
    tells_of_gpus = _tells_of_gpus(data)
    marks = _MARKS.within(data)
    some = dict.fromkeys(parser for mark, parser in _PARSERS.items() if mark in marks)
    for lines in by_host(document, text):
        for line in lines:
            if not line.text.strip():
                continue
            for parse in (*(_gpu_parsers(line.text) if tells_of_gpus else ()), *some):
                printed = [*parse(lines)]
                if lines.next is not line:
                    yield lines.host, printed
                    break
            else:
                yield lines.host, line


def _gpu_parsers(text: str) -> Iterator[Parser]:
    """Yield the parsers of prints of GPUs that may begin with this line."""
    if table.UNREACHABLE in text:
        yield table.parse_lost
    yield from _GPU_PARSERS.get(text.lstrip()[0], ())
    if "," in text:
        yield query.parse_csv


def _tells_of_gpus(data: bytes) -> bool:
    if b"<nvidia_smi_log" in data[:4096]:
        return False
    return bool(
        _GPU_MARKS & _MARKS.within(data) or data.startswith((b"GPU-", b"MIG-")) or _is_csv(data)
    )


def _is_csv(head: bytes) -> bool:
    """Return whether it begins with a header of ``--query-gpu``."""
    first = head[:8192].lstrip(b"\xef\xbb\xbf\r\n \t").partition(b"\n")[0]
    return query.columns(first.decode("utf-8", "replace").strip()) is not None
