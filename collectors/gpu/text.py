"""Text in which GPU tools have printed something: their output alone, or among other lines.

One pass over the lines of each host; where one of the known beginnings stands, its parser reads
on to the end of that print. A file may hold the output of several tools, several samples and
several hosts.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from typing import TypeAlias

from whyhang.analyzer.facts import Fact, Gpu, Who
from whyhang.analyzer.reading import Document
from whyhang.collectors import limits
from whyhang.collectors.files.marks import Marks
from whyhang.collectors.gpu import links, monitor, query, table
from whyhang.collectors.gpu.fields import Draft
from whyhang.collectors.gpu.lines import Line, Lines, by_host

MAX_BYTES = 32 << 20
_MARKS = Marks(
    *(b"NVIDIA-SMI ", b"==NVSMI LOG==", b"Unable to determine the device handle for"),
    *(b"(UUID: GPU-", b"# gpu ", b"#gpu ", b"#Entity", b"# Entity", b"gpuId ", b"CPU Affinity"),
    *(b"Time gpu", b"Time        gpu", b"| Diagnostic  ", b"GPU%", b"GPU use (%)", b"\tGPU1"),
    *(b"NVLINK Error Counts", b" Link 0: ", b"'C, ", b"\xb0C, ", b"nvidia-bug-report"),
    *(b"utilization.gpu", b"gpu_uuid", b"memory.used", b"\nGPU-"),
)
"""One of these is in every text that is read here, but for some tables that are CSV alone."""

MAX_OWNED = 128 << 10
# What stands around matrices and tables: a date, NICs, the legend.
_BESIDE = limits.compile(
    r"[|+=-]|[A-Z][a-z]{2} [A-Z][a-z]{2} ++\d++ [\d:]{8} \d{4}$|NIC\d++\s|Legend:|NIC Legend:"
    r"|(?:X|SYS|NODE|PHB|PXB|PIX|PSB|NV#)\s++=|NvSwitches:|GPUs:|Key:"
)

_Parser: TypeAlias = Callable[[Lines], "list[Draft] | None"]
"""Reads the print that begins with the next line; None, and nothing is read, if none does."""

_BY_START: dict[str, tuple[_Parser, ...]] = {
    "|": (table.parse, links.parse_errors, links.parse_diag),
    "=": (query.parse_log,),
    "#": (monitor.parse,),
    "[": (monitor.parse_gpustat,),
    "G": (
        *(links.parse, links.parse_topology, query.parse_log),
        *(monitor.parse_rocm, monitor.parse_rocm_values),
    ),
    "D": (monitor.parse_rocm,),
    "g": (links.parse_states,),
}


class TextReader:
    """Reads what nvidia-smi, dcgmi, gpustat and rocm-smi print as text and CSV."""

    name = "output of GPU tools"

    def sniff(self, document: Document) -> bool:
        """Return whether it holds a mark of such a print, or begins as CSV."""
        head = document.head
        if b"<nvidia_smi_log" in head[:4096]:
            return False
        return bool(_MARKS.within(head)) or head.startswith((b"GPU-", b"MIG-")) or _is_csv(head)

    def owns(self, document: Document) -> bool:
        """Return whether it is CSV, or a short file that these tools alone wrote."""
        if _is_csv(document.head):
            return True
        if document.size > MAX_OWNED or document.size > len(document.head):
            return False
        text, _ = limits.bounded(document, document.head.decode("utf-8", "replace"))
        if table.UNREACHABLE in text:  # failures are for other readers, too
            return False
        return all(_is_print_alone(lines) for lines in by_host(document, text))

    def read(self, document: Document) -> Iterator[Fact]:
        """Yield a fact for each GPU and sample."""
        with document.open() as stream:
            text = stream.read(MAX_BYTES).decode("utf-8", "replace")
        text, gaps = limits.bounded(document, text)
        yield from gaps
        samples: Counter[Hashable] = Counter()
        for lines in by_host(document, text):
            for gpus in _prints(lines):
                for gpu in gpus if isinstance(gpus, list) else ():
                    yield _fact(document, lines.host, gpu, samples)


def _is_csv(head: bytes) -> bool:
    """Return whether the first line that is not empty is a header of ``--query-gpu``."""
    first = head[:8192].lstrip(b"\xef\xbb\xbf\r\n \t").partition(b"\n")[0]
    return query.columns(first.decode("utf-8", "replace").strip()) is not None


def _is_print_alone(lines: Lines) -> bool:
    """Return whether every line is of a tool's output."""
    count = 0
    for gpus_or_line in _prints(lines):
        if isinstance(gpus_or_line, list):
            count += len(gpus_or_line)
        elif not _BESIDE.match(gpus_or_line.text.strip()):
            return False
    return count > 0


def _prints(lines: Lines) -> Iterator[list[Draft] | Line]:
    """Yield the GPUs of each print, and each line between prints that is not empty."""
    for line in lines:
        if not line.text.strip():
            continue
        for parse in _parsers(line.text):
            gpus = parse(lines)
            if gpus is not None:
                yield gpus
                break
        else:
            yield line


def _parsers(text: str) -> Iterator[_Parser]:
    """Yield the parsers of prints that may begin with this line."""
    if table.UNREACHABLE in text:
        yield table.parse_lost
    yield from _BY_START.get(text.lstrip()[0], ())
    if "," in text:
        yield query.parse_csv


def _fact(document: Document, host: str | None, gpu: Draft, samples: Counter[Hashable]) -> Gpu:
    """Make the fact; the samples of each GPU by each tool are counted, or by the bundle."""
    who = Who(host=gpu.host or host)
    fields = gpu.fields
    key = (who.host, gpu.tool, fields.get("uuid") or fields.get("bus") or fields.get("index"))
    look = samples[key] if document.look is None else document.look
    samples[key] += 1
    taken_at = gpu.taken_at if document.taken_at is None else document.taken_at
    return gpu.fact(who, document.source(gpu.line), look, taken_at)
