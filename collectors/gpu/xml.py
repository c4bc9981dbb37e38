"""``nvidia-smi -q -x``: the whole state of every GPU of a host as XML.

Each ``<gpu>`` is cut out by its bytes and parsed for itself. So the document type with its
entities never reaches the parser (no bombs, nothing is fetched), a truncated file still gives
its whole GPUs, and a damaged one costs only itself. One file may hold several documents, as
``-l SECONDS`` and ``cat`` make them: each is one sample.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree as ET

from whyhang.analyzer.facts import Fact, Gap, Gpu, GpuProcess, GpuSlice, Who, replace
from whyhang.analyzer.reading import Document
from whyhang.collectors.gpu import values
from whyhang.collectors.gpu.fields import TREE, Draft, Tree

TOOL = "nvidia-smi -q -x"
MAX_BYTES = 256 << 20
MAX_GPUS = 4096  # on one host
MAX_GPU = 4 << 20
"""Bytes of one GPU; with a hundred processes it has about 50 KiB."""

_ROOT = b"<nvidia_smi_log"
_GPU = re.compile(rb"<gpu(?:\s+id\s*=\s*[\"']([^\"'<>]{0,80})[\"'])?\s*>")
_END = b"</gpu>"
_CLOSE = b"</nvidia_smi_log>"
_HEAD = {
    name: re.compile(rb"<%s>([^<]{0,200})</%s>" % (name.encode(), name.encode()))
    for name in ("timestamp", "driver_version", "cuda_version")
}
_COUNT = re.compile(rb"<attached_gpus>\s*(\d{1,4})\s*</attached_gpus>")


class XmlReader:
    """Reads the XML of nvidia-smi."""

    name = "nvidia-smi -q -x"

    def sniff(self, document: Document) -> bool:
        """Look for the root element."""
        return _ROOT in document.head

    def owns(self, document: Document) -> bool:
        """Say that no other reader need look at a file that is XML from its start."""
        return document.head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"<?xml", b"<!DOC", _ROOT))

    def read(self, document: Document) -> Iterator[Fact]:
        """Yield a fact for each GPU of each sample."""
        with document.open() as stream:
            data = stream.read(MAX_BYTES)
        starts = [found.start() for found in re.finditer(_ROOT + rb"[\s>]", data)]
        base, line = 0, 1
        for number, start in enumerate(starts):
            line += data.count(b"\n", base, start)
            base = start
            end = starts[number + 1] if number + 1 < len(starts) else len(data)
            yield from _log(document, data, start, end, line, number)


def _log(
    document: Document, data: bytes, start: int, end: int, line: int, number: int
) -> Iterator[Fact]:
    """Read one document of the file, between two offsets; it begins on ``line``."""
    first = _GPU.search(data, start, end)
    top = data[start : first.start() if first else end]
    head = {name: _text(pattern.search(top)) for name, pattern in _HEAD.items()}
    taken_at = (
        document.taken_at if document.taken_at is not None else values.moment(head["timestamp"])
    )
    look = document.look if document.look is not None else number
    said = _COUNT.search(top)
    attached = int(said[1]) if said else 0
    complete = data.find(_CLOSE, start, end) >= 0
    # With -i only some are printed, and their numbers are not told.
    chosen = 0 if complete and data.count(b"<gpu id", start, end) < attached else MAX_GPUS
    count, whole, position, base = 0, 0, start, start
    while (opened := _GPU.search(data, position, end)) is not None:
        line += data.count(b"\n", base, opened.start())
        base = opened.start()
        close = data.find(_END, opened.end(), end)
        position = opened.end() if close < 0 else close + len(_END)
        if close >= 0 and close - opened.start() <= MAX_GPU:
            index = count if count < chosen else None
            gpu = _gpu(document, data[opened.start() : position], opened[1], line, index, head)
            if gpu is not None:
                whole += 1
                yield replace(gpu, look=look, taken_at=taken_at)
        count += 1
        if close < 0:
            break
    expected = count if complete else max(count, attached)
    if whole < expected or not expected:
        yield _damaged(document, whole, expected, line)


def _gpu(
    document: Document,
    block: bytes,
    bus: bytes | None,
    line: int,
    index: int | None,
    head: dict[str, str],
) -> Gpu | None:
    """Read one GPU. nvidia-smi prints them in order of their index, and not the index itself."""
    try:
        root = ET.fromstring(block)  # noqa: S314 - see the module's first words
    except (ET.ParseError, ValueError, RecursionError):
        return None
    draft = Draft() if index is None else Draft(index=index)
    draft.put("driver", head["driver_version"])
    cuda = values.told(head["cuda_version"])
    if cuda is not None:
        draft.fields["cuda"] = cuda
    draft.put("bus", bus.decode("ascii", "replace") if bus else None)
    _walk(root, TREE, draft, "")
    if root.text and values.is_trouble(root.text):
        draft.trouble(root.text.strip(), lost=values.is_lost(root.text))
    _processes(root, draft)
    _slices(root, draft)
    who = Who(host=document.who.host)
    return draft.finish(who, document.source(line), TOOL)


def _walk(element: ET.Element, tree: Tree, draft: Draft, section: str) -> None:
    """Take the wanted values, level by level."""
    for child in element:
        wanted = tree.get(child.tag)
        if wanted is None:
            continue
        if isinstance(wanted, str):
            draft.put(wanted, child.text, name=f"{section}{child.tag}")
        elif wanted:
            _walk(child, wanted, draft, f"{child.tag}.")
        else:
            for reason in child:
                draft.reason(reason.tag, reason.text)


def _processes(root: ET.Element, draft: Draft) -> None:
    told = root.find("processes")
    if told is None or (told.text and values.told(told.text) is None and told.text.strip()):
        return  # "N/A": this user or board does not see them
    draft.processes = []
    for info in told.iter("process_info"):
        pid = values.number(info.findtext("pid"))
        if pid is None:
            continue
        name = values.told(info.findtext("process_name")) or ""
        draft.processes.append(
            GpuProcess(
                pid=int(pid),
                name=name[:200],
                memory=values.mebibytes(info.findtext("used_memory")),
                slice=_instance(info),
                graphics=(info.findtext("type") or "").strip() == "G",
            )
        )


def _slices(root: ET.Element, draft: Draft) -> None:
    found = [
        GpuSlice(
            device=_int(device.findtext("index")),
            instance=_instance(device),
            uuid=values.told(device.findtext("uuid")),
            memory_used=values.mebibytes(device.findtext("fb_memory_usage/used")),
        )
        for device in root.iterfind("mig_devices/mig_device")
    ]
    if found:
        draft.fields["slices"] = tuple(found)


def _instance(element: ET.Element) -> str | None:
    """Name a MIG instance: "7/0"."""
    gpu = values.told(element.findtext("gpu_instance_id"))
    compute = values.told(element.findtext("compute_instance_id"))
    return None if gpu is None else f"{gpu}/{compute or 0}"


def _int(text: str | None) -> int | None:
    return int(text) if text is not None and text.strip().isdecimal() else None


def _text(found: re.Match[bytes] | None) -> str:
    return found[1].decode("utf-8", "replace").strip() if found else ""


def _damaged(document: Document, whole: int, expected: int, line: int) -> Gap:
    if not expected:
        why = "it names no GPU"
    else:
        why = f"it is cut off or damaged: {whole} of {expected} GPUs can be read"
    return Gap(
        what=f"reading {document.path} as {TOOL}",
        why=why,
        cost="the state of the other GPUs is not known" if expected else "",
        remedy="Take it again: nvidia-smi -q -x",
        who=Who(host=document.who.host),
        source=document.source(line),
    )
