"""``nvidia-smi -q -x``: the whole state of every GPU of a host as XML.

Each ``<gpu>`` is cut out by its bytes and parsed for itself. So the document type with its
entities never reaches the parser (no bombs, nothing is fetched), a truncated file still gives
its whole GPUs, and a damaged one costs only itself. One file may hold several documents, as
``-l SECONDS`` and ``cat`` make them: each is one sample.
"""

import contextlib
import re
from collections.abc import Iterator, Mapping
from xml.etree import ElementTree as ET

from whyhang.analyzer.facts import Fact, Gap, GpuSlice, Who, whole
from whyhang.analyzer.reading import Document
from whyhang.collectors import limits
from whyhang.collectors.gpu import values
from whyhang.collectors.gpu.fields import FIELDS, REASON_SECTIONS, SECTIONS, Draft

TOOL = "nvidia-smi -q -x"
MAX_BYTES = 256 << 20
MAX_GPU = 4 << 20
"""Bytes of one GPU; with a hundred processes it has about 50 KiB."""

_ROOT = b"<nvidia_smi_log"
_GPU = limits.compile(rb"<gpu(?:\s++id\s*+=\s*+[\"']([^\"'<>]{0,80})[\"'])?\s*+>")
_END = b"</gpu>"
_CLOSE = b"</nvidia_smi_log>"
_HEAD = limits.compile(
    rb"<(timestamp|driver_version|cuda_version|attached_gpus)>([^<]{0,200})</\1>"
)


class XmlReader:
    """Reads the XML of nvidia-smi."""

    name = TOOL

    def sniff(self, document: Document) -> bool:
        """Return whether the root element is in its head."""
        return _ROOT in document.head

    def owns(self, document: Document) -> bool:
        """Return whether it is XML from its start."""
        return document.head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"<?xml", b"<!DOC", _ROOT))

    def read(self, document: Document) -> Iterator[Fact]:
        """Yield a fact for each GPU of each sample."""
        data = document.content(MAX_BYTES)
        starts = [match.start() for match in re.finditer(_ROOT + rb"[\s>]", data)]
        base, line = 0, 1
        for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(data)], strict=True)):
            line += data.count(b"\n", base, start)
            base = start
            yield from _log(document, data, start, end, line, number)


def _log(
    document: Document, data: bytes, start: int, end: int, line: int, number: int
) -> Iterator[Fact]:
    """Read one document of the file, between two offsets; it begins on ``line``."""
    first = _GPU.search(data, start, end)
    top = data[start : first.start() if first else end]
    head = {m[1].decode(): m[2].decode("utf-8", "replace").strip() for m in _HEAD.finditer(top)}
    attached = whole(head.get("attached_gpus")) or 0
    complete = data.find(_CLOSE, start, end) >= 0
    # With -i only some are printed, and their numbers are not told.
    numbered = not complete or data.count(b"<gpu id", start, end) >= attached
    count, complete_gpus, position, base = 0, 0, start, start
    while (opened := _GPU.search(data, position, end)) is not None:
        line += data.count(b"\n", base, opened.start())
        base = opened.start()
        close = data.find(_END, opened.end(), end)
        position = opened.end() if close < 0 else close + len(_END)
        if close >= 0 and close - base <= MAX_GPU:
            gpu = Draft(TOOL, line, index=count if numbered else None)
            gpu.put("bus", (opened[1] or b"").decode("ascii", "replace"))
            with contextlib.suppress(ET.ParseError, ValueError, RecursionError):
                root = ET.fromstring(data[base:position])  # noqa: S314 - see the first words
                take(root, gpu, head)
                complete_gpus += 1
                gpu.taken_at = values.moment(head.get("timestamp"))
                yield gpu.fact(document, document.who.host, number)
        count += 1
        if close < 0:
            break
    expected = count if complete else max(count, attached)
    if complete_gpus < expected or not expected:
        yield _damaged(document, complete_gpus, expected, line)


def take(root: ET.Element, gpu: Draft, head: Mapping[str, str]) -> None:
    """Take the values of one GPU, and those of the head that are of all."""
    gpu.put("driver", head.get("driver_version"))
    gpu.put("cuda", head.get("cuda_version"))
    _walk(root, gpu, "")
    gpu.takes_trouble((root.text or "").strip())
    _processes(root, gpu)
    gpu.slices += [
        GpuSlice(uuid=values.present(device.findtext("uuid")))
        for device in root.iterfind("mig_devices/mig_device")
    ]


def _walk(element: ET.Element, gpu: Draft, section: str) -> None:
    """Take the wanted values, level by level; ``section`` is the path with a slash behind it."""
    for child in element:
        path = f"{section}{child.tag}"
        if path in FIELDS:
            gpu.put(FIELDS[path], child.text, name=".".join(path.split("/")[-2:]))
        elif path in SECTIONS:
            _walk(child, gpu, f"{path}/")
        elif path in REASON_SECTIONS:
            for reason in child.iter():
                gpu.put_reason(reason.tag, reason.text)


def _processes(root: ET.Element, gpu: Draft) -> None:
    processes = root.find("processes")
    text = (processes.text or "").strip() if processes is not None else "N/A"
    if processes is None or (text and values.present(text) is None):
        return  # "N/A": this user or board does not see them
    gpu.lists_processes()
    for info in processes.iter("process_info"):
        gpu.add_process(
            info.findtext("pid"),
            info.findtext("process_name"),
            info.findtext("used_memory"),
            instance=(info.findtext("gpu_instance_id"), info.findtext("compute_instance_id")),
            kind=info.findtext("type"),
        )


def _damaged(document: Document, whole: int, expected: int, line: int) -> Gap:
    damage = f"it is cut off or damaged: {whole} of {expected} GPUs can be read"
    return Gap(
        what=f"reading {document.path} as {TOOL}",
        why=damage if expected else "it names no GPU",
        cost="the state of the other GPUs is not known" if expected else "",
        remedy="Take it again: nvidia-smi -q -x",
        who=Who(host=document.who.host),
        source=document.source(line),
    )
