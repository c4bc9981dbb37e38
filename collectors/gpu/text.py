"""Text in which GPU tools have printed something: their output alone, or among other lines."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator

from whyhang.analyzer.facts import Fact, Who
from whyhang.analyzer.reading import Document
from whyhang.collectors import limits
from whyhang.collectors.files.marks import Marks
from whyhang.collectors.gpu import links, monitor, query, table
from whyhang.collectors.gpu.fields import Draft
from whyhang.collectors.prints import Parser, PrintReader

_MARKS = Marks(
    *(b"NVIDIA-SMI ", b"==NVSMI LOG==", b"Unable to determine the device handle for"),
    *(b"(UUID: GPU-", b"# gpu ", b"#gpu ", b"CPU Affinity"),
    *(b"Time gpu", b"Time        gpu", b"| Diagnostic  ", b"GPU%", b"GPU use (%)", b"\tGPU1"),
    *(b" Link 0: ", b"nvidia-bug-report"),
    *(b"utilization.gpu", b"gpu_uuid", b"memory.used", b"\nGPU-"),
)
"""One of these is in every text that is read here, but for some tables that are CSV alone."""

# What stands around matrices and tables: a date, NICs, the legend.
_BESIDE = limits.compile(
    r"[|+=-]|[A-Z][a-z]{2} [A-Z][a-z]{2} ++\d++ [\d:]{8} \d{4}\s*+$|NIC\d++\s|Legend:|NIC Legend:"
    r"|(?:X|SYS|NODE|PHB|PXB|PIX|PSB|NV#)\s++="
)

_BY_START: dict[str, tuple[Parser[Draft], ...]] = {
    "|": (table.parse, links.parse_diag),
    "=": (query.parse_log,),
    "#": (monitor.parse,),
    "G": (
        *(links.parse, links.parse_topology, query.parse_log),
        *(monitor.parse_rocm, monitor.parse_rocm_values),
    ),
    "D": (monitor.parse_rocm,),
}


class TextReader(PrintReader[Draft]):
    """Reads what nvidia-smi, dcgmi diag and rocm-smi print as text and CSV."""

    name = "output of GPU tools"
    marks = _MARKS
    max_bytes = 32 << 20
    beside = _BESIDE
    shared = (table.UNREACHABLE.encode(),)  # failures are for other readers, too

    def parsers(self, data: bytes) -> Callable[[str], Iterable[Parser[Draft]]]:
        """Return what gives parsers by how a line begins."""
        del data
        return _parsers

    def sniff(self, document: Document) -> bool:
        """Return whether it holds a mark of such a print, or begins as CSV."""
        head = document.head
        if b"<nvidia_smi_log" in head[:4096]:
            return False
        return super().sniff(document) or head.startswith((b"GPU-", b"MIG-")) or _is_csv(head)

    def owns(self, document: Document) -> bool:
        """Return whether it is CSV, or a short file that these tools alone wrote."""
        return _is_csv(document.head) or super().owns(document)

    def facts(
        self, document: Document, printed: Iterable[tuple[str | None, Draft]]
    ) -> Iterator[Fact]:
        """Yield a fact for each GPU and sample; samples are counted, or told by the bundle."""
        samples: Counter[Hashable] = Counter()
        for host, gpu in printed:
            who, own = Who(host=gpu.host or host), gpu.fields
            key = (who.host, gpu.tool, own.get("uuid") or own.get("bus") or own.get("index"))
            look = samples[key] if document.look is None else document.look
            samples[key] += 1
            taken_at = gpu.taken_at if document.taken_at is None else document.taken_at
            yield gpu.fact(who, document.source(gpu.line), look, taken_at)


def _is_csv(head: bytes) -> bool:
    """Return whether the first line that is not empty is a header of ``--query-gpu``."""
    first = head[:8192].lstrip(b"\xef\xbb\xbf\r\n \t").partition(b"\n")[0]
    return query.columns(first.decode("utf-8", "replace").strip()) is not None


def _parsers(text: str) -> Iterator[Parser[Draft]]:
    """Yield the parsers of prints that may begin with this line."""
    if table.UNREACHABLE in text:
        yield table.parse_lost
    yield from _BY_START.get(text.lstrip()[0], ())
    if "," in text:
        yield query.parse_csv
